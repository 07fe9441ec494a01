"""Records episodes of a scripted expert in parallel processes, in the order of their seeds."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import count, islice
from typing import Any

import gymnasium
import numpy as np

from holdfast.data.demonstrations import Demonstrations
from holdfast.tasks.environments import SUCCESS
from holdfast.tasks.processes import usable_cores

AHEAD = 2 * usable_cores()  # blocks that are submitted in advance


def by_name(observation: Any) -> Mapping[str, np.ndarray]:
    """The arrays of an observation; a single one is called `observation`."""
    return observation if isinstance(observation, Mapping) else {"observation": observation}


def play_episode(env: gymnasium.Env, expert: Callable[[Any], np.ndarray], seed: int) -> tuple[Demonstrations, bool]:
    """Plays one episode; returns it and whether it succeeded at its end."""
    observation, info = env.reset(seed=seed)
    seen, actions, rewards, over = [by_name(observation)], [], [], False
    while not over:
        action = expert(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(by_name(observation))
        actions.append(action)
        rewards.append(reward)
        over = terminated or truncated
    observations = {name: np.stack([part[name] for part in seen]) for name in seen[0]}
    lengths, seeds = np.array([len(rewards)]), np.array([seed])
    recorded = Demonstrations(observations, np.stack(actions), np.array(rewards, np.float64), lengths, seeds)
    return recorded, any(bool(info.get(name, False)) for name in SUCCESS)


def successes_in_order(
    pool: Executor, play_block: Callable[[range], list[Demonstrations]], *, size: int, first: int = 0
) -> Iterator[list[Demonstrations]]:
    """Plays blocks of this many seeds in parallel but yields them in order: results do not depend on the processes."""
    blocks = (range(start, start + size) for start in count(first, size))
    ahead = deque(pool.submit(play_block, seeds) for seeds in islice(blocks, AHEAD))
    try:
        while True:
            yield ahead.popleft().result()
            ahead.append(pool.submit(play_block, next(blocks)))
    finally:
        for unwanted in ahead:
            unwanted.cancel()
