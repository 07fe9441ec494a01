"""The run folder: the record of a run, from which it is resumed and every table is made."""

import json
import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch

from holdfast.agent.store import INDEX, Store, identity_of
from holdfast.data.conform import conform
from holdfast.data.directory import Directory
from holdfast.data.files import damaged, make_folder
from holdfast.errors import Busy, Mistake
from holdfast.evaluation.certificates import Certificate
from holdfast.evaluation.matrix import Matrix
from holdfast.learners.learner import Snapshot
from holdfast.registry import check_plugins
from holdfast.runs.config import checked_config
from holdfast.runs.events import parsed, training_seconds, without_undone
from holdfast.runs.plan import Plan, completed
from holdfast.runs.routes import check_routes
from holdfast.runs.settings import first_difference
from holdfast.runs.surroundings import surroundings
from holdfast.tasks.task import Task
from holdfast.training.ranks import ranks

CONFIG, EVENTS, MATRIX, ROUTES = "config.json", "events.jsonl", "matrix.json", "routes.json"


class RunFolder:
    """What was learned, with the plan, the events and the results beside it.

    One process works in it at a time: `with RunFolder(path, plan) as folder`.
    """

    def __init__(self, path: str | Path, plan: Plan | None = None) -> None:
        self.path = Path(path)
        if plan is None:
            self._open()
        else:
            self._begin(plan)
        self._load()

    def _open(self) -> None:
        if not os.path.lexists(self.path / CONFIG):
            raise Mistake(f"{self.path} is not a run folder: it has no config.json")
        self.directory = Directory(self.path)

    def _begin(self, plan: Plan) -> None:
        if os.path.isfile(self.path):
            raise Mistake(f"{self.path} is a file: choose another --out")
        make_folder(self.path)
        self.directory = Directory(self.path)
        if not self.directory.exists(CONFIG):
            config = json.loads(json.dumps(asdict(plan)))
            self._create(config, plan.threads or torch.get_num_threads())  # a resumed run has as many
        self.check_plan(plan)

    def _load(self) -> None:
        self.record = self._config()
        self.order: list[str] = list(self.record["config"]["order"])
        self.store = Store(self.directory, self.order)

    def _config(self) -> dict[str, Any]:
        return checked_config(self.directory.read_json(CONFIG), self.path / CONFIG)

    def check_plan(self, plan: Plan) -> None:
        """Raises unless this is a run of this plan, made with the plugins that are loaded."""
        record = self._config()
        check_plugins(record["plugins"])
        if difference := first_difference(completed(record["config"]), json.loads(json.dumps(asdict(plan)))):
            name, old, new = difference
            raise Mistake(f"{self.path} is a run with {name} = {old}, not {new}: choose another --out or delete it")

    def _create(self, config: dict[str, Any], threads: int) -> None:
        self._lock()  # if two processes begin at once, one of them creates the run
        try:
            if not self.directory.exists(CONFIG):
                if {*self.directory.names()} - {f"{CONFIG}.part"}:  # which a killed process may leave
                    raise Mistake(f"{self.path} is not empty and not a run folder: choose another --out")
                made_with = surroundings(config["suite"], config["learner"], config["backbone"])
                kept = {"config": config, "datasets": {}, "data_returns": {}, "threads": threads}
                self.directory.write_json(CONFIG, {**kept, "processes": ranks().size, **made_with})
        finally:
            self.directory.unlock()

    def _lock(self) -> None:
        if not self.directory.lock():
            raise Busy(f"another process is working in {self.path}: wait for it, or choose another --out")
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
        matrix, learned = self.read_matrix(), len(self.store.learned)
        known = max(
            max((found.stage + 1 for found in self.read_certificates()), default=0),
            matrix.stages if matrix else 0,
            len(self._routes()) - 1,  # version 0.1 wrote a route before its stage
        )
        if known > learned:
            lost = "is missing" if learned == 0 else f"has {learned} of {known} tasks"
            raise Mistake(f"{self.path} has results but no weights ({INDEX} {lost}): restore them from a backup")

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

    def begin_learning(self, tasks: Sequence[Task], name: str) -> str:
        """Records that these tasks are learned now, under this name; returns what identifies them."""
        processes = self.record.get("processes", 1)
        if processes != ranks().size:  # sums, and so bits, would depend on when it was interrupted
            raise Mistake(f"{self.path} is a run of {processes} processes, not {ranks().size}: choose another --out")
        identity, stage = identity_of(tasks), len(self.store.learned)
        steps = self.store.begin_task(identity)
        begun = any(event.get("stage") == stage for event in self.events())
        kind = "resume" if begun else "learn"
        self.event(kind, stage=stage, task=name, step=list(steps.values())[-1], phases=steps)
        return identity

    def check_data(self, task: Task) -> None:
        """Records the fingerprint and the mean return of a planned task's data; raises if the run has other data."""
        known = self.record["datasets"].setdefault(task.name, task.dataset.fingerprint)
        if known != task.dataset.fingerprint:
            raise Mistake(f"the data of {task.name} changed since {self.path} was begun: choose another --out")
        self.record["data_returns"][task.name] = float(task.dataset.totals.mean())
        self.directory.write_json(CONFIG, self.record)

    @property
    def learned(self) -> int:
        """The number of planned tasks that are learned."""
        return min(len(self.store.learned), len(self.order))

    @property
    def further(self) -> list[str]:
        """The tasks that were learned into the finished run, after those of the plan."""
        return self.store.learned[len(self.order) :]

    @property
    def is_complete(self) -> bool:
        """Whether all planned tasks are learned and certified, and no file is left to remove."""
        return self.learned == len(self.order) and self._is_certified() and not self.store.has_unused

    def _is_certified(self) -> bool:
        certified = [(found.stage, found.task) for found in self.read_certificates()]
        stages = [stage for stage, found in enumerate(self.store.index.stages[: len(self.order)]) if not found.joint]
        return all((stage, task) in certified for stage in stages for task in self.order[: stage + 1])

    def how_to_go_on(self) -> str:
        """The command that continues a run whose results are not complete."""
        trained = self.learned == len(self.order)
        plugins = [word for plugin in self.record["plugins"] for word in ("--plugin", plugin["file"])]
        command = ["evaluate"] if trained else ["run", "--config"]
        return shlex.join(["holdfast", *command, str(self.path), *plugins])

    def commit(self, snapshot: Snapshot, tasks: Sequence[Task], newest_only: bool) -> None:
        """Keeps a snapshot after these tasks were learned."""
        self.store.commit(snapshot, {task.name: task.dataset.fingerprint for task in tasks}, newest_only)
        self._mend_routes()

    # Results

    def read_matrix(self) -> Matrix | None:
        """The results so far; raises if they are those of another run."""
        if not self.directory.exists(MATRIX):
            return None
        record, path = self.directory.read_json(MATRIX), self.path / MATRIX
        try:
            matrix = Matrix.from_json(record)
        except Mistake as problem:
            raise damaged(path, problem) from problem
        if difference := first_difference(*self._in_both(matrix)):
            name, own, other = difference
            raise Mistake(
                f"{path} is of another run than the config.json beside it, with {name} = {other}, not {own}: "
                "restore the right one"
            )
        return matrix

    def _in_both(self, matrix: Matrix) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both config.json and a matrix say, as far as the older of them says it."""
        plan = completed(self.record["config"])
        names = [name for name in ("suite", "learner", "seed", "preset", "budget") if name in plan]
        protocol = plan.get("protocol", {})
        played = {name: value for name, value in matrix.protocol.items() if name in protocol}
        ours: dict[str, Any] = {"tasks": self.order, **{name: plan[name] for name in names}, "protocol": protocol}
        theirs = completed({"tasks": matrix.tasks, **{name: getattr(matrix, name) for name in names}})
        return ours, {**{name: theirs[name] for name in ("tasks", *names)}, "protocol": played}

    def write_matrix(self, matrix: Matrix) -> None:
        """Keeps the results so far."""
        self.directory.write_json(MATRIX, matrix.to_json())

    def read_routes(self) -> list[dict[str, Any]]:
        """Why each planned task is in its copy."""
        return self._routes()[: len(self.order)]

    def routes_by(self, stage: int) -> list[dict[str, Any]]:
        """The routes of all tasks learned by a stage."""
        return self._routes()[: stage + 1]

    def _routes(self) -> list[dict[str, Any]]:
        record = self.directory.read_json(ROUTES) if self.directory.exists(ROUTES) else []
        try:
            check_routes(record, self.store.tasks)
        except Mistake as problem:
            raise damaged(self.path / ROUTES, problem) from problem
        return record

    def _mend_routes(self) -> None:
        """Writes the routes that the newest snapshot notes, which an interrupted process may not have written."""
        stages = self.store.index.stages
        if stages and "routes" in stages[-1].notes:  # version 0.1 only has routes.json
            self.directory.write_json(ROUTES, stages[-1].notes["routes"])

    def read_certificates(self) -> list[Certificate]:
        """The certificates so far, also those of tasks that were learned after the plan's."""
        return self.store.read_certificates()

    def read_losses(self) -> dict[str, list[list[Any]]]:
        """Of an export, which has no events: for each task, some steps and the loss there."""
        return self._exported("losses", dict[str, list[list[Any]]])

    def read_seconds(self) -> dict[str, float]:
        """The time that the training of each task took, as far as it is known."""
        return self._exported("seconds", dict[str, float]) or training_seconds(self.events())

    def _exported(self, name: str, kind: Any) -> Any:
        """What an export has instead of events; empty if this is none."""
        file = f"{name}.json"
        if not self.directory.exists(file):
            return {}
        try:
            return conform(self.directory.read_json(file), kind, name)
        except Mistake as problem:
            raise damaged(self.path / file, problem) from problem
