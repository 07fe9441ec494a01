"""The best that a task reaches when its policy is asked for other returns: the column "best sweep"."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.study.groups import Group
from holdfast.study.summary import Estimate

BEST = (
    "best sweep: the best mean of the runs that were asked for the target return or, with --target, for another; it "
    "has no interval, since the best of several is chosen."
)


def best_sweep(found: Group, groups: Sequence[Group]) -> dict[str, Estimate]:
    """The best mean by task, over runs with equal settings but other target returns."""
    if asked_otherwise(found) or not found.matrices:
        return {}
    alike = [one for one in groups if one.matrices and _same_but_targets(one, found)]
    best = {}
    for task in found.matrices[0].final:
        asked = [_mean(one, task) for one in alike if task in asked_otherwise(one)]
        if asked:
            best[task] = Estimate(max(_mean(found, task), *asked))
    return best


def asked_otherwise(found: Group) -> list[str]:
    """The tasks whose policies are asked for another return than the suite's."""
    return [entry.partition("=")[0] for entry in found.settings.get("target") or []]


def _same_but_targets(one: Group, other: Group) -> bool:
    return one.learner == other.learner and _without_targets(one.settings) == _without_targets(other.settings)


def _without_targets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "target"}


def _mean(found: Group, task: str) -> float:
    """The mean final return of a task over the runs of a group."""
    return float(np.mean([np.mean(matrix.final[task]) for matrix in found.matrices]))
