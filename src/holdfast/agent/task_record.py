"""What an agent notes about a task: how its raw observations, actions and rewards became what the network sees."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.data.conform import conform
from holdfast.data.layout import Layout
from holdfast.errors import Mistake
from holdfast.tasks.recorded import Recorded


@dataclass(frozen=True)
class TaskRecord:
    """The notes about a learned task, as plain data."""

    layout: dict[str, Any]
    """How raw observations and actions are encoded."""
    reward_scale: float
    """Number that raw rewards are multiplied by, so that returns have the size that the network is given."""
    target: float
    """The raw return that the policy is asked for."""
    has_rewards: bool
    """Whether rewards were recorded; otherwise the task was cloned, and there is no return to ask for."""
    environment: str | None
    """The id of its environment, if known."""
    data: str
    """Where the data was."""
    episodes: int
    """Number of episodes in the data, the held-out ones included."""
    transitions: int
    """Number of steps in these episodes."""
    budget: str
    """How long it was trained."""
    learned_at: str
    """When it was learned, in UTC."""
    score: dict[str, float] = field(default_factory=dict)
    """On held-out episodes; beside it that of a constant policy and that of the nearest task's policy."""
    nearest: str | None = None
    """The learned task that was nearest to it; None if none has its interface, or the learner does not compare."""

    def __post_init__(self) -> None:
        if self.reward_scale <= 0:
            raise Mistake(f"reward_scale must be positive, got {self.reward_scale}")

    @classmethod
    def read(cls, record: Any) -> "TaskRecord":
        """The notes that `record` wrote; raises if they are none."""
        return conform(record, cls, "records")

    def record(self) -> dict[str, Any]:
        """The notes as plain data."""
        return asdict(self)

    def read_layout(self) -> Layout:
        """The layout of its raw observations and actions."""
        return Layout.read(self.layout)


def note(found: Recorded, where: str, *, target: float, reward_scale: float, budget: str) -> TaskRecord:
    """The notes about a task before it is learned."""
    return TaskRecord(
        layout=found.layout.record(),
        reward_scale=reward_scale,
        target=target if found.has_rewards else 0.0,
        has_rewards=found.has_rewards,
        environment=found.environment,
        data=where,
        episodes=len(found.dataset),
        transitions=found.dataset.steps,
        budget=budget,
        learned_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
