"""The command line: names in, run folders out; every way to end is a sentence and an exit code."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from select import POLLERR, poll
from typing import NoReturn

from holdfast.data.printable import printable
from holdfast.errors import BUSY, DEFECT, MISTAKE, BrokenRetention, Busy, Interrupted, Mistake
from holdfast.versions import VERSION

ABOUT = {
    "run": "learn a suite's tasks one after another; the same command again resumes",
    "evaluate": "evaluate a run that was trained without evaluation",
    "show": "print a run's results, routes and certificate, or how far it is",
    "sweep": "carry out the runs of a grid, on this machine or on Ray; again = resume",
    "table": "print the paper's tables from runs, beside the published numbers",
    "report": "make a page of runs: one file, with figures and videos, that opens offline",
    "data": "build, check or list recorded data",
    "expert": "train or tune the expert of a task, and record or score it",
    "suites": "list the suites: what there is to learn",
    "learners": "list the learners: what there is to learn with",
    "completion": "print a script that completes these commands in bash, zsh or fish",
}
USAGE = """usage: holdfast COMMAND ...

{}

holdfast help COMMAND tells more.
holdfast run --suite S --learner L --help lists the settings of a learner.
holdfast --version prints the version.""".format("\n".join(f"  {name:<12}{about}" for name, about in ABOUT.items()))

RENAMED = {"--single": "--reference", "--memo": "--cache", "--no-memo": "--no-cache", "--again": "--rebuild"}
RESUMED = ("run", "evaluate", "sweep", "data")  # commands that go on where they were interrupted
INTERRUPTED = 130  # 128 + SIGINT, the shell's convention
UNREAD = 141  # 128 + SIGPIPE


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence and exit code 2, and a reader who left is none."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if sys.stdout is None:
            raise Mistake("standard output is closed: redirect it to a file, or to /dev/null")
        _carry_out(words)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _unread():  # but another pipe broke
            raise
        raise SystemExit(UNREAD) from None
    except Busy as busy:
        _fail(busy, BUSY)
    except Mistake as mistake:
        _fail(mistake, MISTAKE)
    except PermissionError as problem:
        _fail(f"permission denied: {problem.filename or problem}", MISTAKE)
    except OSError as problem:
        if not _unwritable():
            raise
        _fail(f"the output cannot be written ({problem.strerror})", MISTAKE)
    except BrokenRetention:
        traceback.print_exc()
        raise SystemExit(DEFECT) from None
    except Interrupted as stop:
        _fail(stop, 128 + stop.signal)
    except KeyboardInterrupt:
        _fail(_interrupted(words[0]), INTERRUPTED)


def _carry_out(words: Sequence[str]) -> None:
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        print(USAGE)
        return
    if words[0] in ("-V", "--version"):
        print(f"holdfast {VERSION}")
        return
    if words[0] == "help":
        words = [*words[1:], "--help"]
    name, *rest = words
    if name not in ABOUT:
        near = get_close_matches(name, ABOUT, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ABOUT)}"
        raise Mistake(f"there is no command {name!r}; {hint}")
    _commands()[name]([_current(word) for word in rest])


def _commands() -> dict[str, Callable[[Sequence[str]], None]]:
    """What each command does; imported late, since torch takes seconds."""
    with _ended_at_once_by_interrupt():
        from holdfast.cli.commands import COMMANDS
    return COMMANDS


@contextmanager
def _ended_at_once_by_interrupt() -> Iterator[None]:
    """While modules are imported, an exception could come out of them as another one, so Ctrl-C ends the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(*_: object) -> NoReturn:
    os.write(2, b"holdfast: interrupted\n")
    os._exit(INTERRUPTED)


def _current(word: str) -> str:
    """A flag by its name of today."""
    flag, equals, value = word.partition("=")
    return f"{RENAMED.get(flag, flag)}{equals}{value}"


def _interrupted(name: str) -> str:
    if name in RESUMED:
        return "interrupted; the same command goes on from here"
    if name == "expert":
        return (
            "interrupted; the same command begins anew; with --init, an Atari expert goes on from its last checkpoint"
        )
    return "interrupted"


def _fail(sentence: object, code: int) -> NoReturn:
    print(f"holdfast: {printable(sentence)}", file=sys.stderr)
    raise SystemExit(code) from None


def _unread() -> bool:
    """Whether no one reads what is printed, as when `head` has seen enough; what is left is then thrown away."""
    watch = poll()
    watch.register(sys.stdout.fileno(), 0)  # errors are told unasked
    left = any(event & POLLERR for _, event in watch.poll(0))
    if left:
        _discard_output()
    return left


def _unwritable() -> bool:
    """Whether it is standard output that cannot be written, as on a full disk; what is left is then thrown away."""
    try:
        print(flush=True)
    except OSError:
        _discard_output()
        return True
    return False


def _discard_output() -> None:
    """Python flushes standard output once more when it ends, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
