"""The capacity of a copy: how many entries tasks own, and in how many bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from holdfast.subnets.copies import Copy, Subnetwork

FurtherTasks = int | Literal["any number"]


@dataclass(frozen=True)
class Capacity:
    """The capacity of one copy, in entries."""

    total: int
    occupied: int
    free: int
    tasks: dict[str, dict[str, int]]  # task -> selected, reused, new, bytes
    more: FurtherTasks | None = None  # how many more tasks there is room for, if the method knows


def capacity(copy: Copy, subnetworks: dict[str, Subnetwork], stored: Mapping[str, Mapping[str, Tensor]]) -> Capacity:
    """Counts the entries of one copy and of the tasks in it; `stored` are the tensors that each task adds on disk."""
    tasks = {}
    for name, subnetwork in subnetworks.items():
        selected = int(subnetwork.mask.sum())
        tasks[name] = {
            "selected": selected,
            "reused": selected - subnetwork.new,
            "new": subnetwork.new,
            "bytes": sum(tensor.nbytes for tensor in stored[name].values()),
        }
    occupied = int(copy.occupied.sum())
    return Capacity(len(copy.weights), occupied, len(copy.weights) - occupied, tasks)
