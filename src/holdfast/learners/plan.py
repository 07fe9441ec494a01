"""Everything that decides what a run computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import arg

from holdfast.errors import Mistake
from holdfast.learners.fitting import FitConfig
from holdfast.nets.transformer import NetConfig
from holdfast.suites.environments import Protocol

LATER = {"config": {"fit": {"whole": True}, "subnets": {"tasks": None}}}  # settings that older records lack


@dataclass(frozen=True)
class LearnerConfig:
    """What all learners have in common."""

    net: NetConfig
    fit: FitConfig


@dataclass(frozen=True)
class Plan:
    """Two runs with one plan on one machine end at the same bits."""

    config: Annotated[LearnerConfig, arg(name="")]
    protocol: Protocol
    suite: str = "toy"
    """Name of the suite (`holdfast suites` lists them)."""
    learner: str = "affinity-l"
    """Name of the learner (`holdfast learners` lists them)."""
    preset: str = "paper"
    """Settings of the method: `paper` is faithful to the publication, its leaks closed; toy networks are smaller."""
    budget: str = "quick"
    """How long to train and evaluate: smoke (seconds), quick (minutes on two cores), full (our own results are
    made with it), published (as many steps, episodes and transitions as in the publication)."""
    seed: int = 0
    """Seed of every random choice except the evaluation's, which is protocol.first-seed."""
    threads: int | None = None
    """Processor threads, by default one per core; small networks are fastest with 1."""
    order: tuple[str, ...] = ()
    """Names of the tasks to learn, in this order; by default all, in the suite's order."""
    transitions: int | None = None
    """Transitions of data per task, for a suite that makes its own data; by default the suite's amount."""
    data: str | None = None
    """Name of the data, for a suite that has several (atari5: expert-10, expert-100, minari)."""

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise Mistake(f"threads must be at least 1, got {self.threads}")
        if self.transitions is not None and self.transitions < 1:
            raise Mistake(f"transitions must be at least 1, got {self.transitions}")


def completed(record: Mapping[str, Any], later: Mapping[str, Any] = LATER) -> dict[str, Any]:
    """A recorded plan with the settings that came after it, and under the names that budgets have now."""
    missing = {name: value for name, value in later.items() if not isinstance(value, dict)}
    inner = {name: completed(value, later[name]) for name, value in record.items() if isinstance(later.get(name), dict)}
    renamed = {"budget": "full"} if record.get("budget") == "paper" else {}  # its settings are all recorded
    return {**missing, **record, **inner, **renamed}
