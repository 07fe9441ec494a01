"""The suites there are."""

from collections.abc import Callable, Sequence

from holdfast.errors import Mistake
from holdfast.suites.panda import panda3
from holdfast.suites.task import Suite, Task
from holdfast.suites.toy import toy, toy_continuous

SUITES: dict[str, Callable[[int | None], Suite]] = {
    "toy": toy,
    "toy-continuous": toy_continuous,
    "panda3": panda3,
}


def suite(name: str, order: Sequence[str] = (), transitions: int | None = None) -> Suite:
    """The suite of this name, in its own order or another, with as much data as it has by default or another amount."""
    if name not in SUITES:
        raise Mistake(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    found = SUITES[name](transitions)
    return found.ordered(order) if order else found


__all__ = ["SUITES", "Suite", "Task", "suite"]
