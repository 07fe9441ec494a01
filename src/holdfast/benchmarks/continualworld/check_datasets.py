"""Checks the demonstrations of Meta-World by replaying episodes."""

from collections.abc import Sequence

from holdfast.benchmarks.continualworld.orders import simulated
from holdfast.benchmarks.continualworld.recording import load_demonstrations, to_dataset
from holdfast.benchmarks.continualworld.sawyer import make_environment
from holdfast.tasks.data_reports import DataCheck
from holdfast.tasks.replays import check_recording, refuse_differing


def check_task(task: str, count: int, replays: int) -> DataCheck:
    """Replays some demonstrations of a task."""
    demonstrations, environment = load_demonstrations(task, count), make_environment(simulated(task))
    check = check_recording(task, to_dataset(demonstrations), demonstrations, environment, replays)
    environment.close()
    return check


def check_all(tasks: Sequence[str], count: int, replays: int) -> list[DataCheck]:
    """Checks the data of these tasks; raises if the simulator does not reproduce a recording."""
    return refuse_differing([check_task(task, count, replays) for task in tasks])
