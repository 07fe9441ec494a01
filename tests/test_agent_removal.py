"""A removed task is gone and what only it used is free again; every other task stays equal to the bit."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.agent.agent import Agent
from holdfast.cli.main import main
from holdfast.errors import Busy, Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.learner import Learner
from holdfast.learners.removing import RemovingLearner
from holdfast.learners.subnetworks import SubnetworkLearner
from holdfast.runs.run import run
from tests.agents import actions, check_power_cuts, learn, new_agent, state
from tests.tiny import ALL, QUIET, tiny_learner, tiny_suite

SUITE = tiny_suite("toy", 4)
REMOVING = [name for name in ALL if isinstance(tiny_learner(name), RemovingLearner)]
SUBNETWORKS = [name for name in REMOVING if isinstance(tiny_learner(name), SubnetworkLearner)]
ROOM = {"subnets__tasks": 6}
VARIANTS: dict[str, dict[str, Any]] = {
    "holdfast": {"subnets__new": "planned", "subnets__tasks": 6, "routing__threshold": "auto"},
    "private": {"subnets__private": 0.1, "subnets__new": 0.3},
    "quantised": {"subnets__quantise_bits": 2},
    "frozen": {"subnets__outside": "frozen"},
    "copies": {"routing__threshold": -1.0},
}


def settings(name: str) -> dict[str, Any]:
    return ROOM if name in SUBNETWORKS else {}


def taught(name: str, tasks: int = 3, **more: Any) -> RemovingLearner:
    """A learner that has learned the first tasks."""
    learner = tiny_learner(name, SUITE, **{**settings(name), **more})
    assert isinstance(learner, RemovingLearner)
    for task in SUITE.tasks[:tasks]:
        learner.learn(task)
    return learner


def restored(learner: Learner, name: str, **more: Any) -> RemovingLearner:
    """The same learner from its snapshot."""
    again = tiny_learner(name, SUITE, **{**settings(name), **more})
    assert isinstance(again, RemovingLearner)
    again.restore(learner.snapshot())
    return again


def bits(learner: Learner) -> dict[str, str]:
    return {name: fingerprint(learner.policy(name)) for name in learner.learned}


def same(one: Learner, other: Learner) -> bool:
    """Whether two learners are equal to the bit, memory included."""
    ours, theirs = one.snapshot(), other.snapshot()
    equal = ours.notes == theirs.notes and ours.weights.keys() == theirs.weights.keys()
    pairs = [(ours.memory, theirs.memory), *((ours.weights[name], theirs.weights[name]) for name in ours.weights)]
    return equal and all(
        mine.keys() == yours.keys() and all(torch.equal(mine[key], yours[key]) for key in mine) for mine, yours in pairs
    )


def check_accounts(learner: Learner) -> None:
    """The entries that tasks claimed are those that are occupied."""
    for account in learner.accounts():
        assert sum(task["new"] for task in account["tasks"].values()) == account["occupied"]
        assert account["occupied"] + account["free"] == account["total"]


# Learners


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", REMOVING)
def test_all_other_tasks_stay_equal_to_the_bit(name: str, place: int) -> None:
    learner = taught(name)
    before, gone = bits(learner), SUITE.names[place]
    if name == "lora" and place == 0:
        with pytest.raises(Mistake, match=f"all other tasks are adapters of the network of {gone}"):
            learner.remove(gone, 4)
        assert bits(learner) == before
        return
    learner.remove(gone, 4)
    left = {task: value for task, value in before.items() if task != gone}
    assert bits(learner) == left
    assert gone not in str(learner.snapshot().notes["learned"])
    check_accounts(learner)
    again = restored(learner, name)
    assert same(again, learner)
    for one in (learner, again):
        one.learn(SUITE.tasks[3])
        one.learn(SUITE.tasks[place])  # the same name can be learned again
        assert {task: value for task, value in bits(one).items() if task in left} == left
        check_accounts(one)
    assert same(again, learner)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("place", [0, 1])
def test_all_variants_of_subnetworks_keep_the_others(variant: str, place: int) -> None:
    learner = taught("affinity-l", **VARIANTS[variant])
    before, gone = bits(learner), SUITE.names[place]
    learner.remove(gone, 4)
    assert bits(learner) == {task: value for task, value in before.items() if task != gone}
    check_accounts(learner)
    again = restored(learner, "affinity-l", **VARIANTS[variant])
    assert same(again, learner)
    for one in (learner, again):
        one.learn(SUITE.tasks[3])
    assert same(again, learner)


@pytest.mark.parametrize("name", SUBNETWORKS)
def test_entries_become_those_of_the_next_task_that_uses_them_or_are_drawn_anew(name: str) -> None:
    more = {} if name == "packnet" else {"subnets__new": 0.5}  # otherwise a warm start selects what its source uses
    learner = taught(name, **more)
    assert isinstance(learner, SubnetworkLearner)
    gone = learner.subnetworks[SUITE.names[0]]
    old = learner.model_copies[gone.copy]
    others = [one for task, one in learner.inside(gone.copy).items() if task != SUITE.names[0]]
    if not others:
        copies = learner.copies
        learner.remove(SUITE.names[0], 4)
        assert learner.copies == copies - 1
        assert {learner.task_copy(task) for task in learner.learned} == {*range(copies - 1)}
        assert [route["copy"] for route in learner.routes()] == [learner.task_copy(task) for task in learner.learned]
        return
    used = torch.stack([one.mask for one in others]).any(dim=0)
    learner.remove(SUITE.names[0], 4)
    copy = learner.model_copies[gone.copy]
    free = gone.mask & ~used
    assert torch.equal(copy.occupied, old.occupied & ~free)
    assert torch.equal(copy.weights[~free], old.weights[~free])
    if name == "packnet":  # every later task uses all that earlier ones kept
        assert not free.any()
        return
    assert free.any()
    assert (copy.weights[free] != old.weights[free]).float().mean() > 0.9
    other = taught(name, **more)
    assert isinstance(other, SubnetworkLearner)
    other.remove(SUITE.names[0], 5)
    drawn = other.model_copies[gone.copy].weights[free]
    assert not torch.equal(drawn, copy.weights[free])  # another number, other values


def test_a_copy_keeps_its_shape_when_the_task_that_opened_it_is_removed(tmp_path: Path) -> None:
    agent = new_agent(tmp_path / "agent", net__timesteps="table")
    learn(agent, "long", "pendulum", env="Pendulum-v1")  # episodes of at most 200 steps
    learn(agent, "short", "pendulum")
    did = actions(agent, "short", "pendulum")
    agent.remove("long")
    assert agent.verify() == ["short"]
    assert actions(agent, "short", "pendulum") == did
    learn(agent, "long", "pendulum", env="Pendulum-v1")
    assert agent.copy_of("long") == 0
    assert agent.verify() == ["short", "long"]


# Agents


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent of three tasks, two of which share a copy."""
    agent = new_agent(tmp_path_factory.mktemp("known") / "agent")
    for name, kind in (("swing", "pendulum"), ("balance", "cartpole"), ("swing-2", "pendulum")):
        learn(agent, name, kind)
    return agent.path


