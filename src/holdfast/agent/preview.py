"""Where a task would go, and what it would cost, before anything is trained."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.agent.events import training_seconds
from holdfast.agent.sketch import Sketch
from holdfast.errors import Mistake
from holdfast.learners.learner import Learner
from holdfast.learners.sparse import Sparse
from holdfast.routing.route import Route
from holdfast.tasks.task import Task

KNOWN = 0.05  # of a tuned threshold: a task that is so near is probably known
NEARLY_FULL = 1  # tasks that a copy still has room for


@dataclass(frozen=True)
class Alternative:
    """The decision that was not taken: a new copy instead of a shared one, or the other way round."""

    copy: int
    opened: bool
    bytes: int
    """About how many bytes the task would add to what acts."""


@dataclass(frozen=True)
class Preview:
    """What learning a task would do."""

    name: str
    route: dict[str, Any]
    bytes: int
    """About how many bytes the task would add to what acts."""
    alternative: Alternative | None
    """The other decision; None if no learned copy has room for the task, or no other may be opened."""
    seconds: float | None
    """About how long training would take, as long as the last task did; None if nothing was trained yet."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """What would be left out or assumed."""


def previewed(
    learner: Learner, task: Task, sketch: Sketch | None, seconds: float | None, notes: Iterable[str]
) -> Preview:
    """What the learner would do with a task, of which this sketch would be kept."""
    if not isinstance(learner, Sparse):
        raise Mistake("a preview says where a task would go, and this learner has one place for all tasks")
    if task.name in learner.learned:
        raise Mistake(f"{task.name} is already learned: give the new task another name")
    route = learner.route(task)
    kept = sketch.bytes if sketch else 0
    return Preview(
        name=task.name,
        route=route.record(),
        bytes=learner.expected_bytes(task, route) + kept,
        alternative=alternative(learner, task, route, kept),
        seconds=seconds,
        warnings=tuple(warnings(learner, route)),
        notes=tuple(notes),
    )


def alternative(learner: Sparse, task: Task, route: Route, kept: int) -> Alternative | None:
    """The other decision and its bytes, `kept` of them for the sketch; None if there is no other."""
    other = learner.other_route(task, route)
    if other is None:
        return None
    return Alternative(other.copy, other.opened, learner.expected_bytes(task, other) + kept)


def warnings(learner: Sparse, route: Route) -> Iterator[str]:
    """What a user should know before the task is learned."""
    nearest = min(route.candidates, key=lambda one: one.distance, default=None)
    if nearest and route.threshold is not None:
        if nearest.distance > route.threshold:
            yield f"It is unlike every learned task: the nearest is {nearest.task}, at {nearest.distance:.3g}."
        elif automatic(learner) or nearest.distance <= KNOWN * route.threshold:
            yield f"It may be {nearest.task} again: it is at a distance of {nearest.distance:.3g}."
    if not route.opened:
        more = learner.accounts()[route.copy].get("more")
        if isinstance(more, int) and more <= NEARLY_FULL + 1:
            yield f"Copy {route.copy} is nearly full: it has room for {more} more, this task included."


def automatic(learner: Sparse) -> bool:
    """Whether the threshold is automatic: then little but a task that comes again is near."""
    return learner.config.routing is not None and learner.config.routing.automatic


def seconds_a_step(events: Iterable[Mapping[str, Any]], steps: Mapping[str, int]) -> float | None:
    """How long a training step of the last task took; `steps` are those of each task."""
    known = training_seconds([dict(event) for event in events])
    times = [known[task] / count for task, count in steps.items() if task in known and count]
    return times[-1] if times else None
