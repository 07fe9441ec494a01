"""A job of a sweep that is running, in a process that ends with the process that watches it."""

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import holdfast
from holdfast.agent.events import check
from holdfast.agent.folder import EVENTS
from holdfast.data.directory import Directory
from holdfast.data.files import make_folder
from holdfast.errors import BUSY, DEFECT, MISTAKE, Mistake
from holdfast.registry import PLUGINS
from holdfast.study.jobs import Job

TAIL = 4096  # bytes of a log that are read to see how far a run is

Ending = Literal["success", "failure", "mistake", "defect", "busy"]
ENDINGS: dict[int, Ending] = {MISTAKE: "mistake", BUSY: "busy", DEFECT: "defect"}  # by exit code


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    steps: int = 0  # gradient steps, of all its tasks
    note: str = ""


@dataclass(frozen=True)
class End:
    """How a job ended: a failure is tried again, a mistake or a defect is not, and a busy folder is waited for."""

    how: Ending
    reason: str = ""


@dataclass(frozen=True)
class Launch:
    """What the process of a run is told, as JSON."""

    name: str
    words: tuple[str, ...]  # the command that the run folder records, after `holdfast`
    run: Mapping[str, Any]  # RunSpec.to_json()
    plugins: tuple[str, ...]  # paths of files

    @classmethod
    def of(cls, job: Job) -> "Launch":
        """For a run of a sweep, with the plugins of this process."""
        return cls(job.name, job.words, job.spec.to_json(), tuple(str(plugin.file) for plugin in PLUGINS))

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.run["out"])


class RunningJob(ABC):
    """A job that was started."""

    @abstractmethod
    def poll(self) -> RunProgress | End:
        """How far it is, or how it ended; does not wait."""

    @abstractmethod
    def interrupt(self) -> None:
        """Asks it to save its work and to end."""

    @abstractmethod
    def stop(self, patience: float = 0.0) -> None:
        """Ends it, if it does not end by itself within so many seconds; what it has saved stays."""


class Engine(ABC):
    """Where runs are carried out; a context manager."""

    places: int  # how many runs are under way at once

    def __enter__(self) -> Self:
        """Begins."""
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027
        """Ends, and ends all runs that are under way here."""

    @abstractmethod
    def start(self, job: Job, log: Path) -> RunningJob:
        """Starts or resumes a run."""


class RunProcess(RunningJob):
    """A run in a process on this machine."""

    def __init__(self, launch: Launch, log: Path, environment: Mapping[str, str]) -> None:
        plan = launch.run["plan"]
        self.steps, self.folder, self.log = plan["config"]["fit"]["steps"], launch.folder, log
        source = str(Path(holdfast.__file__).parents[1])
        paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        usual = {"PYTHONPATH": paths, "OMP_NUM_THREADS": str(plan["threads"] or 1)}
        make_folder(log.parent)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.sweep_process", launch.name],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **usual, **environment},
                start_new_session=True,  # so that Ctrl-C reaches the sweep alone
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(launch)).encode() + b"\n")
        self.process.stdin.flush()

    def poll(self) -> RunProgress | End:
        code = self.process.poll()
        if code is None:
            return progress(self.folder, self.steps)
        self.stop()
        return end(code, self.log)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.process.poll() is not None

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stop(self, patience: float = 0.0) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        assert self.process.stdin is not None
        self.process.stdin.close()  # which ends the process
        self.process.wait()


def progress(folder: Path, steps: int) -> RunProgress:
    """How far the run in a folder is, according to its events."""
    for line in reversed(_last(folder / EVENTS).splitlines()):
        try:
            event = json.loads(line)
            check(event, "line")
        except (ValueError, RecursionError, Mistake):  # incomplete
            continue
        if event["kind"] in ("train", "evaluate"):
            done = event["stage"] * steps + event.get("step", steps)
            loss = f" loss {event['loss']:.3g}" if "loss" in event else ""
            return RunProgress(done, f"{'learn' if loss else 'evaluate'} {event['task']}{loss}")
    return RunProgress()


def end(code: int, log: Path) -> End:
    """How a process ended, from its exit code and its log."""
    if code == 0:
        return End("success")
    return End(ENDINGS.get(code, "failure"), reason(log, code))


def reason(log: Path, code: int) -> str:
    """Why a process failed: the last line of its log."""
    if code < 0:
        return f"killed ({signal.Signals(-code).name})"
    lines = [line.strip() for line in _last(log).splitlines() if line.strip()]
    return lines[-1].removeprefix("holdfast: ") if lines else f"exit code {code}"


def _last(path: Path) -> str:
    try:
        return Directory(path.parent).read_bytes(path.name, TAIL, last=True).decode(errors="replace")
    except Mistake:  # not there yet
        return ""
