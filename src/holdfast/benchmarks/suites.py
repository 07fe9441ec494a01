"""The suites there are."""

from collections.abc import Callable, Sequence

from holdfast.benchmarks.atari.suite import atari5
from holdfast.benchmarks.panda.suite import panda3
from holdfast.benchmarks.toy.suite import toy, toy_continuous
from holdfast.data.validation import shown, validated
from holdfast.errors import Mistake
from holdfast.tasks.task import Suite, Task, Transitions

SUITES: dict[str, Callable[..., Suite]] = {  # of transitions and, where there are several, of which data
    "toy": toy,
    "toy-continuous": toy_continuous,
    "panda3": panda3,
    "atari5": atari5,
}


def suite(name: str, order: Sequence[str] = (), transitions: int | None = None, data: str | None = None) -> Suite:
    """The suite of this name, in its own order or another, with its default data or another amount or kind."""
    if not isinstance(name, str) or name not in SUITES:
        raise Mistake(f"there is no suite {shown(name)}; there are {', '.join(SUITES)}")
    transitions = validated("transitions", transitions, Transitions)
    found = SUITES[name](transitions)
    if data not in (None, found.data):
        if found.data is None:
            raise Mistake(f"the suite {name} has one kind of data: leave out --data {data}")
        found = SUITES[name](transitions, data)
    return found.ordered(order) if order else found


__all__ = ["SUITES", "Suite", "Task", "suite"]
