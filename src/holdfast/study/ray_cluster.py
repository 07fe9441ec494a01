"""Runs on a Ray cluster: each is a task there, which tells how far it is and sends its folder where none is shared."""

import hashlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any, Self

from holdfast.errors import Mistake
from holdfast.study.grid import Job
from holdfast.study.subprocess import Attempt, End, Engine, Process, Progress

PIECE = 8 * 2**20  # bytes of a folder that are sent at once
LOOKS = 0.2  # seconds between two looks at a run
MARK = ".sweep"  # a file by which a worker knows that it sees the folder of the sweep


@dataclass(frozen=True)
class Order:
    """What a worker needs to know."""

    job: Job
    out: str  # the folder of the sweep, absolute
    log: str
    mark: str  # what the file there says


@dataclass(frozen=True)
class Began:
    """The first that a worker tells."""

    host: str
    worker: int  # process
    shared: bool  # whether it writes into the sweep's own folder


class Cluster(Engine):
    """A cluster at an address, or one that is started on this machine."""

    def __init__(self, out: Path, address: str | None, cpus: float, gpus: float, places: int) -> None:
        try:
            self.ray: Any = import_module("ray")
        except ImportError:
            raise Mistake("--on ray needs Ray: pip install 'holdfast[ray]'") from None
        self.out, self.address, self.places = out, address, places
        self.needs = {"num_cpus": cpus, "num_gpus": gpus}
        self.mark = uuid.uuid4().hex

    def __enter__(self) -> Self:
        try:
            self.ray.init(self.address or "local", include_dashboard=False, log_to_driver=False, logging_level="error")
        except ConnectionError as problem:
            raise Mistake(f"there is no Ray cluster at {self.address} ({problem})") from None
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / MARK).write_text(self.mark)
        return self

    def __exit__(self, *_: object) -> None:
        self.ray.shutdown()  # with all workers of this sweep
        (self.out / MARK).unlink(missing_ok=True)

    def start(self, job: Job, log: Path) -> Attempt:
        task = self.ray.remote(num_returns="streaming", max_retries=0, **self.needs)(carry_out)
        order = Order(job, str(self.out.absolute()), str(log.absolute()), self.mark)
        return Remote(self.ray, task.remote(order), job, log)


class Remote(Attempt):
    """A run on some node."""

    def __init__(self, ray: Any, told: Any, job: Job, log: Path) -> None:
        self.ray, self.told, self.job, self.log = ray, told, job, log
        self.last, self.sent = Progress(0, "waits for a place"), io.BytesIO()
        self.began: Began | None = None

    def look(self) -> Progress | End:
        while self.ray.wait([self.told], timeout=0)[0]:
            try:
                seen = self.ray.get(next(self.told))
            except StopIteration:
                return End("failure", "the worker ended without a word")
            except self.ray.exceptions.RayError as problem:
                return End("failure", f"its worker failed: {str(problem).strip().splitlines()[-1]}")
            if isinstance(seen, End):
                return self._received(seen)
            self._take(seen)
        return self.last

    def _take(self, seen: Any) -> None:
        if isinstance(seen, bytes):
            self.sent.write(seen)
        elif isinstance(seen, Began):
            self.began = seen
        else:
            self.last = seen

    def _received(self, end: End) -> End:
        """Puts a folder that was sent, and its log, where the sweep's own are."""
        if self.began and not self.began.shared:
            self.sent.seek(0)
            aside = self.job.path.with_name(f".{self.job.path.name}.part")
            shutil.rmtree(aside, ignore_errors=True)
            with tarfile.open(fileobj=self.sent) as archive:
                archive.extractall(aside, filter="data")
            self.log.parent.mkdir(parents=True, exist_ok=True)
            (aside / "log").replace(self.log)
            if (aside / "run").exists():
                shutil.rmtree(self.job.path, ignore_errors=True)
                (aside / "run").replace(self.job.path)
            shutil.rmtree(aside)
        return end

    def stop(self) -> None:
        self.ray.cancel(self.told, force=True)


def carry_out(order: Order) -> Iterator[Began | Progress | bytes | End]:
    """What a worker does: the run, in the sweep's folder if it sees that, otherwise in one that it then sends."""
    out, mark = Path(order.out), Path(order.out) / MARK
    shared = mark.exists() and mark.read_text() == order.mark
    if not shared:
        out = scratch(order.out)
    folder, log = out / order.job.path.name, Path(order.log) if shared else out / "logs" / f"{order.job.name}.log"
    words = _placed(order.job, folder, out / "memo")
    process = Process(order.job, words, folder, log, {})
    try:
        yield Began(socket.gethostname(), os.getpid(), shared)
        last: Progress | End | None = None
        while not isinstance(seen := process.look(), End):
            if seen != last:
                yield seen
            last = seen
            sleep(LOOKS)
        if not shared:
            yield from _pieces(folder, log)
            if seen.how == "success":  # otherwise it may be gone on with here
                shutil.rmtree(folder, ignore_errors=True)
        yield seen
    finally:
        process.stop()


def scratch(out: str) -> Path:
    """Where a worker keeps runs of a sweep whose folder it does not see."""
    return Path(tempfile.gettempdir()) / f"holdfast-sweep-{hashlib.sha256(out.encode()).hexdigest()[:12]}"


def _placed(job: Job, folder: Path, memo: Path) -> list[str]:
    """The run's words with paths that mean the same whatever folder a worker is in."""
    words = [*job.words[: job.words.index("--cache") if "--cache" in job.words else job.words.index("--out")]]
    return [*words, *(["--cache", str(memo)] if "--cache" in job.words else []), "--out", str(folder)]


def _pieces(folder: Path, log: Path) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(log, "log")
            if folder.exists():
                archive.add(folder, "run")
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
