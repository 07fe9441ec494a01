"""Records episodes of the Panda experts as Minari datasets, in parallel processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache, partial

import gymnasium
import numpy as np

from holdfast.benchmarks.panda.arm import INTERFACE, ArmTask, make_environment, plain, quiet
from holdfast.benchmarks.panda.experts import Expert, Pick, Push, Reach
from holdfast.benchmarks.panda.random_returns import RANDOM_RETURNS
from holdfast.data.demonstrations import Demonstrations
from holdfast.data.minari import exists, write
from holdfast.tasks.data_reports import Report
from holdfast.tasks.processes import processes
from holdfast.tasks.recording import play_episode, successes_in_order

BLOCK = 25  # episodes that a process plays at a time
EXPERTS: dict[str, Callable[[], Expert]] = {"PandaReach": Reach, "PandaPush": Push, "PandaPickAndPlace": Pick}


def record_demonstrations(arm: ArmTask, transitions: int, report: Report, pool: Executor) -> Demonstrations:
    """Successful episodes of the expert, from seed 0 on, with at least this many transitions."""
    kept: list[Demonstrations] = []
    steps = 0
    for block in successes_in_order(pool, partial(_play_block, arm), size=BLOCK):
        kept += block
        steps += sum(int(part.lengths.sum()) for part in block)
        report(arm.task, min(steps, transitions), transitions)
        if steps >= transitions:
            break
    return Demonstrations.join(kept).first(transitions)


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
