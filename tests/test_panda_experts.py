"""The Panda experts solve their tasks, and are functions of what they see."""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("panda_gym")

from holdfast.benchmarks.panda.experts import Expert, Pick, Push, Reach
from holdfast.benchmarks.panda.tune import TuneConfig, open_environment, score, tune

FRESH = 2_000_000_000  # seeds that neither tuning nor the published scores use


@dataclass(frozen=True)
class Case:
    task: str
    expert: Callable[[], Expert]
    mean: float  # required of 1,000 episodes; 30 of them scatter, so the test allows a quarter more
    actions: int


CASES = [Case("reach", Reach, -0.205, 3), Case("push", Push, -1.15, 3), Case("pick-and-place", Pick, -1.45, 4)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.task)
def case(request: Any) -> Case:
    return request.param


@pytest.fixture(scope="module")
def env(case: Case) -> Iterator[Any]:
    env = open_environment(case.task)
    yield env
    env.close()


def test_an_expert_succeeds_at_the_required_return(case: Case, env: Any) -> None:
    result = score(env, case.expert(), range(FRESH, FRESH + 30))
    assert result.success >= 0.96
    assert result.mean >= 1.25 * case.mean


def test_an_expert_is_a_pure_function_with_actions_in_the_unit_box(case: Case, env: Any) -> None:
    expert, rng = case.expert(), np.random.default_rng(0)
    observation, _ = env.reset(seed=FRESH)
    for _ in range(100):
        seen = {
            name: (part + 0.1 * rng.standard_normal(part.shape)).astype(np.float32)
            for name, part in observation.items()
        }
        copy = {name: part.copy() for name, part in seen.items()}
        action = expert(seen)
        assert action.shape == (case.actions,)
        assert action.dtype == np.float32
        assert np.abs(action).max() <= 1
        assert all(np.array_equal(seen[name], copy[name]) for name in seen)  # nothing is written into what it was shown
        assert np.array_equal(action, case.expert()(copy))


def test_a_small_change_of_the_observation_changes_the_action_little(case: Case, env: Any) -> None:
    expert, rng = case.expert(), np.random.default_rng(0)
    observation, _ = env.reset(seed=FRESH)
    for _ in range(100):
        seen = {name: part + 0.1 * rng.standard_normal(part.shape) for name, part in observation.items()}
        nudged = {name: part + 1e-6 * rng.standard_normal(part.shape) for name, part in seen.items()}
        assert np.abs(expert(seen) - expert(nudged)).max() < 0.01


def test_tuning_keeps_every_number_positive() -> None:
    pytest.importorskip("cma")
    settings = TuneConfig(episodes=1, generations=1, population=4)
    env = open_environment("push")
    tuned = tune(env, Push(), settings)
    env.close()
    assert tuned != Push()
    assert min(astuple(tuned)) > 0
