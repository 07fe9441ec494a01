"""What is said of recorded data while it is made, checked and listed."""

from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str, int, int], None]  # task, transitions so far, transitions wanted
Local = tuple[str, int, int]  # a dataset on this machine: its name, its episodes and its transitions


@dataclass(frozen=True)
class DataCheck:
    """What was found out about a task's data."""

    task: str
    episodes: int
    transitions: int
    mean: float
    least: float
    most: float
    duplicates: int  # episodes that stand there twice
    coverage: float  # share of ten bins per action dimension that some action falls into
    replayed: int  # episodes whose actions were given to the simulator again
    differing: tuple[str, ...]  # what the simulator said otherwise


def silent(task: str, done: int, wanted: int) -> None:
    """Reports nothing."""
