"""The run folder: the record of a run, from which it is resumed and every table is made."""

import json
import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from holdfast.data.conform import conform
from holdfast.data.directory import Directory
from holdfast.data.episodes import Dataset
from holdfast.data.files import TENSORS, damaged, make_folder, packed, sealed, unpacked, unsealed
from holdfast.errors import Busy, Mistake
from holdfast.evaluation.certificates import Certificate, checked
from holdfast.evaluation.matrix import Matrix
from holdfast.learners.learner import Snapshot
from holdfast.registry import check_plugins
from holdfast.runs.config import checked_config
from holdfast.runs.events import parsed, without_undone
from holdfast.runs.index import MEMORY, ONLY_PHASE, File, Index, Stage, fit_state
from holdfast.runs.plan import Plan, completed
from holdfast.runs.routes import check_routes
from holdfast.runs.settings import first_difference
from holdfast.runs.surroundings import surroundings
from holdfast.training.ranks import ranks

CONFIG, EVENTS, INDEX = "config.json", "events.jsonl", "weights/index.json"


class RunFolder:
    """One folder, held by one process at a time; `with RunFolder(path, plan) as folder`."""

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
        self.directory, self.resumed = Directory(self.path), True

    def _begin(self, plan: Plan) -> None:
        if os.path.isfile(self.path):
            raise Mistake(f"{self.path} is a file: choose another --out")
        make_folder(self.path)
        self.directory = Directory(self.path)
        self.resumed = self.directory.exists(CONFIG)
        if not self.resumed:
            config = json.loads(json.dumps(asdict(plan)))
            self._create(config, plan.threads or torch.get_num_threads())  # a resumed run has as many
        self.check_plan(plan)

    def _load(self) -> None:
        self.record = self._config()
        self.order: list[str] = list(self.record["config"]["order"])
        self.index = self._index()

    def _config(self) -> dict[str, Any]:
        return checked_config(self.directory.read_json(CONFIG), self.path / CONFIG)

    def _index(self) -> Index:
        if not self.directory.exists(INDEX):
            return Index()
        try:
            found = Index.from_json(self.directory.read_json(INDEX))
        except Mistake as problem:
            raise damaged(self.path / INDEX, problem) from problem
        if len(found.stages) > len(self.order):
            raise damaged(self.path / INDEX, f"{len(found.stages)} stages of {len(self.order)} tasks")
        return found

    def check_plan(self, plan: Plan) -> None:
        """Raises unless this is a run of this plan, made with the plugins that are loaded."""
        record = self._config()
        check_plugins(record["plugins"])
        if difference := first_difference(completed(record["config"]), json.loads(json.dumps(asdict(plan)))):
            name, old, new = difference
            raise Mistake(f"{self.path} is a run with {name} = {old}, not {new}: choose another --out or delete it")

    def _create(self, config: dict[str, Any], threads: int) -> None:
        self._lock()  # of two that begin at once, one does
        try:
            if not self.directory.exists(CONFIG):
                if {*self.directory.names()} - {f"{CONFIG}.part"}:  # which a kill may leave
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
            self._load()  # until now another process may have gone on with it
            self.check_weights()
            self._remove_unused()
            self._mend_events()
            self.events()  # a log that cannot be read is better known before anything is learned
        except BaseException:
            self.directory.unlock()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.directory.unlock()  # as it is when the process dies

    def check_weights(self) -> None:
        """Raises if what was learned is known to be, but not where: it must not be learned again beside old results."""
        matrix = self.read_matrix()
        known = max(
            max((found.stage + 1 for found in self.read_certificates()), default=0),
            matrix.stages if matrix else 0,
            len(self.read_routes()) - 1,  # the last may have been written when its stage was not yet
        )
        if known > self.learned:
            lost = "is missing" if self.learned == 0 else f"has {self.learned} of {known} tasks"
            raise Mistake(f"{self.path} has results but no weights ({INDEX} {lost}): bring them back")

    # What happened

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

    def begin_task(self, task: str) -> None:
        """Notes that the next task is learned from here on, or again from where it was last saved."""
        processes = self.record.get("processes", 1)
        if processes != ranks().size:  # sums, and so bits, would depend on when it was interrupted
            raise Mistake(f"{self.path} is a run of {processes} processes, not {ranks().size}: choose another --out")
        stage = self.learned
        steps = {}  # that were saved of each phase
        for phase in self.index.phases or [ONLY_PHASE]:
            saved = self.read_fit(stage, phase)
            steps[phase] = int(saved["done"]) if saved else 0
        kind, step = "resume" if self.resumed else "learn", list(steps.values())[-1]
        self.event(kind, stage=stage, task=task, step=step, phases=steps)
        self.resumed = False

    def begin_phase(self, phase: str) -> None:
        """Notes that the task that is being learned has this phase, so that its state is removed when it is learned."""
        self._write_index(self.index.with_phase(phase))

    def read_fit(self, stage: int, phase: str) -> dict[str, Tensor] | None:
        """The saved state of a phase of an unfinished task, if there is one."""
        name = fit_state(stage, phase)
        if not self.directory.exists(name):
            return None
        tensors = unsealed(self.directory.read_bytes(name, TENSORS))
        if tensors is None or not {"done", "losses"} <= tensors.keys() or tensors["done"].numel() != 1:
            raise Mistake(
                f"{self.path / name} was changed or cut off: delete it, and its task is learned from the first step"
            )
        return tensors

    def write_fit(self, stage: int, phase: str, tensors: Mapping[str, Tensor]) -> None:
        """Saves the state of a phase of an unfinished task."""
        self.directory.write_bytes(fit_state(stage, phase), sealed(tensors))

    def check_data(self, task: str, dataset: Dataset) -> None:
        """Keeps what identifies a task's data, and its mean return; raises if the run began with other data."""
        known = self.record["datasets"].setdefault(task, dataset.fingerprint)
        if known != dataset.fingerprint:
            raise Mistake(f"the data of {task} changed since {self.path} was begun: choose another --out")
        self.record["data_returns"][task] = float(dataset.totals.mean())
        self.directory.write_json(CONFIG, self.record)

    # What was learned

    @property
    def learned(self) -> int:
        """How many tasks are learned and kept."""
        return len(self.index.stages)

    @property
    def is_complete(self) -> bool:
        """Whether all is learned, and nothing is kept that only learning on needs."""
        left = any(self.directory.exists(path) for path in self.index.unused)
        return self.learned == len(self.order) and self.index.without_memory() == self.index and not left

    def how_to_go_on(self) -> str:
        """The command that goes on with a run that has no results to its end."""
        trained = self.learned == len(self.order)
        return f"holdfast {'evaluate' if trained else 'run --config'} {shlex.quote(str(self.path))}"

    def commit(self, snapshot: Snapshot, newest_only: bool) -> None:
        """Keeps what was learned by a stage; the new index makes it valid, all of it at once."""
        stage, before = self.learned, self.index.stages[-1].files if self.index.stages else {}
        tensors = {f"weights/{name}": found for name, found in snapshot.weights.items()}
        if snapshot.memory:
            tensors[MEMORY] = snapshot.memory
        files = {name: File(f"{name}.{stage}.safetensors", packed(found)[1]) for name, found in tensors.items()}
        same = {name for name, file in files.items() if name in before and before[name].sha256 == file.sha256}
        new = {name: file.path for name, file in files.items() if name not in same}
        self._write_index(self.index.announcing(list(new.values())))
        for name, path in new.items():
            self.directory.write_bytes(path, packed(tensors[name])[0])
        files |= {name: before[name] for name in same}  # one file serves both stages
        self.directory.write_json("routes.json", snapshot.notes.get("routes", []))
        notes = {name: note for name, note in snapshot.notes.items() if name != "routes"}  # written once
        learned = Stage(files, notes, snapshot.bytes())
        self._write_index(self.index.with_stage(learned, newest_only))
        self._remove_unused()

    def complete(self) -> None:
        """Gives up what only learning on needs."""
        if not self.is_complete:
            self._write_index(self.index.without_memory())
            self._remove_unused()
        self.directory.remove_empty("state")

    def _write_index(self, index: Index) -> None:
        self.directory.write_json(INDEX, index.to_json())
        self.index = index

    def _remove_unused(self) -> None:
        for path in self.index.unused:
            self.directory.remove(path)

    def snapshot(self, stage: int) -> Snapshot:
        """What was learned by a stage; where only the newest is kept, that serves every stage."""
        if not self.index.stages[stage].files:
            stage = self.learned - 1
        entry = self.index.stages[stage]
        tensors = {name: self.tensors(file) for name, file in entry.files.items()}
        memory = tensors.pop(MEMORY, {})
        weights = {name.removeprefix("weights/"): found for name, found in tensors.items()}
        notes = {"routes": self.read_routes()[: stage + 1], **entry.notes}
        return Snapshot(weights, memory, notes)

    def tensors(self, file: File) -> dict[str, Tensor]:
        """The tensors in a file that the index names."""
        return unpacked(self.directory.read_bytes(file.path, TENSORS), self.path / file.path, file.sha256)

    def bytes(self, stage: int) -> dict[str, int]:
        """What keeping the learner cost after a stage."""
        return self.index.stages[stage].bytes

    # What it is worth

    def read_matrix(self) -> Matrix | None:
        """The results so far; raises if they are those of another run."""
        if not self.directory.exists("matrix.json"):
            return None
        record, path = self.directory.read_json("matrix.json"), self.path / "matrix.json"
        try:
            matrix = Matrix.from_json(record)
        except Mistake as problem:
            raise damaged(path, problem) from problem
        if difference := first_difference(*self._told_twice(matrix)):
            name, own, other = difference
            raise Mistake(
                f"{path} is of another run than the config.json beside it, with {name} = {other}, not {own}: "
                "bring the right one back"
            )
        return matrix

    def _told_twice(self, matrix: Matrix) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both config.json and a matrix say, as far as the older of them said it."""
        plan = completed(self.record["config"])
        names = [name for name in ("suite", "learner", "seed", "preset", "budget") if name in plan]
        protocol = plan.get("protocol", {})
        played = {name: value for name, value in matrix.protocol.items() if name in protocol}
        ours: dict[str, Any] = {"tasks": self.order, **{name: plan[name] for name in names}, "protocol": protocol}
        theirs = completed({"tasks": matrix.tasks, **{name: getattr(matrix, name) for name in names}})
        return ours, {**{name: theirs[name] for name in ("tasks", *names)}, "protocol": played}

    def write_matrix(self, matrix: Matrix) -> None:
        """Keeps the results so far."""
        self.directory.write_json("matrix.json", matrix.to_json())

    def read_routes(self) -> list[dict[str, Any]]:
        """Why each task is in its copy."""
        record = self._read_list("routes.json")
        try:
            check_routes(record, self.order)
        except Mistake as problem:
            raise damaged(self.path / "routes.json", problem) from problem
        return record

    def read_certificates(self) -> list[Certificate]:
        """The certificates so far."""
        record = self._read_list("certificates.json")
        try:
            return checked(conform(record, list[Certificate], "certificates"), self.order)
        except Mistake as problem:
            raise damaged(self.path / "certificates.json", problem) from problem

    def write_certificates(self, certificates: list[Certificate]) -> None:
        """Keeps the certificates so far."""
        self.directory.write_json("certificates.json", [asdict(certificate) for certificate in certificates])

    def read_losses(self) -> dict[str, list[list[Any]]]:
        """Of an export, which has no events: for each task, some steps and the loss there."""
        if not self.directory.exists("losses.json"):
            return {}
        try:
            return conform(self.directory.read_json("losses.json"), dict[str, list[list[Any]]], "losses")
        except Mistake as problem:
            raise damaged(self.path / "losses.json", problem) from problem

    def _read_list(self, name: str) -> Any:
        return self.directory.read_json(name) if self.directory.exists(name) else []
