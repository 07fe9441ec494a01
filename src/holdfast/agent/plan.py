"""What decides how an agent learns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from holdfast.data.validation import Range, validate
from holdfast.learners.learner import LearnerConfig

LATER: dict[str, Any] = {  # settings that older records lack
    "config": {
        "fit": {"whole": True},
        "subnets": {
            "tasks": None,
            "new": None,
            "biases": "masked",
            "sources": 1,
            "private": 0.0,
            "place": "scores",
            "new_copy": "fresh",
            "far_source": "nearest",
        },
    },
    "target": [],
    "backbone": "dt",
    "demonstrations": None,
}
ONE_NETWORK = ("naive", "cumulative", "ewc", "si")  # learners whose older records lack also the following settings
LATER_OF_ONE_NETWORK = {"task_id": False, "tasks": None}
MOST_THREADS = 1_024  # more than the largest machines have cores; with many more, OpenMP ends the process


@dataclass(frozen=True)
class AgentPlan:
    """The settings of an agent, which stay the same for all tasks that it learns."""

    config: LearnerConfig
    learner: str
    backbone: str
    seed: Annotated[int, Range(least=-(2**63), under=2**63)] = 0

    def __post_init__(self) -> None:
        validate(self)


def completed(record: Mapping[str, Any], later: Mapping[str, Any] = LATER) -> dict[str, Any]:
    """A recorded plan with defaults for settings that were added later, and with today's names of budgets."""
    if record.get("learner") in ONE_NETWORK and isinstance(record.get("config"), dict):
        record = {**record, "config": {**LATER_OF_ONE_NETWORK, **record["config"]}}
    missing = {name: value for name, value in later.items() if not isinstance(value, dict)}
    inner = {
        name: completed(value, later[name])
        for name, value in record.items()
        if isinstance(value, dict) and isinstance(later.get(name), dict)
    }
    renamed = {"budget": "full"} if record.get("budget") == "paper" else {}  # its settings are all recorded
    return {**missing, **record, **inner, **renamed}