@pytest.fixture
def agent(known: Path, tmp_path: Path) -> Agent:
    return Agent(shutil.copytree(known, tmp_path / "agent"), device="cpu")


def test_a_task_is_removed_comes_back_by_rollback_and_its_name_is_free(agent: Agent) -> None:
    before = state(agent)
    certified = {one.task: one.fingerprint for one in agent.folder.read_certificates()}
    did = actions(agent, "swing-2", "pendulum")
    change = agent.remove("swing")
    assert (change.number, change.words) == (4, "removed swing")
    assert agent.verify() == ["balance", "swing-2"]
    assert actions(agent, "swing-2", "pendulum") == did
    after = {one.task: one.fingerprint for one in agent.folder.read_certificates()}
    assert after == {task: value for task, value in certified.items() if task != "swing"}
    record = state(agent)
    assert "swing" not in {*record["records"], *record["datasets"], *record["stages"][-1]["notes"]["places"]}
    with pytest.raises(Mistake, match="has not learned swing: it knows balance, swing-2"):
        agent.policy("swing")
    removed = state(agent)
    agent.rollback(3)
    assert state(agent) == before
    agent.rollback(4)
    assert state(agent) == removed
    learn(agent, "swing", "pendulum")
    assert agent.verify() == ["balance", "swing-2", "swing"]
    agent.prune()
    assert agent.verify() == ["balance", "swing-2", "swing"]
    assert actions(agent, "swing-2", "pendulum") == did


