"""The commands `holdfast agent history`, `rollback`, `remove` and `prune`: how an agent came to be, and taking back."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import tyro

from holdfast.agent.changes import Change
from holdfast.agent.history import past_bytes
from holdfast.cli.agent_folders import Folder, opened
from holdfast.cli.agent_records import FolderCommand
from holdfast.cli.output import print_json, print_lines
from holdfast.runs.options import Flag

SHOWN = {  # the events of a history besides changes, in words
    "learn": "began to learn {task}",
    "resume": "went on learning {task}",
    "play": "played {task}: mean return {mean:.4g}",
    "keep": "kept {task} as it was, since the new one was worse",
    "install": "the pack of {task} has the SHA-256 {sha256}",
}


class HistoryCommand(FolderCommand):
    """List the changes of an agent with their numbers, and what happened in between."""


@dataclass(frozen=True)
class RollbackCommand(FolderCommand):
    """Bring an agent back to the bit to what it was after an earlier change."""

    to: Annotated[int, tyro.conf.arg(metavar="NUMBER")] = tyro.MISSING
    """Number of the change in `holdfast agent history`; 0 is before the first one."""


@dataclass(frozen=True)
class RemoveCommand:
    """Forget a task; what only it used is free again, and all others stay equal to the bit."""

    folder: Folder
    """The agent's folder."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    json: Flag = False
    """Print it as JSON."""


@dataclass(frozen=True)
class PruneCommand(FolderCommand):
    """Delete what only the past of an agent needs."""

    keep: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Number of last states that one can still go back to."""


def history(command: HistoryCommand) -> None:
    """Prints all changes, and when each task was begun and played."""
    agent = opened(command.folder)
    changes, index = agent.history(), agent.folder.store.index
    events = [event for event in agent.folder.events() if event["kind"] in SHOWN]
    kept, cost = [past.number for past in index.past], past_bytes(agent.folder.store)
    if command.json:
        print_json({"changes": [asdict(one) for one in changes], "kept": kept, "bytes": cost, "events": events})
        return
    lines = [(datetime.fromisoformat(change.at).timestamp(), change_line(change)) for change in changes]
    lines += [(event["time"], f"        {event_words(event)}") for event in events]
    for time, line in sorted(lines, key=lambda one: int(one[0])):
        when = datetime.fromtimestamp(time, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        print_lines(f"{when[:19]} UTC {line}")
    if kept:
        numbers = ", ".join(map(str, kept))
        print_lines(
            f"rollback goes back to {numbers}; {cost / 1e6:.2f} MB are only kept for that, and prune frees them"
        )


def change_line(change: Change) -> str:
    """A change in a history."""
    wrote = f" ({change.written / 1e6:.2f} MB)" if change.written else ""
    return f"{change.number:>6}  {change.words}{wrote}"


def event_words(event: dict[str, Any]) -> str:
    """An event in a history."""
    return SHOWN[event["kind"]].format_map(defaultdict(lambda: "?", event))


def rollback(command: RollbackCommand) -> None:
    """Goes back to an earlier state."""
    agent = opened(command.folder)
    print_change(agent.rollback(command.to), agent.tasks, command.json)


def remove(command: RemoveCommand) -> None:
    """Removes a task."""
    agent = opened(command.folder)
    print_change(agent.remove(command.name), agent.tasks, command.json)


def print_change(change: Change, tasks: list[str], json: Flag) -> None:
    """Prints a change, and what the agent knows after it."""
    if json:
        print_json({**asdict(change), "tasks": tasks})
        return
    knows = f"it knows {', '.join(tasks)}" if tasks else "it knows nothing"
    print_lines(f"change {change.number}: {change.words}; {knows}, equal to the bit to the certificates")


def prune(command: PruneCommand) -> None:
    """Frees what only the past needs."""
    freed = opened(command.folder).prune(command.keep)
    print_json({"freed": freed}) if command.json else print_lines(f"freed {freed / 1e6:.2f} MB")
