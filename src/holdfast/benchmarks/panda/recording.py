"""Records episodes of the Panda experts as Minari datasets, in parallel processes."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import cache, partial
from itertools import count, islice

import gymnasium
import numpy as np

from holdfast.benchmarks.panda.arm import INTERFACE, ArmTask, make_environment, plain, quiet
from holdfast.benchmarks.panda.experts import Expert, Pick, Push, Reach
from holdfast.benchmarks.panda.random_returns import RANDOM_RETURNS
from holdfast.data.demonstrations import Demonstrations
from holdfast.data.minari import exists, write
from holdfast.tasks.data_reports import Report
from holdfast.tasks.processes import processes

BLOCK = 25  # episodes that a process plays at a time
AHEAD = 2 * (os.cpu_count() or 1)  # blocks that are submitted in advance
EXPERTS: dict[str, Callable[[], Expert]] = {"PandaReach": Reach, "PandaPush": Push, "PandaPickAndPlace": Pick}


def play_episode(env: gymnasium.Env, expert: Expert, seed: int) -> tuple[Demonstrations, bool]:
    """Plays one episode; returns it and whether it succeeded."""
    observation, _ = env.reset(seed=seed)
    seen, actions, rewards, over = [observation], [], [], False
    info: dict = {}
    while not over:
        action = expert(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        actions.append(action)
        rewards.append(reward)
        over = terminated or truncated
    observations = {name: np.stack([part[name] for part in seen]) for name in observation}
    lengths, seeds = np.array([len(rewards)]), np.array([seed])
    recorded = Demonstrations(observations, np.stack(actions), np.array(rewards, np.float64), lengths, seeds)
    return recorded, bool(info["is_success"])


def record_demonstrations(arm: ArmTask, transitions: int, report: Report, pool: Executor) -> Demonstrations:
    """Successful episodes of the expert, from seed 0 on, with at least this many transitions."""
    kept: list[Demonstrations] = []
    steps = 0
    for block in _in_order(pool, partial(_play_block, arm)):
        kept += block
        steps += sum(int(part.lengths.sum()) for part in block)
        report(arm.task, min(steps, transitions), transitions)
        if steps >= transitions:
            break
    return Demonstrations.join(kept).first(transitions)


def _in_order(pool: Executor, play_block: Callable[[range], list]) -> Iterator[list]:
    """Plays blocks of seeds in parallel but yields them in order, so that results do not depend on the processes."""
    blocks = (range(first, first + BLOCK) for first in count(0, BLOCK))
    ahead = deque(pool.submit(play_block, seeds) for seeds in islice(blocks, AHEAD))
    try:
        while True:
            yield ahead.popleft().result()
            ahead.append(pool.submit(play_block, next(blocks)))
    finally:
        for unwanted in ahead:
            unwanted.cancel()


def _play_block(arm: ArmTask, seeds: range) -> list[Demonstrations]:
    env, expert = _environment(arm.environment), EXPERTS[arm.task]()
    played = [play_episode(env, expert, seed) for seed in seeds]
    return [recorded for recorded, succeeded in played if succeeded]  # failed episodes are not demonstrations


@cache
def _environment(name: str) -> gymnasium.Env:
    """The environment of this process, made once."""
    return make_environment(name)


def keep(arm: ArmTask, transitions: int, recorded: Demonstrations) -> None:
    """Stores a task's recording as a Minari dataset."""
    totals = np.add.reduceat(recorded.rewards, np.cumsum(recorded.lengths) - recorded.lengths)
    about = {
        "algorithm_name": "scripted expert of holdfast.benchmarks.panda.experts, successful episodes",
        "description": f"{arm.environment}, {transitions} transitions, episodes from seed 0 on.",
        "ref_max_score": float(totals.mean()),
        "ref_min_score": RANDOM_RETURNS[arm.task],
        "requirements": ["panda-gym"],
    }
    environment = plain(arm.environment)
    with quiet():  # Minari starts a simulator of its own
        write(arm.dataset(transitions), recorded, environment, about, {"holdfast_interface": INTERFACE})
    environment.close()


def build_datasets(arms: Sequence[ArmTask], transitions: int, report: Report, again: bool = False) -> list[str]:
    """Builds missing datasets of these tasks, storing one while the next is recorded; returns all names."""
    missing = [arm for arm in arms if again or not exists(arm.dataset(transitions))]
    if missing:
        with processes() as pool:
            stored = [
                pool.submit(keep, arm, transitions, record_demonstrations(arm, transitions, report, pool))
                for arm in missing
            ]
            for done in stored:
                done.result()
    return [arm.dataset(transitions) for arm in arms]
