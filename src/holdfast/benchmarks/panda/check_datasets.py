"""Checks the datasets of the robot arm by replaying episodes."""

from collections.abc import Sequence

from holdfast.benchmarks.panda.arm import ArmTask, load_dataset, make_environment
from holdfast.data.minari import read
from holdfast.tasks.data_reports import DataCheck
from holdfast.tasks.replays import check_recording, refuse_differing


def check_arm(arm: ArmTask, transitions: int, replays: int) -> DataCheck:
    """Loads a task's data, which checks schema and ranges, and replays some episodes."""
    dataset, recorded = load_dataset(arm, transitions), read(arm.dataset(transitions)).first(transitions)
    environment = make_environment(arm.environment)
    check = check_recording(arm.task, dataset, recorded, environment, replays)
    environment.close()
    return check


def check_all(arms: Sequence[ArmTask], transitions: int, replays: int) -> list[DataCheck]:
    """Checks the data of these tasks; raises if the simulator does not reproduce a recording."""
    return refuse_differing([check_arm(arm, transitions, replays) for arm in arms])
