"""One attempt at a run, in a process of its own that is watched and ends with whoever watches."""

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import holdfast
from holdfast.data.directory import Directory
from holdfast.data.files import make_folder
from holdfast.errors import BUSY, DEFECT, MISTAKE, Mistake
from holdfast.runs.events import check
from holdfast.runs.folder import EVENTS
from holdfast.study.grid import Job

TAIL = 4096  # bytes of a log that are read to see how far it is


How = Literal["success", "failure", "mistake", "defect", "busy"]
ENDS: dict[int, How] = {MISTAKE: "mistake", BUSY: "busy", DEFECT: "defect"}  # by exit code


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    steps: int = 0  # of all its tasks
    note: str = ""


@dataclass(frozen=True)
class End:
    """How an attempt ended: a failure may not come again, a mistake or defect would; busy waits for another process."""

    how: How
    reason: str = ""


class Attempt(ABC):
    """A run under way."""

    @abstractmethod
    def look(self) -> Progress | End:
        """How far it is, or how it ended; does not wait."""

    @abstractmethod
    def stop(self) -> None:
        """Ends it; what it had saved stays."""


class Engine(ABC):
    """Where runs are carried out; `with engine:`."""

    places: int  # runs that are started before one has ended

    def __enter__(self) -> Self:
        """Begins."""
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027
        """Ends, with all that runs here."""

    @abstractmethod
    def start(self, job: Job, log: Path) -> Attempt:
        """Begins a run, or goes on with it."""


class Process(Attempt):
    """`holdfast run` as a process on this machine."""

    def __init__(self, job: Job, words: Sequence[str], folder: Path, log: Path, more: Mapping[str, str]) -> None:
        self.steps, self.folder, self.log = job.command.plan.config.fit.steps, folder, log
        home = str(Path(holdfast.__file__).parents[1])
        paths = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        threads = str(job.command.plan.threads or 1)
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": threads, **more}
        make_folder(log.parent)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.subprocess", job.name],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # so that Ctrl-C is for the sweep alone
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"said": job.words, "words": list(words)}).encode() + b"\n")
        self.process.stdin.flush()

    def look(self) -> Progress | End:
        code = self.process.poll()
        if code is None:
            return progress(self.folder, self.steps)
        self.stop()
        return end(code, self.log)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.process.poll() is not None

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # lets go of the leash
        self.process.wait()


def progress(folder: Path, steps: int) -> Progress:
    """How far the run in a folder is, as its log says."""
    for line in reversed(_last(folder / EVENTS).splitlines()):
        try:
            event = json.loads(line)
            check(event, "line")
        except (ValueError, RecursionError, Mistake):  # being written, or cut
            continue
        if event["kind"] in ("train", "evaluate"):
            done = event["stage"] * steps + event.get("step", steps)
            loss = f" loss {event['loss']:.3g}" if "loss" in event else ""
            return Progress(done, f"{'learn' if loss else 'evaluate'} {event['task']}{loss}")
    return Progress()


def end(code: int, log: Path) -> End:
    """What an exit code and the last that a process said mean."""
    if code == 0:
        return End("success")
    return End(ENDS.get(code, "failure"), reason(log, code))


def reason(log: Path, code: int) -> str:
    """Why a process failed, in one line: the last it said."""
    if code < 0:
        return f"killed ({signal.Signals(-code).name})"
    lines = [line.strip() for line in _last(log).splitlines() if line.strip()]
    return lines[-1].removeprefix("holdfast: ") if lines else f"exit code {code}"


def _last(path: Path) -> str:
    try:
        return Directory(path.parent).read_bytes(path.name, TAIL, last=True).decode(errors="replace")
    except Mistake:  # not there yet
        return ""
