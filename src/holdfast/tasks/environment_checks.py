"""Checks of a user's data in its environment: whether evaluation is deterministic and recorded actions replay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np

from holdfast.data.doctor import Finding
from holdfast.data.raw_episodes import RawEpisodes, arrays, mapped
from holdfast.data.validation import shown

Make = Callable[[], gymnasium.Env]
STEPS = 20  # of the comparison of two seeds
EPISODES = 3  # that are replayed
CLOSE = 1e-5  # relative and absolute: recordings may be rounded to float32


def check_environment(raw: RawEpisodes, make: Make) -> list[Finding]:
    """All checks that need the environment."""
    return [determinism(make), replay(raw, make)]


def determinism(make: Make) -> Finding:
    """Whether two seeds give the same first observation and, for the same actions, the same rewards."""
    name = "determinism"
    try:
        first, second = (_beginning(make, seed) for seed in (0, 1))
    except Exception as problem:  # a user's environment may raise anything
        return _raised(name, problem)
    same = _equal(first[0], second[0]) and np.array_equal(first[1], second[1])
    if not same:
        return Finding(name, "ok", "Two seeds give different episodes, so evaluations average over them.")
    means = "Evaluation here is deterministic: n = 1, since two seeds give the same episode."
    return Finding(name, "note", means, "Evaluate with one episode: more of them say nothing new.")


def _beginning(make: Make, seed: int) -> tuple[Any, list[float]]:
    """The first observation and the first rewards of a seed, with actions that do not depend on the seed."""
    with closing(make()) as env:
        observation, _ = env.reset(seed=seed)
        env.action_space.seed(0)
        rewards = []
        for _ in range(STEPS):
            _, reward, ended, cut, _ = env.step(env.action_space.sample())
            rewards.append(float(reward))
            if ended or cut:
                break
        return observation, rewards


def _equal(first: Any, second: Any) -> bool:
    pairs = zip(_leaves(first), _leaves(second), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def _leaves(observation: Any) -> list[np.ndarray]:
    return [np.asarray(array) for _, array in arrays(observation)]


def replay(raw: RawEpisodes, make: Make, episodes: int = EPISODES) -> Finding:
    """Whether recorded actions, played from the recorded seed, give the recorded rewards."""
    name = "replay"
    known = [(number, seed) for number, seed in enumerate(raw.seeds) if seed is not None][:episodes]
    if not known:
        means = "The data has no seeds, so recorded actions cannot be replayed."
        return Finding(name, "note", means, "Record the seed of each reset, as Minari does.")
    if raw.rewards is None:
        means = "The data has no rewards, so a replay cannot be compared."
        return Finding(name, "note", means, "Record rewards if you want to compare them.")
    try:
        with closing(make()) as env:
            differences = [_difference(raw, env, number, seed) for number, seed in known]
    except Exception as problem:  # a user's environment may raise anything
        return _raised(name, problem)
    different = next((difference for difference in differences if difference), None)
    if different is None:
        return Finding(name, "ok", f"{len(known)} episodes were replayed, and all rewards agree.")
    means = f"Recorded actions do not replay: {different}."
    advice = "Check that the environment, its version and its settings are those of the recording."
    return Finding(name, "warning", means, advice)


def _difference(raw: RawEpisodes, env: gymnasium.Env, number: int, seed: int) -> str | None:
    """Where the replay of an episode differs from the recording, in words."""
    assert raw.rewards is not None
    start, length = int(raw.starts[number]), int(raw.lengths[number])
    env.reset(seed=seed)
    for step in range(length):
        _, reward, ended, cut, _ = env.step(_action(raw, env, start + step))
        recorded = float(raw.rewards[start + step])
        if not np.isclose(float(reward), recorded, CLOSE, CLOSE):
            return f"the reward of step {step} of episode {number} is {reward:g}, and {recorded:g} was recorded"
        if (ended or cut) and step < length - 1:
            return f"episode {number} ends after {step + 1} steps, and {length} were recorded"
    return None


def _action(raw: RawEpisodes, env: gymnasium.Env, row: int) -> Any:
    """A recorded action in the structure that the environment expects."""
    if isinstance(env.action_space, gymnasium.spaces.Discrete):
        return int(np.asarray(raw.actions[row]).item())
    return mapped(lambda array: array[row], raw.actions)


def _raised(name: str, problem: Exception) -> Finding:
    means = f"The environment failed ({type(problem).__name__}: {shown(str(problem))})."
    return Finding(name, "problem", means, "Check that the environment is the data's own and that it works.")
