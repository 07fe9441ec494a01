"""The folder of an agent or a run: what was learned, with its settings, events and routes beside it."""

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from holdfast.agent.changes import Update
from holdfast.agent.events import parsed, without_undone
from holdfast.agent.routes import check_routes
from holdfast.agent.store import INDEX, Store, identity_of
from holdfast.data.directory import Directory
from holdfast.data.files import damaged, make_folder
from holdfast.errors import Busy, Mistake
from holdfast.evaluation.certificates import Certificate
from holdfast.learners.learner import Snapshot
from holdfast.tasks.task import Task
from holdfast.training.ranks import ranks

LEARNING = ("learn", "resume")  # the events with which learning a task begins and goes on
CONFIG, EVENTS, ROUTES, HISTORY = "config.json", "events.jsonl", "routes.json", "history"


class LearningFolder(ABC):
    """A folder that tasks are learned into, by one process at a time: `with LearningFolder(path) as folder`."""

    kind = "an agent's folder"
    keeps_past = True  # so that one can go back to it
    otherwise = "wait for it"  # what to do if another process works in it
    elsewhere = "choose another folder"  # what to do if it cannot be created here

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not os.path.lexists(self.path / CONFIG):
            raise Mistake(f"{self.path} is not {self.kind}: it has no config.json")
        self.directory = Directory(self.path)
        self._load()

    def _create(self, record: Callable[[], dict[str, Any]]) -> None:
        """Makes the folder and its config.json, unless it has one."""
        if os.path.isfile(self.path):
            raise Mistake(f"{self.path} is a file: {self.elsewhere}")
        make_folder(self.path)
        self.directory = Directory(self.path)
        if self.directory.exists(CONFIG):
            return
        self._lock()  # if two processes begin at once, one of them creates it
        try:
            if not self.directory.exists(CONFIG):
                if {*self.directory.names()} - {f"{CONFIG}.part"}:  # which a killed process may leave
                    raise Mistake(f"{self.path} is not empty and not {self.kind}: {self.elsewhere}")
                self.directory.write_json(CONFIG, record())
        finally:
            self.directory.unlock()

    def _load(self) -> None:
        self.record = self._config()
        self.order = self._planned()
        self.store = Store(self.directory, self.order, self.keeps_past)

    @abstractmethod
    def _config(self) -> dict[str, Any]:
        """The settings in config.json, checked."""

    def _planned(self) -> list[str]:
        """The tasks that are to be learned first, in order."""
        return []

    def _lock(self) -> None:
        if not self.directory.lock():
            raise Busy(f"another process is working in {self.path}: {self.otherwise}")
        self.directory.check_place()  # it may have been moved before it was locked

    def __enter__(self) -> Self:
        self._lock()
        try:
            self._load()  # another process may have worked in it until now
            self.check_weights()
            self.store.remove_unused()
            self._mend_routes()
            self._mend_events()
            self.events()  # raises if the log is damaged, before anything is learned
        except BaseException:
            self.directory.unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.directory.unlock()  # as it is when the process dies

    def check_weights(self) -> None:
        """Raises if there are results of tasks whose weights are lost: these tasks must not be learned again."""
        had_weights = any(self.directory.exists(name) for name in (ROUTES, HISTORY))
        if had_weights and not self.directory.exists(INDEX):
            raise Mistake(f"{self.path} has results but no weights ({INDEX} is missing): restore them from a backup")
        known, learned = self._known(), len(self.store.learned)
        if known > learned:
            lost = "is missing" if learned == 0 else f"has {learned} of {known} tasks"
            raise Mistake(f"{self.path} has results but no weights ({INDEX} {lost}): restore them from a backup")

    def _known(self) -> int:
        """The number of tasks that there are records of."""
        certified = max((found.stage + 1 for found in self.read_certificates()), default=0)
        return max(certified, len(self._routes()) - 1)  # version 0.1 wrote a route before its stage

    # Events

    def event(self, kind: str, **data: Any) -> None:
        """Appends to events.jsonl."""
        self.directory.append_line(EVENTS, json.dumps({"time": round(time.time(), 3), "kind": kind, **data}))

    def _mend_events(self) -> None:
        """Cuts off a last line that was being written when the process died."""
        if self.directory.exists(EVENTS) and not (content := self._log()).endswith(b"\n") and content:
            self.directory.write_bytes(EVENTS, content[: content.rfind(b"\n") + 1])

    def _log(self) -> bytes:
        return self.directory.read_bytes(EVENTS) if self.directory.exists(EVENTS) else b""

    def events(self) -> list[dict[str, Any]]:
        """What happened, without what an interruption undid."""
        *lines, _ = self._log().split(b"\n")  # the last is being written
        try:
            return without_undone(parsed(lines))
        except Mistake as problem:
            raise damaged(self.path / EVENTS, problem) from problem

    # Learning

    def begin_learning(self, tasks: Sequence[Task], name: str, steps: int) -> str:
        """Records that these tasks are learned now, in so many steps each; returns what identifies that."""
        processes = self.record.get("processes", 1)
        if processes != ranks().size:  # sums, and so bits, would depend on when it was interrupted
            raise Mistake(f"{self.path} is a run of {processes} processes, not {ranks().size}: choose another --out")
        identity, stage = identity_of(tasks, steps), self.store.index.number
        saved = self.store.begin_task(identity)
        begun = any(event.get("stage") == stage and event["kind"] in LEARNING for event in self.events())
        kind = "resume" if begun else "learn"
        self.event(kind, stage=stage, task=name, step=list(saved.values())[-1], phases=saved)
        return identity

    def commit(self, snapshot: Snapshot, update: Update, newest_only: bool) -> None:
        """Keeps a snapshot after tasks were learned, replaced, installed or removed."""
        self.store.commit(snapshot, update, newest_only)
        self._mend_routes()

    def changed(self, before: int) -> None:
        """Records a change of an agent other than learning; `before` is the number of the state before it."""
        change = self.store.index.changes[-1]
        self._mend_routes()
        self.event(change.kind, stage=before, task=change.task)

    # Records

    def routes_by(self, stage: int) -> list[dict[str, Any]]:
        """The routes of all tasks learned by a stage."""
        return self._routes()[: stage + 1]

    def _routes(self) -> list[dict[str, Any]]:
        if self.store.index.changes:  # an interrupted process may not have written those of the last change
            path, record = INDEX, self._noted_routes() or []
        else:
            path, record = ROUTES, self.directory.read_json(ROUTES) if self.directory.exists(ROUTES) else []
        try:
            check_routes(record, self.store.tasks)
        except Mistake as problem:
            raise damaged(self.path / path, problem) from problem
        return record

    def _mend_routes(self) -> None:
        """Writes the routes that the newest snapshot notes, which an interrupted process may not have written."""
        routes = self._noted_routes()
        if routes is not None:
            self.directory.write_json(ROUTES, routes)

    def _noted_routes(self) -> list[dict[str, Any]] | None:
        """The routes in the notes of the newest snapshot; None if it has none, as in version 0.1."""
        stages = self.store.index.stages
        if not stages:
            return [] if self.store.index.changes else None
        return stages[-1].notes.get("routes")

    def read_certificates(self) -> list[Certificate]:
        """The certificates so far, also those of tasks that were learned after the plan's."""
        return self.store.read_certificates()
