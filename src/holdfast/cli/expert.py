"""The command `holdfast expert`: trains or tunes the expert of a task."""

from collections.abc import Sequence
from functools import partial

from holdfast.errors import Mistake
from holdfast.registry import SUITES
from holdfast.tasks.experts import Experts
from holdfast.tasks.suite import suite_spec

USAGE = """usage: holdfast expert TASK ...

tasks: {}

holdfast expert TASK --help lists the settings of a task's expert."""


def expert_command(words: Sequence[str]) -> None:
    """Makes the expert of the task that is the first word."""
    task, *settings = words or ["--help"]
    known = experts()
    tasks = ", ".join(task for one in known.values() for task in one.tasks)
    if task in ("-h", "--help"):
        print(USAGE.format(tasks))
        return
    folder, _, name = task.partition("/")
    if folder not in known or not name:
        raise Mistake(f"there is no expert of {task!r}; there are {tasks}")
    known[folder].make(name, settings, partial(print, flush=True))


def experts() -> dict[str, Experts]:
    """The experts that can be made, by the first part of their tasks' names."""
    found = [spec.experts for spec in map(suite_spec, SUITES) if spec.experts]
    return {one.folder: one for one in found}
