"""What the commands of `holdfast agent` have in common: the folder of an agent."""

from pathlib import Path
from typing import Annotated

import tyro

from holdfast.agent.agent import Agent
from holdfast.agent.folder import CONFIG
from holdfast.errors import Mistake

Folder = Annotated[Path, tyro.conf.Positional]


def opened(folder: Path) -> Agent:
    """The agent in a folder that exists."""
    if not (folder / CONFIG).exists():
        raise Mistake(f"there is no agent in {folder}: holdfast agent learn {folder} NAME --data WHERE makes one")
    return Agent(folder, device="cpu")


def shown(value: object) -> str:
    """A value in a line or a table; nothing for None."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