def test_the_same_commands_give_the_same_bits(agent: Agent, tmp_path: Path) -> None:
    other = Agent(shutil.copytree(agent.path, tmp_path / "other"), device="cpu")
    for one in (agent, other):
        one.remove("swing")
        learn(one, "more", "pendulum", episodes=4)
    assert state(agent) == state(other)


def test_copies_without_tasks_vanish_and_the_others_move_up(agent: Agent) -> None:
    agent.remove("swing")
    agent.remove("swing-2")
    assert agent.copy_of("balance") == 0
    assert agent.verify() == ["balance"]
    assert not [name for name in agent.folder.store.index.stages[-1].files if "copy-1" in name]
    agent.remove("balance")
    assert agent.tasks == []
    assert agent.verify() == []
    learn(agent, "balance", "cartpole")
    assert agent.verify() == ["balance"]


def test_what_cannot_be_removed_is_said_in_one_sentence(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="has not learned nothing: it knows swing, balance, swing-2"):
        agent.remove("nothing")
    dense = new_agent(tmp_path / "dense", "naive")
    learn(dense, "swing", "pendulum")
    with pytest.raises(Mistake, match="naive has one network for all tasks, so none of them can be removed: rollback"):
        dense.remove("swing")
    shared = new_agent(tmp_path / "shared", subnets__outside="shared")
    learn(shared, "swing", "pendulum")
    with pytest.raises(Mistake, match="tasks share parameters here that every one of them trains"):
        shared.remove("swing")
    with pytest.raises(Mistake, match="there is no agent in"):
        Agent(tmp_path / "none").remove("swing")
    assert not (tmp_path / "none").exists()
    with Agent(agent.path).folder, pytest.raises(Busy, match="another process is working in"):
        agent.remove("swing")
    assert agent.verify() == ["swing", "balance", "swing-2"]


def test_a_run_keeps_its_planned_tasks_and_removes_later_ones(tmp_path: Path) -> None:
    suite = tiny_suite("toy-continuous", 2)
    run(suite, tiny_learner("affinity-l", suite), tmp_path / "run", QUIET)
    agent = Agent(tmp_path / "run", device="cpu")
    before = state(agent)["stages"][-1]["files"]
    learn(agent, "swing", "pendulum")
    with pytest.raises(Mistake, match=f"{suite.names[0]} is a task of the run's plan"):
        agent.remove(suite.names[0])
    agent.remove("swing")
    assert agent.verify() == suite.names
    assert state(agent)["stages"][-1]["files"] == before


def test_after_a_power_cut_at_any_system_call_the_task_is_there_or_gone(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_power_cuts(agent, lambda one: one.remove("swing"), monkeypatch)


def test_the_command_line_removes_a_task(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    main(["agent", "remove", str(agent.path), "balance"])
    assert "change 4: removed balance; it knows swing, swing-2, equal to the bit" in capsys.readouterr().out
    main(["agent", "list", str(agent.path)])
    assert "balance" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["agent", "remove", str(agent.path), "balance"])
    assert stop.value.code == 2
    assert "has not learned balance" in capsys.readouterr().err
