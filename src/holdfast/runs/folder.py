"""The run folder: the record of a run, from which it is resumed and every table is made."""

import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate
from holdfast.evaluation.matrix import Matrix
from holdfast.learners.learner import Snapshot
from holdfast.learners.plan import Plan, completed
from holdfast.learners.team import team
from holdfast.runs.files import (
    append_line,
    make_folder,
    packed,
    read_json,
    read_tensors,
    sealed,
    unsealed,
    write_bytes,
    write_json,
)
from holdfast.runs.settings import first_difference
from holdfast.runs.surroundings import surroundings

MEMORY = "state/memory"
BUSY = "another process is working in"  # how the sentence begins by which a sweep knows that it must wait


class RunFolder:
    """One folder, held by one process at a time; `with RunFolder(path, plan) as folder`."""

    def __init__(self, path: str | Path, plan: Plan | None = None) -> None:
        self.path = Path(path)
        self.resumed = (self.path / "config.json").exists()
        if plan is not None:
            self._begin(plan)
        elif not self.resumed:
            raise Mistake(f"{self.path} is not a run folder: it has no config.json")
        self._load()

    def _load(self) -> None:
        self.record = self._config()
        self.index: dict[str, Any] = self._read("weights/index.json", {"stages": []})
        if not isinstance(self.index, dict) or not isinstance(self.index.get("stages"), list):
            raise Mistake(f"{self.path / 'weights/index.json'} is damaged (no stages): bring it back from a copy")

    def _config(self) -> dict[str, Any]:
        record = read_json(self.path / "config.json")
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise Mistake(f"{self.path / 'config.json'} is not that of a run of holdfast: choose another folder")
        return record

    def _begin(self, plan: Plan) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise Mistake(f"{self.path} is a file: choose another --out")
        if not self.resumed:
            config = json.loads(json.dumps(asdict(plan)))
            self._create(config, plan.threads or torch.get_num_threads())  # a resumed run has as many
        self.check_plan(plan)

    def check_plan(self, plan: Plan) -> None:
        """Raises unless this is a run of this plan."""
        if difference := first_difference(completed(self._config()["config"]), json.loads(json.dumps(asdict(plan)))):
            name, old, new = difference
            raise Mistake(f"{self.path} is a run with {name} = {old}, not {new}: choose another --out or delete it")

    def _create(self, config: dict[str, Any], threads: int) -> None:
        make_folder(self.path)
        lock = self._held()  # of two that begin at once, one does
        try:
            if not (self.path / "config.json").exists():
                if {path.name for path in self.path.iterdir()} - {"config.json.part"}:  # which a kill may leave
                    raise Mistake(f"{self.path} is not empty and not a run folder: choose another --out")
                kept = {"config": config, "datasets": {}, "data_returns": {}, "threads": threads}
                write_json(self.path / "config.json", {**kept, "processes": team().size, **surroundings()})
        finally:
            os.close(lock)

    def _held(self) -> int:
        lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Mistake(f"{BUSY} {self.path}: wait for it, or choose another --out") from None
        return lock

    def __enter__(self) -> Self:
        self.lock = self._held()
        self._load()  # until now another process may have gone on with it
        self.check_weights()
        self._mend_events()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.lock)  # the lock goes with it, as it does when the process dies

    def check_weights(self) -> None:
        """Raises if what was learned is known to be, but not where: it must not be learned again beside old results."""
        if not self.learned and self.read_certificates():
            raise Mistake(f"{self.path} has results but no weights (weights/index.json is missing): bring them back")

    def _read(self, name: str, otherwise: Any) -> Any:
        path = self.path / name
        return read_json(path) if path.exists() else otherwise

    # What happened

    def event(self, kind: str, **data: Any) -> None:
        """Appends to events.jsonl."""
        append_line(self.path / "events.jsonl", json.dumps({"time": round(time.time(), 3), "kind": kind, **data}))

    def _mend_events(self) -> None:
        """Cuts off a last line that was being written when the process died."""
        path = self.path / "events.jsonl"
        if path.exists() and not (content := path.read_bytes()).endswith(b"\n") and content:
            write_bytes(path, content[: content.rfind(b"\n") + 1])

    def events(self) -> list[dict[str, Any]]:
        """What happened, without what an interruption undid."""
        path = self.path / "events.jsonl"
        kept: list[dict[str, Any]] = []
        *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]  # the last is being written
        for event in filter(None, map(_event, lines)):
            if event["kind"] == "resume":
                kept = [old for old in kept if not _undone(old, event)]
            kept.append(event)
        return kept

    def begin_task(self, task: str) -> None:
        """Notes that the next task is learned from here on, or again from where it was last saved."""
        processes = self.record.get("processes", 1)
        if processes != team().size:  # sums, and so bits, would depend on when it was interrupted
            raise Mistake(f"{self.path} is a run of {processes} processes, not {team().size}: choose another --out")
        stage = self.learned
        saved = self.read_fit(stage)
        step = int(saved["done"]) if saved else 0
        self.event("resume" if self.resumed else "learn", stage=stage, task=task, step=step)
        self.resumed = False

    def fit_state(self, stage: int) -> Path:
        """Where the state of an unfinished fit is kept."""
        return self.path / "state" / f"fit.{stage}.sealed"

    def read_fit(self, stage: int) -> dict[str, Tensor] | None:
        """The state of an unfinished fit, if there is one."""
        path = self.fit_state(stage)
        if not path.exists():
            return None
        if (tensors := unsealed(path.read_bytes())) is None:
            raise Mistake(f"{path} was changed or cut off: delete it, and its task is learned from the first step")
        return tensors

    def write_fit(self, stage: int, tensors: Mapping[str, Tensor]) -> None:
        """Keeps the state of an unfinished fit."""
        write_bytes(self.fit_state(stage), sealed(tensors))

    def check_data(self, task: str, dataset: Dataset) -> None:
        """Keeps what identifies a task's data, and its mean return; raises if the run began with other data."""
        known = self.record["datasets"].setdefault(task, dataset.fingerprint)
        if known != dataset.fingerprint:
            raise Mistake(f"the data of {task} changed since {self.path} was begun: choose another --out")
        self.record["data_returns"][task] = float(dataset.totals.mean())
        write_json(self.path / "config.json", self.record)

    # What was learned

    @property
    def learned(self) -> int:
        """How many tasks are learned and kept."""
        return len(self.index["stages"])

    def how_to_go_on(self) -> str:
        """The command that goes on with a run that has no results to its end."""
        trained = self.learned == len(self.record["config"]["order"])
        return f"holdfast {'evaluate' if trained else 'run --config'} {shlex.quote(str(self.path))}"

    def commit(self, snapshot: Snapshot, newest_only: bool) -> None:
        """Keeps what was learned by a stage; the new index makes it valid, all of it at once."""
        stage, before = self.learned, self.index["stages"][-1]["files"] if self.index["stages"] else {}
        files = {}
        named = {f"weights/{name}": tensors for name, tensors in snapshot.weights.items()}
        if snapshot.memory:
            named[MEMORY] = snapshot.memory
        for name, tensors in named.items():
            content, digest = packed(tensors)
            if name in before and before[name]["sha256"] == digest:  # as it was: one file serves both stages
                files[name] = before[name]
            else:
                files[name] = {"path": f"{name}.{stage}.safetensors", "sha256": digest}
                write_bytes(self.path / files[name]["path"], content)
        stages = self.index["stages"]
        if newest_only:
            stages = [{**old, "files": {}, "notes": {}} for old in stages]
        write_json(self.path / "routes.json", snapshot.notes.get("routes", []))
        notes = {name: note for name, note in snapshot.notes.items() if name != "routes"}  # written once
        self._write_index([*stages, {"files": files, "notes": notes, "bytes": snapshot.bytes()}])

    def complete(self) -> None:
        """Gives up what only learning on needs."""
        kept = [
            {**stage, "files": {name: file for name, file in stage["files"].items() if name != MEMORY}}
            for stage in self.index["stages"]
        ]
        if kept != self.index["stages"] or (self.path / "state").exists():
            self._write_index(kept)
            shutil.rmtree(self.path / "state", ignore_errors=True)

    def _write_index(self, stages: list[dict[str, Any]]) -> None:
        self.index = {"stages": stages}
        write_json(self.path / "weights/index.json", self.index)
        self._forget_unused()

    def _forget_unused(self) -> None:
        used = {file["path"] for stage in self.index["stages"] for file in stage["files"].values()}
        for path in [*self.path.glob("weights/*"), *self.path.glob("state/*")]:
            if path.name != "index.json" and str(path.relative_to(self.path)) not in used:
                path.unlink()

    def snapshot(self, stage: int) -> Snapshot:
        """What was learned by a stage; where only the newest is kept, that serves every stage."""
        if not self.index["stages"][stage]["files"]:
            stage = self.learned - 1
        entry = self.index["stages"][stage]
        files = entry["files"].items()
        tensors = {name: read_tensors(self.path / file["path"], file["sha256"]) for name, file in files}
        memory = tensors.pop(MEMORY, {})
        weights = {name.removeprefix("weights/"): found for name, found in tensors.items()}
        notes = {"routes": self.read_routes()[: stage + 1], **entry["notes"]}
        return Snapshot(weights, memory, notes)

    def bytes(self, stage: int) -> dict[str, int]:
        """What keeping the learner cost after a stage."""
        return self.index["stages"][stage]["bytes"]

    # What it is worth

    def read_matrix(self) -> Matrix | None:
        """The results so far."""
        record = self._read("matrix.json", None)
        return None if record is None else Matrix.from_json(record)

    def write_matrix(self, matrix: Matrix) -> None:
        """Keeps the results so far."""
        write_json(self.path / "matrix.json", matrix.to_json())

    def read_routes(self) -> list[dict[str, Any]]:
        """Why each task is in its copy."""
        return self._read("routes.json", [])

    def read_certificates(self) -> list[Certificate]:
        """The certificates so far."""
        try:
            return [Certificate(**record) for record in self._read("certificates.json", [])]
        except TypeError as problem:
            raise Mistake(f"{self.path / 'certificates.json'} is damaged ({problem})") from problem

    def write_certificates(self, certificates: list[Certificate]) -> None:
        """Keeps the certificates so far."""
        write_json(self.path / "certificates.json", [asdict(certificate) for certificate in certificates])


def _event(line: bytes) -> dict[str, Any] | None:
    """What a line of the log says; one that a failing machine tore says nothing."""
    try:
        return json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None


def _undone(event: dict[str, Any], resume: dict[str, Any]) -> bool:
    """Whether an event came after the point that a resumed run went back to."""
    kept = event["kind"] in ("train", "learn") and event["step"] <= resume["step"]
    return event.get("stage") == resume["stage"] and not kept
