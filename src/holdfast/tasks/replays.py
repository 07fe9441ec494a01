"""Checks recorded episodes: values, variety, and whether the simulator still reproduces them."""

from collections.abc import Sequence

import gymnasium
import numpy as np

from holdfast.data.demonstrations import Demonstrations
from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.tasks.data_reports import DataCheck
from holdfast.tasks.recording import by_name

BINS = 10


def check_recording(
    task: str, dataset: Dataset, recorded: Demonstrations, environment: gymnasium.Env, replays: int
) -> DataCheck:
    """Describes a task's data, and replays some of the recorded episodes that it was made from."""
    dimensions = recorded.actions.shape[1]  # without padding
    bins = np.clip(((dataset.actions[:, :dimensions] + 1) / 2 * BINS).astype(int), 0, BINS - 1)
    seen = sum(len(np.unique(column)) for column in bins.T)
    chosen = np.linspace(0, len(recorded.lengths) - 1, min(replays, len(recorded.lengths))).astype(int)
    distinct = {episode.observations.tobytes() + episode.actions.tobytes() for episode in dataset}
    return DataCheck(
        task=task,
        episodes=len(dataset),
        transitions=dataset.steps,
        mean=float(dataset.totals.mean()),
        least=float(dataset.totals.min()),
        most=float(dataset.totals.max()),
        duplicates=len(dataset) - len(distinct),
        coverage=seen / (BINS * dimensions),
        replayed=len(chosen),
        differing=replay_episodes(task, environment, recorded, chosen),
    )


def replay_episodes(
    task: str, environment: gymnasium.Env, recorded: Demonstrations, chosen: Sequence[int] | np.ndarray
) -> tuple[str, ...]:
    """Replays episodes from their seeds and actions; returns where they first differ from what was recorded."""
    episodes = list(recorded.episodes())
    differences = [(number, _first_difference(environment, episodes[number])) for number in chosen]
    return tuple(f"{task} episode {number} {difference}" for number, difference in differences if difference)


def _first_difference(environment: gymnasium.Env, episode: Demonstrations) -> str | None:
    """The first step at which a replay gives another reward or another observation."""
    observation, _ = environment.reset(seed=int(episode.seeds[0]))
    for step, (action, expected) in enumerate(zip(episode.actions, episode.rewards, strict=True)):
        if not _same(episode, step, observation):
            return f"step {step}: another observation"
        observation, reward, *_ = environment.step(action)
        if float(reward) != expected:
            return f"step {step}: {float(reward)} instead of {expected}"
    return None if _same(episode, len(episode.rewards), observation) else "ends with another observation"


def _same(episode: Demonstrations, step: int, observation: object) -> bool:
    arrays = by_name(observation)
    return all(np.array_equal(recorded[step], arrays[name]) for name, recorded in episode.observations.items())


def refuse_differing(checks: Sequence[DataCheck]) -> list[DataCheck]:
    """The checks; raises if the simulator does not reproduce a recording."""
    differing = [line for check in checks for line in check.differing]
    if differing:
        raise Mistake(
            f"{len(differing)} recorded episodes replay differently (another version of the simulator?), first "
            f"{differing[0]}"
        )
    return list(checks)
