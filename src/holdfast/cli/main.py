"""The command line: dispatches to the commands, and turns every way to end into a sentence and an exit code."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from select import POLLERR, poll
from typing import Any, NoReturn

from holdfast.data.printable import printable
from holdfast.errors import BUSY, DEFECT, MISTAKE, BrokenRetention, Busy, Interrupted, Mistake
from holdfast.registry import load_plugin
from holdfast.versions import VERSION

COMMANDS = {  # each is a file of this folder, with a function and, but for `expert` and `agent`, a class of settings
    "run": "learn a suite's tasks one after another; the same command again resumes",
    "evaluate": "evaluate what a run has no results of yet",
    "show": "print a run's results, routes and certificate, or how far it is",
    "sweep": "carry out the runs of a grid, on this machine or on Ray; the same command again resumes",
    "table": "print the paper's tables from runs, beside the published numbers",
    "report": "make a page of runs: one file, with figures and videos, that opens offline",
    "agent": "learn your own data into a folder that forgets nothing; verify and export it",
    "data": "build, check or list recorded data",
    "expert": "train or tune the expert of a task, and record or score it",
    "suites": "list the suites: sequences of tasks to learn",
    "learners": "list the learners: methods that learn tasks one after another",
    "nets": "list the backbones: networks that learners train",
    "completion": "print a script that completes these commands in bash, zsh or fish",
}
USAGE = """usage: holdfast COMMAND ... [--plugin FILE.py ...]

{}

holdfast help COMMAND tells more.
holdfast run --suite S --learner L --help lists the settings of a learner.
--plugin FILE.py adds the suites, learners and backbones of a Python file to any command; it can be repeated.
holdfast --version prints the version.""".format("\n".join(f"  {name:<12}{about}" for name, about in COMMANDS.items()))

PLUGIN = "--plugin"
RENAMED = {
    "--single": "--reference",
    "--memo": "--cache",
    "--no-memo": "--no-cache",
    "--again": "--rebuild",
    "--no-evaluate": "--evaluate=none",
}
RESUMED = ("run", "evaluate", "sweep", "data", "agent")  # commands that resume where they were interrupted
LISTS = ("suites", "learners", "nets", "completion")  # commands that only print, and import while they do
INTERRUPTED = 130  # 128 + SIGINT, the shell's convention
UNREAD = 141  # 128 + SIGPIPE


def main(arguments: Sequence[str] | None = None) -> None:
    """Carries out the command that these words say, by default those of the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = next((word for word in words if word in COMMANDS), "")
    end_with_sentence(partial(_dispatch, words), name)


def end_with_sentence(action: Callable[[], None], name: str) -> None:
    """Does what the command of this name does; every way to end but success is a sentence and an exit code."""
    try:
        if sys.stdout is None:
            raise Mistake("standard output is closed: redirect it to a file, or to /dev/null")
        action()
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
        _fail(_interrupted(name), INTERRUPTED)


def _dispatch(words: Sequence[str]) -> None:
    words, plugins = _split_plugins(words)
    load_plugins(plugins)
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        print(USAGE)
        return
    if words[0] in ("-V", "--version"):
        print(f"holdfast {VERSION}")
        return
    if words[0] == "help":
        words = [*words[1:], "--help"]
    name, *rest = words
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
        raise Mistake(f"there is no command {name!r}; {hint}")
    with _ended_at_once_by_interrupt():
        command = function_of(name)
        if name in LISTS:
            command(rest)
            return
    command([_current(word) for word in rest])


def _split_plugins(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without --plugin FILE and --plugin=FILE, wherever they stand, and these files."""
    rest: list[str] = []
    files: list[str] = []
    remaining = iter(words)
    for word in remaining:
        flag, equals, value = word.partition("=")
        if flag != PLUGIN:
            rest.append(word)
            continue
        file = value if equals else next(remaining, "")
        if not file:
            raise Mistake(f"{PLUGIN} needs a file, as in {PLUGIN} mine.py")
        files.append(file)
    return rest, files


def load_plugins(files: Sequence[str]) -> None:
    """Adds what these plugin files bring."""
    with _ended_at_once_by_interrupt():
        for file in files:
            load_plugin(file)


def function_of(name: str) -> Callable[[Sequence[str]], None]:
    """What carries out a command; imported only now, since torch takes seconds to import."""
    return getattr(import_module(f".{name}", __package__), f"{name}_command")


def settings_of(name: str) -> Any:
    """The class of a command's settings; none for `expert` and `agent`, whose settings depend on the next word."""
    return getattr(import_module(f".{name}", __package__), f"{name.title()}Command", None)


@contextmanager
def _ended_at_once_by_interrupt() -> Iterator[None]:
    """Ctrl-C ends the process: modules that are being imported could turn KeyboardInterrupt into another exception."""
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
    """The word with the current name of its flag."""
    flag, equals, value = word.partition("=")
    return f"{RENAMED.get(flag, flag)}{equals}{value}"


def _interrupted(name: str) -> str:
    if name in RESUMED:
        return "interrupted; the same command resumes from here"
    if name == "expert":
        return (
            "interrupted; the same command starts over; with --init, an Atari expert resumes from its last checkpoint"
        )
    return "interrupted"


def _fail(sentence: object, code: int) -> NoReturn:
    print(f"holdfast: {printable(sentence)}", file=sys.stderr)
    raise SystemExit(code) from None


def _unread() -> bool:
    """Whether the reader of standard output is gone, as after `| head`; if so, discards the rest of the output."""
    watch = poll()
    watch.register(sys.stdout.fileno(), 0)  # errors are always reported
    left = any(event & POLLERR for _, event in watch.poll(0))
    if left:
        _discard_output()
    return left


def _unwritable() -> bool:
    """Whether standard output cannot be written, as on a full disk; if so, discards the rest of the output."""
    try:
        print(flush=True)
    except OSError:
        _discard_output()
        return True
    return False


def _discard_output() -> None:
    """Python flushes standard output once more at exit, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
