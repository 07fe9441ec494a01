"""The commands `holdfast agent pack` and `install`: one task as a file, from one agent to another."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.agent.agent import Agent
from holdfast.cli.agent_folders import Folder, opened
from holdfast.cli.output import print_json, print_lines
from holdfast.runs.options import Flag


@dataclass(frozen=True)
class PackCommand:
    """Write one task as one file, which another agent with the same base installs."""

    folder: Folder
    """The agent's folder."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    to: Path
    """The file to write."""
    whole: Flag = False
    """Write all weights that the task reads, so that it installs on any agent with the same network settings."""
    json: Flag = False
    """Print what was written as JSON."""


@dataclass(frozen=True)
class InstallCommand:
    """Put the task of a pack into an agent, without training; the agent's folder is created on first use."""

    folder: Folder
    """The agent's folder."""
    file: Annotated[Path, tyro.conf.Positional]
    """A file that holdfast agent pack wrote."""
    name: Annotated[str | None, tyro.conf.arg(name="as", metavar="NAME")] = None
    """Another name for the task."""
    json: Flag = False
    """Print what was installed as JSON."""


def pack(command: PackCommand) -> None:
    """Packs a task."""
    written = opened(command.folder).pack(command.name, command.to, command.whole)
    if command.json:
        print_json({**asdict(written), "path": str(written.path)})
        return
    print_lines(f"wrote {written.path}: {written.bytes / 1e6:.3f} MB, SHA-256 {written.sha256}")


def install(command: InstallCommand) -> None:
    """Installs a pack."""
    installed = Agent(command.folder, device="cpu").install(command.file, command.name)
    if command.json:
        print_json(asdict(installed))
        return
    print_lines(f"installed {installed.name} into copy {installed.copy}: equal to the bit to what was packed")
