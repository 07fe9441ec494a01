"""Damage in an agent's folder is said, whatever it is, before anything is acted on, written or deleted."""

import json
import shutil
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from soak.soak import Soak, soak

from holdfast.agent.agent import Agent
from holdfast.agent.index import SEAL, hash_of
from holdfast.agent.own_environment import make
from holdfast.cli.main import main
from holdfast.errors import Mistake
from tests.agents import learn, new_agent
from tests.test_mistakes import command


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = new_agent(tmp_path_factory.mktemp("agents") / "agent")
    learn(agent, "swing", "pendulum")
    learn(agent, "balance", "cartpole")
    return agent.path


@pytest.fixture
def agent(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "agent")


@pytest.mark.parametrize("verb", ["verify", "list", "history"])
def test_an_agent_that_lost_its_weights_is_not_said_to_have_learned_nothing(
    verb: str, agent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(agent / "weights")
    assert "has results but no weights" in command(capsys, "agent", verb, str(agent))


CHANGES: list[tuple[str, Any]] = [
    ("target", 3.5),
    ("reward_scale", 2.0),
    ("layout.actions.high", [7.0]),
    ("has_rewards", False),
    ("environment", "Other-v0"),
    ("score", {}),
]


@pytest.mark.parametrize(("field", "value"), CHANGES)
def test_a_note_about_a_task_that_was_changed_is_found_although_its_weights_are_as_they_were(
    field: str, value: Any, agent: Path
) -> None:
    index = agent / "weights" / "index.json"
    record = json.loads(index.read_text())
    note = record["records"]["swing"]
    *inner, last = field.split(".")
    for name in inner:
        note = note[name]
    assert note[last] != value
    note[last] = value
    index.write_text(json.dumps(record))
    with pytest.raises(Mistake, match=r"index.json is damaged \(it was changed after it was written\)"):
        Agent(agent).verify()


def test_nothing_of_the_past_is_deleted_while_the_present_is_damaged(agent: Path) -> None:
    file = next((agent / "weights").glob("task-balance*"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    before = sorted(agent.rglob("*"))
    with pytest.raises(Mistake, match="was changed or truncated"):
        Agent(agent).prune()
    assert sorted(agent.rglob("*")) == before
    file.write_bytes(content)
    assert Agent(agent).prune() > 0


def test_what_an_environments_library_warns_of_is_not_printed_by_every_command() -> None:
    with warnings.catch_warnings(record=True) as warned:
        make("CartPole").close()  # Gymnasium warns of a name without a version
    assert not warned


FORGED: list[tuple[str, Any]] = [
    ("changes.0.at", "2026-01-01Ta1:00"),
    ("records.swing.layout.actions", ["x"]),
    ("stages.1.notes.deep", json.loads(900 * "[" + 900 * "]")),
]


@pytest.mark.parametrize(("field", "value"), FORGED, ids=[name for name, _ in FORGED])
@pytest.mark.parametrize("verb", ["verify", "history", "prune"])
def test_an_index_that_a_stranger_wrote_is_refused_in_one_sentence(
    verb: str, field: str, value: Any, agent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = agent / "weights" / "index.json"
    record = json.loads(index.read_text())
    *inner, last = field.split(".")
    place = record
    for name in inner:
        place = place[int(name) if isinstance(place, list) else name]
    place[last] = value
    del record[SEAL]
    index.write_text(json.dumps({**record, SEAL: hash_of(record)}))
    with pytest.raises(SystemExit) if verb == "verify" or "layout" not in field else nullcontext():
        main(["agent", verb, str(agent)])
    said = capsys.readouterr().err
    assert len(said.splitlines()) <= 1
    assert "Traceback" not in said


def test_random_changes_with_kills_in_between_leave_all_other_tasks_equal_to_the_bit(tmp_path: Path) -> None:
    soaked = soak(Soak(tasks=3, seed=1), tmp_path)
    assert soaked.counts["learn"] >= 3
