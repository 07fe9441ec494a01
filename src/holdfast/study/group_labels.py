"""Labels for groups of runs: the learner, and as few settings as distinguish it from other groups."""

import re
from collections.abc import Sequence
from typing import Any

from holdfast.registry import LEARNERS
from holdfast.tasks.suite import Settings

PUBLISHED = {"routing.threshold": "tau", "routing.alpha": "alpha"}  # always said, in the publication's words
CONDITIONS = (
    "protocol.name",
    "protocol.episodes",
    "data",
    "transitions",
    "demonstrations",
    "order",
    "budget",
    "preset",
    "datasets",
)


def label(learner: str, own: Settings, others: Sequence[tuple[str, Settings]]) -> str:
    """Names the publication's settings, then the conditions that differ from other groups, then other differences."""
    said = [name for name in PUBLISHED if own.get(name) is not None]
    said += telling(own, [settings for _, settings in others], CONDITIONS)
    rivals = [settings for other, settings in others if other == learner]
    said += telling(own, [other for other in rivals if all(other.get(name) == own[name] for name in said)], list(own))
    return " ".join([learner, *(f"{PUBLISHED.get(name, name)}={_text(own[name])}" for name in said)])


def telling(own: Settings, rivals: Sequence[Settings], names: Sequence[str]) -> list[str]:
    """The first of these settings that together distinguish one group from all rivals."""
    said = []
    for name in names:
        if name in own and any(other.get(name) != own[name] for other in rivals):
            said.append(name)
            rivals = [other for other in rivals if other.get(name) == own[name]]
    return said


def rank(found: str) -> tuple[int, list[tuple[float, str]]]:
    """The sort key of a label: the learner's place in the registry, then its settings, numbers by value."""
    names, (learner, *_) = list(LEARNERS), found.split()
    place = names.index(learner) if learner in names else len(names)
    return place, [_sortable(part) for part in re.split("[ =]", found)]


def _sortable(part: str) -> tuple[float, str]:
    """A sort key that puts numbers before words."""
    try:
        return float(part), ""
    except ValueError:
        return float("inf"), part


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "default"
    return str(value)
