"""Agents small enough for a law to be checked in a second, and all that they are."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.agent.agent import Agent, Learned
from holdfast.errors import Interrupted
from tests.cuts import PowerCut, cut_after
from tests.recorded_data import ENVIRONMENTS, as_dicts, play
from tests.tiny import SMALL

SETTINGS = {name: value for name, value in SMALL.items() if name.startswith(("net.", "fit."))}


def new_agent(path: Path, learner: str | None = None, **settings: Any) -> Agent:
    """An agent that has learned nothing yet; settings are dotted names with __ for the dots."""
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return Agent(path, learner, settings={**SETTINGS, **own}, device="cpu")


def learn(agent: Agent, name: str, kind: str, episodes: int = 3, **more: Any) -> Learned:
    """Learns a task from a few episodes of random actions."""
    return agent.learn(name, recorded(kind, episodes), budget="smoke", quiet=True, **more)


@cache
def recorded(kind: str, episodes: int) -> list[dict[str, Any]]:
    """Episodes of random actions."""
    return as_dicts(play(ENVIRONMENTS[kind], episodes))


def actions(agent: Agent, name: str, kind: str) -> bytes:
    """What the policy of a task with vector observations does on recorded ones."""
    policy, episode = agent.policy(name), recorded(kind, 1)[0]
    policy.reset()
    acted = [policy.act(episode["observations"][step], 1.0) for step in range(len(episode["rewards"]))]
    return b"".join(np.asarray(action).tobytes() for action in acted)


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, before: str = "session.Session.commit") -> Iterator[None]:
    """Learning is saved whenever it can be, and interrupted before this method of a module in holdfast.agent."""

    def stopped(*_: Any) -> None:
        raise Interrupted("interrupted", 2)

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.agent.progress.FolderRecorder.due", lambda recorder: True)
        patch.setattr(f"holdfast.agent.{before}", stopped)
        with pytest.raises(Interrupted):
            yield


def state(agent: Agent) -> dict[str, Any]:
    """All that an agent is, by hashes of its tensors; without the names of files and the time of learning."""
    agent.folder.store.load()
    index = agent.folder.store.index
    certificates = [one for one in agent.folder.read_certificates() if one.stage == len(index.stages) - 1]
    record = index.as_past(certificates).to_json()
    for stage in record["stages"]:
        stage["files"] = {name: file["sha256"] for name, file in stage["files"].items()}
    for note in record.get("records", {}).values():
        note["learned_at"] = ""
    return record if index.stages else {}


def check_power_cuts(
    agent: Agent, change: Callable[[Agent], object], monkeypatch: pytest.MonkeyPatch, again: int = 1
) -> None:
    """Cuts the power at every system call of a change, each time of a fresh copy of the agent.

    It must then be as before the change or after it. After every so many cuts (`again`), the change must succeed when
    it is made again, and leave the same files as without a cut.
    """
    folder, ends = agent.path.parent, []
    whole = Agent(shutil.copytree(agent.path, folder / "whole"), device="cpu")
    before = state(whole)
    change(whole)
    after = state(whole)
    for calls in range(1, 200):
        shutil.rmtree(folder / "cut", ignore_errors=True)
        try:
            cut = Agent(shutil.copytree(agent.path, folder / "cut"), device="cpu")
            with cut_after(calls, monkeypatch):
                change(cut)
            break
        except PowerCut:
            pass
        cut = Agent(folder / "cut", device="cpu")
        cut.verify()
        ends.append(state(cut))
        assert ends[-1] in (before, after), calls
        if calls % again == 0:
            if ends[-1] == before:
                change(cut)
            with cut.folder:  # the next process to work in it tidies up
                assert state(cut) == after
            assert names(cut.path) == names(whole.path), calls
            assert len(cut.history()) == len(whole.history())
    assert calls > 3
    assert before in ends


def names(folder: Path) -> set[Path]:
    """The files in a folder."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
