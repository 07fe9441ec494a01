"""A task is learned again from other data: the old one stays until the new one scores no worse."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.learning import Comparison
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.runs.run import run
from tests.agents import actions, check_power_cuts, interrupted, learn, new_agent, state
from tests.recorded_data import ENVIRONMENTS, as_dicts, play, write_npz
from tests.tiny import QUIET, tiny_learner, tiny_suite


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent of three tasks, two of which share a copy; one was hardly trained."""
    agent = new_agent(tmp_path_factory.mktemp("known") / "agent", fit__learning_rate=3e-3)
    for name, kind in (("swing", "pendulum"), ("balance", "cartpole"), ("swing-2", "pendulum")):
        learn(agent, name, kind)
    return agent.path


@pytest.fixture
def agent(known: Path, tmp_path: Path) -> Agent:
    return Agent(shutil.copytree(known, tmp_path / "agent"), device="cpu")


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What comparisons say, one after another, whatever the scores are; all that are not said are as they are."""
    said: list[bool] = []
    made = Comparison.__init__

    def decided(self: Comparison, measure: str, old: float, new: float, replaced: bool) -> None:
        made(self, measure, old, new, said.pop(0) if said else replaced)

    monkeypatch.setattr(Comparison, "__init__", decided)
    return said


def replace(agent: Agent, name: str, kind: str, **more: Any) -> Any:
    return learn(agent, name, kind, **{"episodes": 6, **more}, replace=True)


def test_a_better_one_takes_its_place_in_one_change(agent: Agent, verdicts: list[bool]) -> None:
    did, was = actions(agent, "swing-2", "pendulum"), actions(agent, "swing", "pendulum")
    verdicts.append(True)
    learned = replace(agent, "swing", "pendulum")
    assert learned.comparison.measure == "squared error"
    assert learned.record.episodes == 6
    assert agent.verify() == ["balance", "swing-2", "swing"]
    assert actions(agent, "swing-2", "pendulum") == did
    assert actions(agent, "swing", "pendulum") != was
    assert [change.words for change in agent.history()][3:] == ["replaced swing"]
    assert "(before)" not in str(state(agent)["stages"][-1]["notes"]["places"])
    assert "equal to the bit" in learned.certificate
    agent.rollback(3)
    assert actions(agent, "swing", "pendulum") == was


def test_the_old_one_stays_if_the_new_one_is_worse(agent: Agent, verdicts: list[bool]) -> None:
    before, changes = state(agent), agent.history()
    verdicts.append(False)
    learned = replace(agent, "swing", "pendulum")
    assert not learned.comparison.replaced
    assert learned.record.episodes == 3
    assert learned.played is None
    assert state(agent) == before
    assert agent.history() == changes
    assert not (agent.path / "state").exists()
    verdicts.append(True)
    replace(agent, "swing", "pendulum")
    assert agent.tasks == ["balance", "swing-2", "swing"]


def test_both_are_scored_on_the_same_episodes_in_the_units_that_each_was_trained_in(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def scored(policy: Any, dataset: Any) -> float:
        seen.append((policy.interface, dataset))
        return 0.5

    monkeypatch.setattr("holdfast.agent.learning.offline_loss", scored)
    old = agent.record("swing")
    learned = replace(agent, "swing", "pendulum")
    (_, one), (_, other) = seen
    assert np.array_equal(one.observations, other.observations)
    assert np.array_equal(one.actions, other.actions)
    np.testing.assert_allclose(one.rewards / old.reward_scale, other.rewards / learned.record.reward_scale, rtol=1e-5)
    assert learned.comparison == Comparison("squared error", 0.5, 0.5, replaced=True)  # no worse


def test_longer_training_on_the_same_data_is_no_worse(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.agent.agent.BUDGETS", {"smoke": 300})
    learned = replace(agent, "balance", "cartpole", episodes=3)
    assert learned.comparison.measure == "likelihood"
    assert learned.comparison.replaced == (learned.comparison.new >= learned.comparison.old)
    assert learned.record.score["likelihood"] == pytest.approx(
        learned.comparison.new if learned.comparison.replaced else learned.comparison.old, rel=1e-3
    )


def test_an_interrupted_replacement_leaves_the_old_one_and_goes_on(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: list[bool]
) -> None:
    whole = Agent(shutil.copytree(agent.path, tmp_path / "whole"), device="cpu")
    before = state(agent)
    verdicts[:] = [True, True]
    replace(whole, "swing", "pendulum")

    with interrupted(monkeypatch, "learning.AgentSession.keep"):
        replace(agent, "swing", "pendulum")
    assert state(agent) == before
    assert list((agent.path / "state").iterdir())
    replace(agent, "swing", "pendulum")
    assert any(event["kind"] == "resume" and event["step"] > 0 for event in agent.folder.events())
    assert state(agent) == state(whole)


def test_after_a_power_cut_at_any_system_call_it_is_the_old_one_or_the_new_one(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.agent.agent.BUDGETS", {"smoke": 1})
    monkeypatch.setattr("holdfast.agent.learning.offline_loss", lambda *_: 0.5)
    check_power_cuts(agent, lambda one: replace(one, "swing", "pendulum"), monkeypatch, again=4)


@pytest.mark.parametrize("name", ["single", "lora", "packnet", "tsn-core", "independent"])
def test_learners_that_remove_also_replace(name: str, tmp_path: Path, verdicts: list[bool]) -> None:
    agent = new_agent(tmp_path / "agent", name, **({"subnets__tasks": 6} if name in ("packnet", "tsn-core") else {}))
    for task in ("first", "swing", "last"):
        learn(agent, task, "pendulum")
    did = {task: actions(agent, task, "pendulum") for task in ("first", "last")}
    verdicts.append(True)
    replace(agent, "swing", "pendulum")
    assert agent.verify() == ["first", "last", "swing"]
    assert {task: actions(agent, task, "pendulum") for task in did} == did


def test_what_cannot_be_replaced_is_said_in_one_sentence_before_training(agent: Agent, tmp_path: Path) -> None:
    before = state(agent)
    with pytest.raises(Mistake, match="has not learned more: it knows"):
        replace(agent, "more", "pendulum")
    with pytest.raises(Mistake, match="the data has a single episode"):
        replace(agent, "swing", "pendulum", episodes=1)
    with pytest.raises(Mistake, match="must have shape"):
        replace(agent, "swing", "cartpole")
    far = [{**one, "actions": 3 * one["actions"]} for one in as_dicts(play(ENVIRONMENTS["pendulum"]))]
    with pytest.raises(Mistake, match="actions outside the bounds that its task was learned with"):
        agent.learn("swing", far, budget="smoke", quiet=True, replace=True)
    dense = new_agent(tmp_path / "dense", "naive")
    learn(dense, "swing", "pendulum")
    with pytest.raises(Mistake, match="naive has one network for all tasks"):
        replace(dense, "swing", "pendulum")
    assert state(agent) == before
    suite = tiny_suite("toy-continuous", 2)
    run(suite, tiny_learner("affinity-l", suite), tmp_path / "run", QUIET)
    with pytest.raises(Mistake, match="is a task of the run's suite"):
        replace(Agent(tmp_path / "run", device="cpu"), suite.names[0], "pendulum")


def test_the_command_line_replaces_a_task_or_says_why_not(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str], verdicts: list[bool]
) -> None:
    data = write_npz(play(ENVIRONMENTS["cartpole"], 5), tmp_path)
    words = ["agent", "learn", str(agent.path), "balance", "--data", str(data), "--budget", "smoke", "--quiet"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "give the new one another name, or replace it" in " ".join(capsys.readouterr().err.split())
    verdicts[:] = [False, True]
    main([*words, "--replace"])
    told = " ".join(capsys.readouterr().out.split())
    assert "kept balance as it was, since the new one is worse: likelihood" in told
    main([*words, "--replace", "--json"])
    assert json.loads(capsys.readouterr().out)["comparison"]["replaced"]
    main(["agent", "history", str(agent.path)])
    told = capsys.readouterr().out
    assert "kept balance as it was, since the new one was worse" in told
    assert "4  replaced balance" in told
