"""How far a run is, as its folder records it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdfast.agent.session import ALL_TASKS
from holdfast.runs.folder import RunFolder


@dataclass(frozen=True)
class State:
    """How far a run is."""

    tasks: list[str]
    learned: int  # tasks
    evaluated: int  # stages
    current: str  # the task that is being learned, or "all tasks"
    step: int  # of the task that is being learned
    steps: int  # per task
    heard: float | None  # when the last event was written, in seconds since the epoch
    command: str  # continues it

    @property
    def trained(self) -> bool:
        """Whether every task is learned."""
        return self.learned == len(self.tasks)

    @property
    def complete(self) -> bool:
        """Whether every task is learned and evaluated."""
        return self.trained and self.evaluated == len(self.tasks)

    @property
    def done(self) -> int:
        """Training steps taken, of all tasks."""
        return self.learned * self.steps + self.step

    def known(self) -> list[str]:
        """Which tasks are learned and evaluated, in words."""
        count = len(self.tasks)
        learned = f"learned {self.learned} of {count} tasks"
        lines = [f"{learned} ({', '.join(self.tasks[: self.learned])})" if self.learned else learned]
        if not self.trained:
            steps = self.steps * len(self.tasks) if self.current == ALL_TASKS else self.steps
            lines.append(f"learning {self.current}: step {self.step} of {steps}")
        lines.append(f"evaluated after {self.evaluated} of {count} tasks" if self.evaluated else "not evaluated yet")
        return lines

    def lines(self) -> list[str]:
        """The same, with the time of the last event and the command that continues the run."""
        if self.complete:
            return self.known()
        heard = [] if self.heard is None else [f"last event {timedelta(seconds=round(time.time() - self.heard))} ago"]
        return [*self.known(), *heard, f"to go on: {self.command}"]


def state_of(folder: RunFolder) -> State:
    """How far the run in a folder is."""
    config, learned = folder.record["config"], folder.learned
    matrix = folder.read_matrix()
    events = folder.events()
    current, step = _current(events, folder)
    return State(
        tasks=folder.order,
        learned=learned,
        evaluated=matrix.stages if matrix else 0,
        current=current,
        step=step,
        steps=config["config"].get("fit", {}).get("steps", 0),
        heard=events[-1]["time"] if events else None,
        command=folder.how_to_go_on(),
    )


def _current(events: Sequence[dict[str, Any]], folder: RunFolder) -> tuple[str, int]:
    """What is being learned, and the last recorded step of it."""
    if folder.learned == len(folder.order):
        return "", 0
    steps = [event for event in events if event.get("stage") == folder.learned and {"step", "task"} <= event.keys()]
    if not steps:
        return folder.order[folder.learned], 0
    return str(steps[-1]["task"]), steps[-1]["step"]
