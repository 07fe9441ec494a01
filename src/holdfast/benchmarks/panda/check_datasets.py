"""Whether recorded data is what it should be: its values, its variety, and that the simulator still agrees."""

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
    own = dataset.actions[:, : arm.actions]
    bins = np.clip(((own + 1) / 2 * BINS).astype(int), 0, BINS - 1)
    seen = sum(len(np.unique(column)) for column in bins.T)
    chosen = np.linspace(0, len(recorded.lengths) - 1, min(replays, len(recorded.lengths))).astype(int)
    stories = {episode.observations.tobytes() + episode.actions.tobytes() for episode in dataset}
    return DataCheck(
        arm.task,
        len(dataset),
        dataset.steps,
        float(dataset.totals.mean()),
        float(dataset.totals.min()),
        float(dataset.totals.max()),
        len(dataset) - len(stories),
        seen / (BINS * arm.actions),
        len(chosen),
        replay_episodes(arm, recorded, chosen),
    )


def replay_episodes(arm: ArmTask, recorded: Demonstrations, episodes: np.ndarray) -> tuple[str, ...]:
    """Where the simulator, given the recorded seeds and actions, pays other rewards than the recorded ones."""
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
    """These tasks; raises if the simulator disagrees with a recording."""
    found = [check_arm(arm, transitions, replays) for arm in arms]
    differing = [line for result in found for line in result.differing]
    if differing:
        raise Mistake(f"{len(differing)} recorded episodes do not replay (another simulator?), first {differing[0]}")
    return found
