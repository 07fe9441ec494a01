"""Checks the recorded datasets: values, variety, and whether the simulator still reproduces them."""

from collections.abc import Sequence

import numpy as np

from holdfast.benchmarks.panda.arm import ArmTask, load_dataset, make_environment
from holdfast.data.demonstrations import Demonstrations
from holdfast.data.minari import read
from holdfast.errors import Mistake
from holdfast.tasks.data_reports import DataCheck

BINS = 10


def check_arm(arm: ArmTask, transitions: int, replays: int) -> DataCheck:
    """Loads a task's data, which checks schema and ranges, and replays some episodes."""
    dataset = load_dataset(arm, transitions)
    recorded = read(arm.dataset(transitions)).first(transitions)
    actions = dataset.actions[:, : arm.actions]  # without padding
    bins = np.clip(((actions + 1) / 2 * BINS).astype(int), 0, BINS - 1)
    seen = sum(len(np.unique(column)) for column in bins.T)
    chosen = np.linspace(0, len(recorded.lengths) - 1, min(replays, len(recorded.lengths))).astype(int)
    distinct = {episode.observations.tobytes() + episode.actions.tobytes() for episode in dataset}
    return DataCheck(
        task=arm.task,
        episodes=len(dataset),
        transitions=dataset.steps,
        mean=float(dataset.totals.mean()),
        least=float(dataset.totals.min()),
        most=float(dataset.totals.max()),
        duplicates=len(dataset) - len(distinct),
        coverage=seen / (BINS * arm.actions),
        replayed=len(chosen),
        differing=replay_episodes(arm, recorded, chosen),
    )


def replay_episodes(arm: ArmTask, recorded: Demonstrations, episodes: np.ndarray) -> tuple[str, ...]:
    """Replays episodes from their seeds and actions; returns where the rewards differ from the recorded ones."""
    env, differing = make_environment(arm.environment), []
    ends = np.cumsum(recorded.lengths)
    for number in episodes:
        rows = slice(ends[number] - recorded.lengths[number], ends[number])
        env.reset(seed=int(recorded.seeds[number]))
        for step, (action, expected) in enumerate(zip(recorded.actions[rows], recorded.rewards[rows], strict=True)):
            reward = float(env.step(action)[1])
            if reward != expected:
                differing.append(f"{arm.task} episode {number} step {step}: {reward} instead of {expected}")
                break
    env.close()
    return tuple(differing)


def check_all(arms: Sequence[ArmTask], transitions: int, replays: int) -> list[DataCheck]:
    """Checks the data of these tasks; raises if the simulator does not reproduce a recording."""
    checks = [check_arm(arm, transitions, replays) for arm in arms]
    differing = [line for check in checks for line in check.differing]
    if differing:
        raise Mistake(
            f"{len(differing)} recorded episodes replay differently (another version of the simulator?), first "
            f"{differing[0]}"
        )
    return checks
