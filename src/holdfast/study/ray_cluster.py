"""Runs on a Ray cluster: each is a Ray task that reports its progress, and sends its folder if none is shared."""

import hashlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any, Self

from holdfast.data.files import write_bytes
from holdfast.errors import Mistake
from holdfast.registry import PLUGINS
from holdfast.study.jobs import Job
from holdfast.study.running import End, Engine, Launch, RunningJob, RunProcess, RunProgress

PIECE = 8 * 2**20  # bytes of a folder that are sent at once
LOOKS = 0.2  # seconds between two looks at a run
MARK = ".sweep"  # a file by which a worker recognises the folder of the sweep


@dataclass(frozen=True)
class RemoteLaunch:
    """What a worker is told; plain data, since a worker has no plugins yet."""

    launch: Launch
    plugins: tuple[tuple[str, bytes], ...]  # names and contents of files
    out: str  # the folder of the sweep, absolute
    log: str
    mark: str  # the content of the file by which that folder is recognised


@dataclass(frozen=True)
class Began:
    """The first message of a worker."""

    host: str
    worker: int  # process id
    shared: bool  # whether it writes into the sweep's own folder


class RayEngine(Engine):
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
        self.ray.shutdown()  # ends all workers of this sweep
        (self.out / MARK).unlink(missing_ok=True)

    def start(self, job: Job, log: Path) -> RunningJob:
        task = self.ray.remote(num_returns="streaming", max_retries=0, **self.needs)(run_on_worker)
        plugins = tuple((plugin.file.name, plugin.content) for plugin in PLUGINS)
        remote = RemoteLaunch(Launch.of(job), plugins, str(self.out.absolute()), str(log.absolute()), self.mark)
        return Remote(self.ray, task.remote(remote), job, log)


class Remote(RunningJob):
    """A run on some node."""

    def __init__(self, ray: Any, told: Any, job: Job, log: Path) -> None:
        self.ray, self.told, self.job, self.log = ray, told, job, log
        self.last, self.sent = RunProgress(0, "waits for a place"), io.BytesIO()
        self.began: Began | None = None

    def poll(self) -> RunProgress | End:
        while self.ray.wait([self.told], timeout=0)[0]:
            try:
                seen = self.ray.get(next(self.told))
            except StopIteration:
                return End("failure", "the worker ended without a message")
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
        """Moves a folder that was sent, and its log, to where the sweep's own are."""
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

    def interrupt(self) -> None:
        """A worker cannot be asked: its run goes on from its last save."""

    def stop(self, patience: float = 0.0) -> None:
        self.ray.cancel(self.told, force=True)


def run_on_worker(remote: RemoteLaunch) -> Iterator[Began | RunProgress | bytes | End]:
    """What a worker does: the run, in the sweep's folder if the worker sees it, else in a folder that it then sends."""
    mark = Path(remote.out) / MARK
    shared = mark.exists() and mark.read_text() == remote.mark
    launch, log = _placed(remote, shared)
    process = RunProcess(launch, log, {})
    try:
        yield Began(socket.gethostname(), os.getpid(), shared)
        last: RunProgress | End | None = None
        while not isinstance(seen := process.poll(), End):
            if seen != last:
                yield seen
            last = seen
            sleep(LOOKS)
        if not shared:
            yield from _pieces(launch.folder, log)
            if seen.how == "success":  # otherwise the run may resume here
                shutil.rmtree(launch.folder, ignore_errors=True)
        yield seen
    finally:
        process.stop()


def scratch(out: str) -> Path:
    """Where a worker keeps plugins of a sweep, and its runs if it does not see the folder of the sweep."""
    return Path(tempfile.gettempdir()) / f"holdfast-sweep-{hashlib.sha256(out.encode()).hexdigest()[:12]}"


def _placed(remote: RemoteLaunch, shared: bool) -> tuple[Launch, Path]:
    """The launch with paths that are valid for this worker, and the path of its log."""
    aside = scratch(remote.out)
    out, run = Path(remote.out) if shared else aside, dict(remote.launch.run)
    log = Path(remote.log) if shared else out / "logs" / f"{remote.launch.name}.log"
    run["out"] = str(out / remote.launch.folder.name)
    if run["options"]["cache"]:
        run["options"] = {**run["options"], "cache": str(out / "cache")}
    plugins = tuple(_written(aside / "plugins", name, content) for name, content in remote.plugins)
    return replace(remote.launch, run=run, plugins=plugins), log


def _written(folder: Path, name: str, content: bytes) -> str:
    """The path of a plugin on this worker; files of one name have folders of their own."""
    path = folder / hashlib.sha256(content).hexdigest()[:16] / name
    write_bytes(path, content)
    return str(path)


def _pieces(folder: Path, log: Path) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(log, "log")
            if folder.exists():
                archive.add(folder, "run")
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
