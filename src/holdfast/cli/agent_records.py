"""The commands `holdfast agent list` and `verify`: what an agent knows, and whether it still does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from holdfast.agent.agent import Agent
from holdfast.cli.agent_folders import Folder, opened, shown
from holdfast.cli.output import Output, print_json, print_lines
from holdfast.data.printable import printable
from holdfast.runs.options import Flag


@dataclass(frozen=True)
class FolderCommand:
    """A command that prints something about an agent."""

    folder: Folder
    """The agent's folder, or a run folder."""
    json: Flag = False
    """Print it as JSON."""


class ListCommand(FolderCommand):
    """List the tasks of an agent: copies, scores, dates and bytes."""


class VerifyCommand(FolderCommand):
    """Compute every certificate again from the files."""


def list_tasks(command: ListCommand) -> None:
    """Prints the tasks of an agent."""
    agent = opened(command.folder)
    rows = [row(agent, name) for name in agent.tasks]
    if command.json:
        print_json(rows)
        return
    if not rows:
        print_lines(f"{command.folder} has learned nothing yet")
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=name != "score")
    for found in rows:
        found["learned"] = (found["learned"] or "")[:10]  # the day
        found["score"] = "\n".join(score_lines(found["score"]))
        table.add_row(*(Text("\n".join(map(printable, shown(value).split("\n")))) for value in found.values()))
    Output().print(table)


def score_lines(score: Mapping[str, float]) -> list[str]:
    """A task's score, and below it those of other policies on the same episodes."""
    return [f"{name if at == 0 else name.split()[0]} {value:.4g}" for at, (name, value) in enumerate(score.items())]


def row(agent: Agent, name: str) -> dict[str, Any]:
    """A task's line in the list."""
    record, copy = agent.record(name), agent.copy_of(name)
    return {
        "task": name,
        "copy": copy,
        "episodes": record.episodes if record else None,
        "target": record.target if record and record.has_rewards else None,
        "score": record.score if record else {},
        "MB": round(agent.bytes_of(name) / 1e6, 3),
        "learned": record.learned_at if record else None,
    }


def verify(command: VerifyCommand) -> None:
    """Checks every certificate."""
    tasks = opened(command.folder).verify()
    if command.json:
        print_json({"tasks": tasks, "equal": True})
        return
    names = ", ".join(tasks) or "there is none yet"
    print_lines(f"every task is equal to the bit to its certificate: {names}")
