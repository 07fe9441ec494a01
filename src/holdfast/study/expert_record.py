"""What the expert that made the data earns from the starts that learners are evaluated from: expert.json."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.data.conform import conform
from holdfast.data.files import read_json
from holdfast.errors import Mistake

EXPERT = "expert.json"  # beside the runs; benchmarks/panda/expert_returns.py writes it


@dataclass(frozen=True)
class ExpertRecord:
    """Every episode of the expert."""

    protocol: dict[str, Any]
    returns: dict[str, list[float]]  # by task
    successes: dict[str, list[bool]]  # by task

    def __post_init__(self) -> None:
        counts = {len(episodes) for episodes in self.returns.values()} | {
            len(found) for found in self.successes.values()
        }
        if counts != {self.protocol.get("episodes")} or "first_seed" not in self.protocol:
            raise Mistake("its episodes are not those of its protocol")

    def knows(self, tasks: list[str]) -> bool:
        """Whether it played all of these tasks."""
        return set(tasks) <= set(self.returns) & set(self.successes)


def read_expert(path: Path) -> ExpertRecord:
    """The record in a file."""
    try:
        return conform(read_json(path), ExpertRecord)
    except Mistake as problem:
        raise Mistake(f"{path} cannot be used ({problem}): make it again, or delete it") from problem
