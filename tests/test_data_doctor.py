"""The doctor says what is wrong with data instead of refusing it."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from holdfast.data.doctor import Finding, examine
from holdfast.data.sources import read_source
from holdfast.tasks.environment_checks import check_environment, determinism, replay
from tests.recorded_data import BOX, ENVIRONMENTS, Spaces, as_dicts, play


def results(episodes: Any, env: Any = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(read_source(episodes), env)}


def episode(seed: int, **own: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arrays = {"observations": rng.random((5, 2)), "actions": rng.integers(0, 3, 5), "rewards": rng.random(5)}
    return arrays | own


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_good_data_has_no_problems(name: str) -> None:
    make = ENVIRONMENTS[name]
    played = as_dicts(play(make))
    found = examine(read_source(played), make()) + check_environment(read_source(played), make)
    assert {finding.level for finding in found} <= {"ok", "note"}
    assert all(finding.means.endswith(".") and finding.advice.endswith(".") for finding in found)


WRONG: list[tuple[str, str, str, Callable[[], list[Any]]]] = [
    (
        "NaN and infinities",
        "problem",
        "step 3 of episode 1",
        lambda: [episode(0), episode(1, rewards=np.array([0, 0, 0, np.nan, np.inf]))],
    ),
    (
        "constant dimensions",
        "note",
        "observations[1]",
        lambda: [episode(0, observations=np.eye(5)[:, [0, 0]] * [1, 0])],
    ),
    ("actions", "warning", "All actions are the same", lambda: [episode(0, actions=np.ones(5, int))]),
    (
        "actions",
        "warning",
        "100.0% of the actions",
        lambda: [episode(0, actions=np.array([[-1.0], [1], [1], [-1], [1]]))],
    ),
    ("duplicate episodes", "warning", "2 is 0", lambda: [episode(0), episode(1), episode(0)]),
    ("lengths", "warning", "With one episode", lambda: [episode(0)]),
    (
        "lengths",
        "note",
        "1 episodes have a single step",
        lambda: [episode(0), {k: v[:1] for k, v in episode(1).items()}],
    ),
    ("rewards", "note", "There are no rewards", lambda: [episode(0, rewards=None)]),
    ("returns", "note", "All rewards are zero", lambda: [episode(0, rewards=np.zeros(5))]),
    ("returns", "note", "All are the same", lambda: [episode(n, rewards=np.ones(5)) for n in range(2)]),
    ("returns", "problem", "not finite", lambda: [episode(0, rewards=np.full(5, np.nan))]),
    ("spaces", "problem", "dictionaries, tuples", lambda: [episode(0, actions={"a": np.ones(5)})]),
]


@pytest.mark.parametrize(("name", "level", "said", "make"), WRONG)
def test_what_is_wrong_is_said(name: str, level: str, said: str, make: Callable[[], list[Any]]) -> None:
    finding = results(make())[name]
    assert finding.level == level
    assert said in finding.means


def test_histograms_count_every_episode() -> None:
    found = results([episode(seed) for seed in range(30)])
    for name in ("lengths", "returns"):
        numbers = found[name].numbers
        assert sum(numbers["counts"]) == 30
        assert len(numbers["edges"]) == len(numbers["counts"]) + 1


class Fixed(Spaces):
    """Every episode is the same."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        return super().reset(seed=0, options=options)


def test_an_environment_that_ignores_its_seed_is_deterministic() -> None:
    assert "n = 1" in determinism(lambda: Fixed(BOX, spaces.Discrete(3))).means
    assert determinism(ENVIRONMENTS["cartpole"]).level == "ok"


def test_recorded_actions_replay_in_their_environment_and_not_in_another() -> None:
    raw = read_source(as_dicts(play(ENVIRONMENTS["pendulum"])))
    assert "3 episodes were replayed, and all rewards agree" in replay(raw, ENVIRONMENTS["pendulum"]).means
    other = replay(raw, lambda: gymnasium.make("Pendulum-v1", g=3.0))
    assert other.level == "warning"
    assert "the reward of step" in other.means
    unseeded = read_source([{**one, "seed": None} for one in as_dicts(play(ENVIRONMENTS["pendulum"]))])
    assert replay(unseeded, ENVIRONMENTS["pendulum"]).level == "note"


def test_an_environment_that_fails_is_a_problem_that_is_said() -> None:
    def broken() -> gymnasium.Env:
        raise RuntimeError("no display")

    raw = read_source(as_dicts(play(ENVIRONMENTS["pendulum"])))
    assert [finding.level for finding in check_environment(raw, broken)] == ["problem", "problem"]
    assert "no display" in check_environment(raw, broken)[0].means
