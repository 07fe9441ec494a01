"""The record config.json: the settings of an agent, and what it was started with."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from holdfast.agent.configure import default_config, read_settings
from holdfast.agent.plan import MOST_THREADS, AgentPlan, completed
from holdfast.data.conform import conform
from holdfast.data.files import damaged
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


def checked_config(record: Any, path: Path) -> dict[str, Any]:
    """The record of an agent, or of a run, which is an agent with a plan; raises if it is neither."""
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise Mistake(f"{path} is not the config.json of an agent: choose another folder")
    known = {item.name for item in fields(Begun)}
    try:
        plan_of(record)
        begun = conform({name: value for name, value in record.items() if name in known}, Begun)
        conform(record["config"].get("order", []), list[str], "order")
    except Mistake as problem:
        raise damaged(path, problem) from problem
    return {**vars(begun), **record}


def plan_of(record: dict[str, Any]) -> AgentPlan:
    """The settings that are recorded; a run's other settings are about its suite."""
    config = completed(record["config"])
    missing = {"config", "learner", "seed"} - set(config)
    if missing:
        raise Mistake(f"config lacks {', '.join(sorted(missing))}")
    learner, backbone = (conform(config[name], str, name) for name in ("learner", "backbone"))
    settings = read_settings(default_config(learner, backbone), config["config"])
    return AgentPlan(settings, learner, backbone, conform(config["seed"], int, "seed"))


def new_record(plan: AgentPlan, threads: int, made_with: dict[str, Any]) -> dict[str, Any]:
    """The record of a new agent."""
    return {"config": asdict(plan), "threads": threads, "processes": 1, **made_with}
