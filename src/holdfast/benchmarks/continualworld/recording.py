"""Demonstrations of Meta-World's scripted policies: recorded when they are asked for, and kept as Minari datasets."""

import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import lru_cache, partial
from typing import Any

import numpy as np

from holdfast.benchmarks.continualworld.orders import simulated
from holdfast.benchmarks.continualworld.sawyer import HORIZON, UntilSuccess, make_environment
from holdfast.data.demonstrations import Demonstrations
from holdfast.data.episodes import Dataset
from holdfast.data.locks import locked
from holdfast.data.minari import exists, folder, metadata, read, write
from holdfast.errors import MissingData, Mistake
from holdfast.tasks.data_reports import Report
from holdfast.tasks.processes import processes
from holdfast.tasks.recording import play_episode, successes_in_order

DEFAULT_COUNT = 100
BLOCK = 4  # episodes that a process plays at a time
INTERFACE = "metaworld-1"  # version of the recorded format
END_OF_SEEDS = 1_000_000  # evaluations begin with this seed


def dataset_name(name: str) -> str:
    """The Minari dataset of a task; it has as many demonstrations as were asked for so far."""
    return f"metaworld/{name}-expert-v0"


def demonstrate(environment: UntilSuccess, name: str, seed: int) -> tuple[Demonstrations, bool]:
    """Plays an episode of the scripted policy; returns it and whether it succeeded."""
    from metaworld.policies import ENV_POLICY_MAP

    policy: Any = ENV_POLICY_MAP[f"{name}-v3"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that actions outside [-1, 1] are clipped
        return play_episode(environment, partial(_act, policy()), seed)


def _act(policy: Any, observation: np.ndarray) -> np.ndarray:
    return np.clip(policy.get_action(observation.astype(np.float64)), -1, 1).astype(np.float32)


@lru_cache(maxsize=1)
def _environment(name: str) -> UntilSuccess:
    """The environment of this process, made once per task."""
    return make_environment(name)


def _play_block(name: str, seeds: range) -> list[Demonstrations]:
    played = [demonstrate(_environment(name), name, seed) for seed in seeds]
    return [recorded for recorded, succeeded in played if succeeded]  # failed episodes are not demonstrations


def record(
    name: str, count: int, report: Report, pool: Executor, before: Demonstrations | None = None
) -> Demonstrations:
    """The first successful episodes from seed 0 on, this many; `before` are those that were recorded earlier."""
    kept = [] if before is None else [before]
    recorded = 0 if before is None else len(before.seeds)
    first = 0 if before is None else int(before.seeds[-1]) + 1
    for block in successes_in_order(pool, partial(_play_block, name), size=BLOCK, first=first):
        kept += block
        recorded += len(block)
        report(name, min(recorded, count), count)
        if recorded >= count:
            break
    demonstrations = Demonstrations.join(kept).first_episodes(count)
    if demonstrations.seeds[-1] >= END_OF_SEEDS:
        raise Mistake(f"there are no {count} demonstrations of {name} before the seeds of evaluations: ask for fewer")
    return demonstrations


def kept_demonstrations(name: str) -> Demonstrations | None:
    """The demonstrations of a task that are on this machine, if any."""
    dataset = dataset_name(name)
    if not exists(dataset):
        return None
    made = metadata(dataset).get("holdfast_interface")
    if made != INTERFACE:
        raise Mistake(f"{dataset} was made for interface {made}, not {INTERFACE}: delete {folder(dataset)}")
    return read(dataset)


def keep(name: str, recorded: Demonstrations) -> None:
    """Stores the demonstrations of a task as a Minari dataset."""
    environment = make_environment(name)
    about = {
        "algorithm_name": f"scripted policy of Meta-World for {name}-v3, successful episodes",
        "description": f"{name}-v3, {len(recorded.lengths)} demonstrations, episodes from seed 0 on, reward -1 a step.",
        "ref_max_score": -float(recorded.lengths.mean()),
        "ref_min_score": -float(HORIZON),
        "requirements": ["metaworld"],
    }
    write(dataset_name(name), recorded, environment, about, {"holdfast_interface": INTERFACE})
    environment.close()


def build_datasets(tasks: Sequence[str], count: int, report: Report, again: bool = False) -> list[str]:
    """Records the demonstrations that are missing, or all of them; returns the names of the datasets."""
    names = list(dict.fromkeys(map(simulated, tasks)))
    missing = [name for name in names if again or not _has(name, count)]
    if missing:
        with processes() as pool:
            for name in missing:
                _extend(name, count, report, pool, again)
    return [dataset_name(name) for name in names]


def _has(name: str, count: int) -> bool:
    kept = kept_demonstrations(name)
    return kept is not None and len(kept.lengths) >= count


def _extend(name: str, count: int, report: Report, pool: Executor, again: bool) -> None:
    """Records what is missing; another process may have recorded it in the meantime."""
    with locked(folder("") / f".{name}.lock"):
        before = None if again else kept_demonstrations(name)
        if before is None or len(before.lengths) < count:
            keep(name, record(name, count, report, pool, before))


def load_demonstrations(task: str, count: int) -> Demonstrations:
    """The first demonstrations of a task."""
    name = simulated(task)
    kept = kept_demonstrations(name)
    there = 0 if kept is None else len(kept.lengths)
    if kept is None or there < count:
        raise MissingData(
            f"there are {there} of {count} demonstrations of {name} on this machine: "
            f"run holdfast data build with --order {task} --demonstrations {count}"
        )
    return kept.first_episodes(count)


def load_dataset(task: str, count: int) -> Dataset:
    """The first demonstrations of a task, as a learner gets them."""
    return to_dataset(load_demonstrations(task, count))


def to_dataset(demonstrations: Demonstrations) -> Dataset:
    """Recorded episodes without the observations after the last actions."""
    lengths = demonstrations.lengths
    acted = np.concatenate([np.arange(length + 1) < length for length in lengths])
    observations = demonstrations.observations["observation"][acted]
    return Dataset(observations, demonstrations.actions, demonstrations.rewards.astype(np.float32), lengths)
