"""An agent goes back to before any change, to the bit, and deletes what only its past needs when it is told to."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.events import training_seconds
from holdfast.cli.main import main
from holdfast.errors import Busy, Mistake
from holdfast.runs.folder import RunFolder
from holdfast.runs.more import learn_more
from holdfast.runs.run import reopen, run
from tests.agents import actions, check_power_cuts, interrupted, learn, new_agent, state
from tests.tiny import QUIET, tiny_learner, tiny_suite

TASKS = {"swing": "pendulum", "balance": "cartpole", "swing-2": "pendulum"}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """An agent of three tasks, and its state after 0, 1, 2 and 3 of them."""
    agent = new_agent(tmp_path_factory.mktemp("learned") / "agent")
    states = [{}]
    for name, kind in TASKS.items():
        learn(agent, name, kind)
        states.append(state(agent))
    return agent.path, states


@pytest.fixture
def agent(learned: tuple[Path, list[Any]], tmp_path: Path) -> Agent:
    return Agent(shutil.copytree(learned[0], tmp_path / "agent"), device="cpu")


@pytest.fixture
def states(learned: tuple[Path, list[Any]]) -> list[Any]:
    return learned[1]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Going back


@pytest.mark.parametrize("to", [2, 1])
def test_rollback_brings_the_agent_back_to_the_bit(agent: Agent, states: list[Any], to: int) -> None:
    agent.rollback(to)
    assert agent.tasks == [*TASKS][:to]
    assert agent.verify() == agent.tasks
    assert state(agent) == states[to]
    assert json.loads((agent.path / "routes.json").read_text()) == agent.folder.routes_by(to)


def test_what_is_learned_again_after_a_rollback_has_the_same_bits(agent: Agent, states: list[Any]) -> None:
    did = actions(agent, "swing-2", "pendulum")
    agent.rollback(1)
    learn(agent, "balance", "cartpole")
    assert state(agent) == states[2]
    learn(agent, "swing-2", "pendulum")
    assert state(agent) == states[3]
    assert actions(agent, "swing-2", "pendulum") == did


def test_a_rollback_can_be_rolled_back_and_the_first_state_knows_nothing(agent: Agent, states: list[Any]) -> None:
    agent.rollback(0)
    assert agent.tasks == []
    assert agent.verify() == []
    assert json.loads((agent.path / "routes.json").read_text()) == []
    agent.rollback(3)
    assert state(agent) == states[3]
    agent.rollback(4)
    learn(agent, "swing", "pendulum")
    assert state(agent) == states[1]
    assert [change.words for change in agent.history()] == [
        *(f"learned {name}" for name in TASKS),
        "went back to 0",
        "went back to 3",
        "went back to 4",
        "learned swing",
    ]
    assert [change.number for change in agent.history()] == [1, 2, 3, 4, 5, 6, 7]


def test_no_file_is_ever_overwritten(agent: Agent) -> None:
    before = files(agent.path)
    agent.rollback(1)
    learn(agent, "balance", "pendulum")
    after = files(agent.path)
    changing = {"weights/index.json", "routes.json", "events.jsonl"}
    assert {name: after[name] for name in before if name not in changing} == {
        name: before[name] for name in before if name not in changing
    }


@pytest.mark.parametrize("name", ["naive", "ewc", "single", "packnet", "lora"])
def test_agents_of_every_kind_of_learner_go_back(name: str, tmp_path: Path) -> None:
    agent = new_agent(tmp_path / "agent", name, **({"subnets__tasks": 3} if name == "packnet" else {}))
    learn(agent, "swing", "pendulum")
    before = state(agent)
    learn(agent, "swing-2", "pendulum", episodes=4)
    after = state(agent)
    assert after != before
    agent.rollback(1)
    assert state(agent) == before
    learn(agent, "swing-2", "pendulum", episodes=4)
    assert state(agent) == after
    assert agent.verify() == ["swing", "swing-2"]


def test_a_task_that_is_being_learned_is_dropped_by_a_rollback(
    agent: Agent, states: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.rollback(2)
    with interrupted(monkeypatch):
        learn(agent, "swing-2", "pendulum")
    assert list((agent.path / "state").iterdir())
    assert any(event.get("task") == "swing-2" and event.get("stage") == 4 for event in agent.folder.events())
    agent.rollback(1)
    assert not list((agent.path / "state").iterdir())
    assert not any(event.get("stage") == 4 and event["kind"] != "rollback" for event in agent.folder.events())
    assert state(agent) == states[1]


def test_the_time_of_a_task_that_was_learned_twice_is_that_of_the_last_time() -> None:
    events = [
        {"time": time, "kind": kind, "task": "swing"}
        for time, kind in ((0.0, "learn"), (5.0, "train"), (10.0, "learn"), (12.0, "train"))
    ]
    assert training_seconds(events) == {"swing": 2.0}


@pytest.mark.parametrize(("to", "sentence"), [(3, "is already as it was"), (7, "cannot go back to 7"), (-1, "to -1")])
def test_a_state_that_is_not_there_is_refused_in_one_sentence(agent: Agent, to: int, sentence: str) -> None:
    with pytest.raises(Mistake, match=sentence):
        agent.rollback(to)
    assert agent.tasks == [*TASKS]


def test_a_past_that_was_changed_is_found_and_does_no_harm(agent: Agent, states: list[Any]) -> None:
    past = agent.path / "history" / "2.json"
    content = past.read_text()
    past.write_text(content.replace("swing", "swung"))
    with pytest.raises(Mistake, match=r"2\.json was changed after it was written"):
        agent.rollback(2)
    with pytest.raises(Mistake, match=r"2\.json was changed after it was written"):
        agent.verify()
    past.write_text(content)
    memory = next((agent.path / "memory").glob("copy-0.0.*"))
    kept = memory.read_bytes()
    memory.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(Mistake, match=r"copy-0.0.safetensors was changed"):
        agent.rollback(1)
    with pytest.raises(Mistake, match=r"copy-0.0.safetensors was changed"):
        agent.verify()
    assert state(agent) == states[3]
    agent.prune()
    assert agent.verify() == [*TASKS]
    assert state(agent) == states[3]


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index["stages"][-1]["notes"]["routes"][0].update(copy="x"),
        lambda index: index["stages"][-1]["notes"].update(routes=[5]),
        lambda index: index["certificates"][0].update(fingerprint="x"),
        lambda index: index["certificates"][0].update(stage=7),
        lambda index: index["changes"][0].update(number=3),
        lambda index: index["changes"][0].update(kind="nothing"),
        lambda index: index["past"][0].update(number=-1),
        lambda index: index["past"][0].update(number=3),
        lambda index: index["past"][0].update(sha256="x"),
        lambda index: index["past"][1].update(files=["../config.json"]),
        lambda index: index["past"][1].update(files=["config.json"]),
    ],
)
def test_an_index_that_says_nonsense_is_one_sentence(agent: Agent, change: Callable[[Any], None]) -> None:
    path = agent.path / "weights" / "index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    for use in (lambda one: [one.copy_of("swing"), one.verify()], lambda one: one.rollback(1), lambda one: one.prune()):
        with pytest.raises(Mistake, match=r"index\.json is damaged"):
            use(Agent(agent.path, device="cpu"))
    assert (agent.path / "config.json").exists()


def test_a_second_process_is_refused(agent: Agent) -> None:
    with Agent(agent.path).folder:
        for change in (lambda: agent.rollback(1), lambda: agent.prune()):
            with pytest.raises(Busy, match="another process is working in"):
                change()


# Deleting the past


def test_prune_deletes_what_only_the_past_needs(agent: Agent, states: list[Any]) -> None:
    agent.rollback(2)
    before = sum(map(len, files(agent.path).values()))
    used = {file.path for stage in agent.folder.store.index.stages for file in stage.files.values()}
    index = len((agent.path / "weights" / "index.json").read_bytes())
    freed = agent.prune()
    left = files(agent.path)
    assert {name for name in left if name.endswith(".safetensors")} == used
    assert not (agent.path / "history").exists()
    saved = index - len(left["weights/index.json"])
    assert freed == before - sum(map(len, left.values())) - saved > 0
    assert state(agent) == states[2]
    assert [change.number for change in agent.history()] == [1, 2, 3, 4]
    with pytest.raises(Mistake, match="the states that are kept are: none"):
        agent.rollback(1)
    assert agent.prune() == 0
    learn(agent, "swing-2", "pendulum")
    assert state(agent) == states[3]
    agent.rollback(4)
    assert state(agent) == states[2]


def test_prune_keeps_as_many_states_as_it_is_told(agent: Agent, states: list[Any]) -> None:
    agent.rollback(1)
    agent.rollback(3)
    agent.prune(keep=1)
    agent.verify()
    with pytest.raises(Mistake, match="the states that are kept are: 4"):
        agent.rollback(2)
    agent.rollback(4)
    assert state(agent) == states[1]
    agent.prune(keep=9)
    agent.rollback(5)
    assert state(agent) == states[3]
    with pytest.raises(Mistake, match="must be at least 0"):
        agent.prune(-1)


def test_an_unfinished_task_survives_prune(agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = Agent(shutil.copytree(agent.path, tmp_path / "whole"), device="cpu")
    learn(whole, "more", "cartpole")

    with interrupted(monkeypatch):
        learn(agent, "more", "cartpole")
    agent.prune()
    assert list((agent.path / "state").iterdir())
    learn(agent, "more", "cartpole")
    assert state(agent) == state(whole)


# Power may fail at any moment

CHANGES: dict[str, Callable[[Agent], object]] = {
    "rollback": lambda agent: agent.rollback(1),
    "prune": lambda agent: agent.prune(keep=1),
    "learn": lambda agent: learn(agent, "more", "cartpole"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_after_a_power_cut_at_any_system_call_the_agent_is_as_before_or_after(
    name: str, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.agent.agent.BUDGETS", {"smoke": 2})
    check_power_cuts(agent, CHANGES[name], monkeypatch, again=4 if name == "learn" else 1)


# Runs and older folders


def test_a_run_that_learned_on_as_an_agent_goes_back_to_its_planned_tasks_and_no_further(tmp_path: Path) -> None:
    suite = tiny_suite("toy-continuous", 2)
    run(suite, tiny_learner("affinity-l", suite), tmp_path / "run", QUIET)
    agent = Agent(tmp_path / "run", device="cpu")
    assert agent.history() == []
    before = state(agent)
    learn(agent, "swing", "pendulum")
    after = state(agent)
    assert [(change.number, change.words) for change in agent.history()] == [(3, "learned swing")]
    agent.rollback(2)
    assert state(agent) == before
    assert RunFolder(agent.path).is_complete
    assert reopen(agent.path, "cpu", suite)[1].learned == suite.names
    with pytest.raises(Mistake, match="cannot go back to 1; the states that are kept are: 2, 3"):
        agent.rollback(1)
    agent.rollback(3)
    assert state(agent) == after
    extra = tiny_suite("toy-continuous", 3).tasks[2]
    learn_more(agent.path, extra, "cpu", suite, options=QUIET)  # a run that has a past keeps it
    assert agent.tasks == [*suite.names, "swing", extra.name]
    agent.rollback(2)
    assert state(agent) == before
    agent.rollback(6)
    assert agent.verify() == [*suite.names, "swing", extra.name]
    before = files(agent.path)
    run(suite, tiny_learner("affinity-l", suite), agent.path, QUIET)  # all planned tasks are learned
    assert files(agent.path) == before


# The command line


def test_the_command_line_shows_the_history_goes_back_and_prunes(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(agent.path)
    main(["agent", "rollback", folder, "--to", "1"])
    assert "change 4: went back to 1; it knows swing" in capsys.readouterr().out
    main(["agent", "history", folder])
    told = capsys.readouterr().out
    for part in (
        "1  learned swing (0.",
        "3  learned swing-2",
        "4  went back to 1",
        "rollback goes back to 0, 1, 2, 3;",
    ):
        assert part in told
    main(["agent", "history", folder, "--json"])
    record = json.loads(capsys.readouterr().out)
    assert [change["kind"] for change in record["changes"]] == ["learn", "learn", "learn", "rollback"]
    assert record["kept"] == [0, 1, 2, 3]
    main(["agent", "prune", folder, "--keep", "1", "--json"])
    assert 0 < json.loads(capsys.readouterr().out)["freed"] < record["bytes"]
    main(["agent", "prune", folder])
    assert "freed" in capsys.readouterr().out
    main(["agent", "history", folder])
    assert "rollback goes back" not in capsys.readouterr().out
    for words in (["rollback", folder, "--to", "1"], ["rollback", folder], ["prune", folder, "--keep", "-1"]):
        with pytest.raises(SystemExit) as stop:
            main(["agent", *words])
        assert stop.value.code == 2
    assert os.listdir(folder)
