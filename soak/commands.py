"""Carries out commands of holdfast, in this process or in a shell, within limits of time and memory."""

import io
import resource
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from holdfast.cli.main import main

CPU, PATIENCE, MEMORY = 20, 120, 2**31  # seconds of the processor, seconds of the clock, bytes more than before
PROGRESS = ("task ", "film ", "holdfast: skipped: ")  # how lines begin that stand on stderr beside the sentence


@dataclass(frozen=True)
class Outcome:
    """How a command ended; a code of none stands for a traceback, or for one that had to be stopped."""

    code: int | None
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """The lines on stderr that are no progress."""
        return [line for line in self.err.splitlines() if not line.startswith(PROGRESS)]

    @property
    def is_usage(self) -> bool:
        """Whether tyro says, in a box, how the command is used."""
        return self.code == 2 and bool(self.said) and self.said[0].startswith("╭")

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self.code == 0:
            return "exit code 0"
        return "usage" if self.is_usage else "one sentence"


class Stopped(BaseException):
    """A command took too long."""


def in_process(words: Sequence[str]) -> Outcome:
    """The command, carried out here."""
    return called(partial(main, words))


def called(action: Callable[[], object]) -> Outcome:
    """How a call ended that ends as a command does."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    code: int | None = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            with limited():
                action()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
        except (Exception, Stopped):
            code = None
            traceback.print_exc()
    return Outcome(code, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    content = stream.detach()
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode("utf-8")


@contextmanager
def limited() -> Iterator[None]:
    """Neither long nor with much memory."""
    alarms = {signal.SIGPROF: (signal.ITIMER_PROF, CPU), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
    handlers = {number: signal.signal(number, _stop) for number in alarms}
    data, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_used() + MEMORY, most))
    try:
        for timer, seconds in alarms.values():
            signal.setitimer(timer, seconds)
        yield
    finally:
        for timer, _ in alarms.values():
            signal.setitimer(timer, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_DATA, (data, most))


def _stop(number: int, _: object) -> NoReturn:
    raise Stopped(signal.Signals(number).name)


def memory_used() -> int:
    """What counts towards RLIMIT_DATA, in bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")]
    return int(line.split()[1]) * 1024


def in_shell(words: Sequence[str]) -> Outcome:
    """The command, typed into a shell."""
    typed = f"ulimit -t {3 * CPU} -d {4 * MEMORY // 1024}; {shlex.join([sys.executable, '-m', 'holdfast', *words])}"
    try:
        done = subprocess.run(["bash", "-c", typed], capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(None, "", "Stopped: it took too long")
    err = done.stderr.decode("utf-8", "backslashreplace")
    return Outcome(None if "Traceback" in err else done.returncode, done.stdout.decode("utf-8", "replace"), err)
