"""The record config.json: the settings of an agent, and what it was started with."""

from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.plan import MOST_THREADS
from holdfast.errors import Mistake


@dataclass(frozen=True)
class PluginRecord:
    """A plugin that a run or an agent was started with."""

    file: str  # its name, without its folder
    sha256: str


@dataclass(frozen=True)
class Begun:
    """What a run or an agent was started with, besides its plan."""

    datasets: dict[str, str] = field(default_factory=dict)  # fingerprints, by task
    data_returns: dict[str, float] = field(default_factory=dict)  # mean returns, by task
    threads: int = 1
    processes: int = 1
    versions: dict[str, str] = field(default_factory=dict)
    plugins: list[PluginRecord] = field(default_factory=list)
    hardware: dict[str, Any] = field(default_factory=dict)
    command: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= MOST_THREADS:
            raise Mistake(f"threads must lie in 1..{MOST_THREADS}, got {self.threads}")
        if self.processes < 1:
            raise Mistake(f"processes must be at least 1, got {self.processes}")
