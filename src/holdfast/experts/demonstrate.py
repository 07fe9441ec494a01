"""Records what Panda's experts do, in parallel processes, as Minari datasets."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count, islice

import gymnasium
import numpy as np

from holdfast.data.minari import Demonstrations, exists, write
from holdfast.experts.panda import Expert, Pick, Push, Reach
from holdfast.suites.panda import ARMS, INTERFACE, Arm, make, plain, quiet
from holdfast.suites.workers import forkserver

BLOCK = 25  # episodes a process plays before it reports
EXPERTS: dict[str, Callable[[], Expert]] = {"PandaReach": Reach, "PandaPush": Push, "PandaPickAndPlace": Pick}
Report = Callable[[str, int, int], None]  # task, transitions so far, transitions wanted

_environment: gymnasium.Env | None = None  # one per recording process


def play(env: gymnasium.Env, expert: Expert, seed: int) -> tuple[Demonstrations, bool]:
    """One episode, and whether it succeeded."""
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


def _play_block(arm: Arm, seeds: range) -> list[Demonstrations]:
    global _environment
    if _environment is None:
        _environment = make(arm.environment)
    expert = EXPERTS[arm.task]()
    played = [play(_environment, expert, seed) for seed in seeds]
    return [recorded for recorded, succeeded in played if succeeded]  # a failure teaches failing


def record(arm: Arm, transitions: int, report: Report, processes: int | None = None) -> Demonstrations:
    """Episodes of the expert from seed 0 on, successful ones alone, until there are that many transitions."""
    kept: list[Demonstrations] = []
    steps, workers = 0, processes or os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=forkserver()) as pool:
        for block in _in_order(pool, partial(_play_block, arm), workers):
            kept += block
            steps += sum(int(part.lengths.sum()) for part in block)
            report(arm.task, min(steps, transitions), transitions)
            if steps >= transitions:
                break
    return Demonstrations.join(kept).first(transitions)


def _in_order(pool: ProcessPoolExecutor, play_block: Callable[[range], list], workers: int) -> Iterator[list]:
    """Blocks of seeds in order, a few of them played ahead, so that the result does not depend on the processes."""
    blocks = (range(first, first + BLOCK) for first in count(0, BLOCK))
    ahead = [pool.submit(play_block, seeds) for seeds in islice(blocks, 2 * workers)]
    while True:
        yield ahead.pop(0).result()
        ahead.append(pool.submit(play_block, next(blocks)))


def build(arm: Arm, transitions: int, report: Report, again: bool = False) -> str:
    """Makes a task's dataset unless it is there, and returns its name."""
    name = arm.dataset(transitions)
    if exists(name) and not again:
        return name
    recorded = record(arm, transitions, report)
    totals = np.add.reduceat(recorded.rewards, np.cumsum(recorded.lengths) - recorded.lengths)
    about = {
        "algorithm_name": "scripted expert of holdfast.experts.panda, successful episodes",
        "description": f"{arm.environment}, {transitions} transitions, episodes from seed 0 on.",
        "ref_max_score": float(totals.mean()),
        "ref_min_score": RANDOM_SCORES[arm.task],
        "requirements": ["panda-gym"],
    }
    environment = plain(arm.environment)
    with quiet():  # Minari starts a simulator of its own
        write(name, recorded, environment, about, {"holdfast_interface": INTERFACE})
    environment.close()
    return name


RANDOM_SCORES = {"PandaReach": -12.0, "PandaPush": -8.0, "PandaPickAndPlace": -10.0}  # about, of untrained policies


def build_all(transitions: int, report: Report, again: bool = False) -> list[str]:
    """The datasets of all three tasks."""
    return [build(arm, transitions, report, again) for arm in ARMS.values()]
