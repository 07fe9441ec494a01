"""The capacity of a copy: how many entries tasks own, and in how many bytes."""

from dataclasses import dataclass

from holdfast.subnets.copies import Copy, Subnetwork


@dataclass(frozen=True)
class Capacity:
    """The capacity of one copy, in entries."""

    total: int
    occupied: int
    free: int
    tasks: dict[str, dict[str, int]]  # task -> selected, reused, new, bytes


def capacity(copy: Copy, subnetworks: dict[str, Subnetwork]) -> Capacity:
    """Counts the entries of one copy and of the tasks in it."""
    tasks = {}
    for name, subnetwork in subnetworks.items():
        selected = int(subnetwork.mask.sum())
        private = sum(tensor.nbytes for tensor in subnetwork.private.values())
        tasks[name] = {
            "selected": selected,
            "reused": selected - subnetwork.new,
            "new": subnetwork.new,
            "bytes": (len(subnetwork.mask) + 7) // 8 + 4 * subnetwork.new + private,
        }
    occupied = int(copy.occupied.sum())
    return Capacity(len(copy.weights), occupied, len(copy.weights) - occupied, tasks)
