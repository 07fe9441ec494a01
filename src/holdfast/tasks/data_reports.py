"""Reports about recorded data: the progress of recording, the result of a check, and local datasets."""

from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str, int, int], None]  # task, transitions so far, transitions in total
Local = tuple[str, int, int]  # a dataset on this machine: name, episodes, transitions


@dataclass(frozen=True)
class DataCheck:
    """The result of checking a task's data."""

    task: str
    episodes: int
    transitions: int
    mean: float  # of episode returns
    least: float
    most: float
    duplicates: int  # episodes that occur more than once
    coverage: float  # share of ten bins per action dimension that contain an action
    replayed: int  # episodes that were replayed in the simulator
    differing: tuple[str, ...]  # where the replays differ from the recording


def silent(task: str, done: int, wanted: int) -> None:
    """Reports nothing."""
