"""What a group of runs is called: its learner, and as few settings as tell it from the others."""

import re
from collections.abc import Sequence
from typing import Any

from holdfast.learners.registry import LEARNERS
from holdfast.tasks.suite import Settings

PUBLISHED = {"routing.threshold": "tau", "routing.alpha": "alpha"}  # always said, in the publication's words
CONDITIONS = ("protocol.name", "protocol.episodes", "data", "transitions", "order", "budget", "preset", "datasets")


def label(learner: str, own: Settings, others: Sequence[tuple[str, Settings]]) -> str:
    """Says the publication's settings, then what tells conditions from those of any other group, then what is left."""
    said = [name for name in PUBLISHED if own.get(name) is not None]
    said += telling(own, [settings for _, settings in others], CONDITIONS)
    rivals = [settings for other, settings in others if other == learner]
    said += telling(own, [other for other in rivals if all(other.get(name) == own[name] for name in said)], list(own))
    return " ".join([learner, *(f"{PUBLISHED.get(name, name)}={_text(own[name])}" for name in said)])


def telling(own: Settings, rivals: Sequence[Settings], names: Sequence[str]) -> list[str]:
    """Those of these settings, taken in turn, that tell one from rivals which are not told from it yet."""
    said = []
    for name in names:
        if name in own and any(other.get(name) != own[name] for other in rivals):
            said.append(name)
            rivals = [other for other in rivals if other.get(name) == own[name]]
    return said


def rank(found: str) -> tuple[int, list[tuple[float, str]]]:
    """Where a label stands in a table: by learner, as registered, then by its settings, numbers by their size."""
    names, (learner, *_) = list(LEARNERS), found.split()
    place = names.index(learner) if learner in names else len(names)
    return place, [_sortable(part) for part in re.split("[ =]", found)]


def _sortable(part: str) -> tuple[float, str]:
    """Numbers before words."""
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
