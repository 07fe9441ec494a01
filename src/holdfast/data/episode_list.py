"""Reads episodes from Python: Episode objects, dictionaries, or anything with observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from holdfast.data.episodes import Dataset
from holdfast.data.frames import stacked
from holdfast.data.observation_parts import named, note_text
from holdfast.data.raw_episodes import RawEpisodes, arrays, check_size, joined, mapped
from holdfast.data.spaces import DEEPEST, Tree
from holdfast.data.validation import shown
from holdfast.errors import Mistake

EXPECTED = "an episode must be a holdfast.Episode or a dictionary with observations, actions and rewards"


def read_episodes(episodes: Iterable[Any]) -> RawEpisodes:
    """All episodes, in this order."""
    if isinstance(episodes, Dataset):
        return _read_dataset(episodes)
    observations, actions, rewards, lengths, seeds = [], [], [], [], []
    notes: list[str] = []
    size = 0
    for number, episode in enumerate(episodes):
        try:
            seen, done, earned = _read_episode(episode, notes)
        except Mistake as mistake:
            raise Mistake(f"episode {number} cannot be read: {mistake}") from mistake
        size += sum(array.nbytes for _, array in arrays(seen)) + sum(array.nbytes for _, array in arrays(done))
        check_size(size, "the data")
        observations.append(seen)
        actions.append(done)
        rewards.append(earned)
        lengths.append(_length(done))
        seeds.append(_seed(_get(episode, "seed")))
    if not lengths:
        raise Mistake("the data has no episodes: at least one is needed")
    missing = [number for number, earned in enumerate(rewards) if earned is None]
    if missing and len(missing) < len(rewards):
        raise Mistake(f"episode {missing[0]} has no rewards, but others have: give all of them rewards, or none")
    return RawEpisodes(
        observations=joined(observations),
        actions=joined(actions),
        rewards=None if missing else joined(rewards),
        lengths=np.array(lengths),
        seeds=tuple(seeds),
        notes=notes,
    )


def _read_dataset(dataset: Dataset) -> RawEpisodes:
    check_size(dataset.observations.nbytes * dataset.stack, "the data")
    observations = stacked(dataset, np.arange(dataset.steps)) if dataset.stack > 1 else dataset.observations
    return RawEpisodes(observations, dataset.actions, dataset.rewards, dataset.lengths)


def _read_episode(episode: Any, notes: list[str]) -> tuple[Tree, Tree, np.ndarray | None]:
    """Observations, actions and rewards of one episode, each with one row per step; text is left out and noted."""
    observations, actions, rewards = (_get(episode, name) for name in ("observations", "actions", "rewards"))
    if observations is None or actions is None:
        raise Mistake(f"{EXPECTED}, got {shown(type(episode).__name__)}")
    observations = _without_text(observations, notes)
    done = _tree(actions, "actions")
    steps = _length(done)
    seen = mapped(lambda array: _without_last(array, steps), _tree(observations, "observations"))
    earned = None if rewards is None else _array(rewards, "rewards")
    if earned is not None and len(earned) != steps:
        raise Mistake(f"it has {steps} actions but {len(earned)} rewards")
    return seen, done, earned


def _without_text(values: Any, notes: list[str], path: tuple[str, ...] = ()) -> Any:
    """Observations, or those of one step, without the parts of dictionaries that are text."""
    if isinstance(values, list) and values and isinstance(values[0], Mapping):  # one dictionary per step
        return [_without_text(one, notes, path) for one in values]
    if not isinstance(values, Mapping) or len(path) > DEEPEST:
        return values
    kept = {}
    for key, part in values.items():
        place = (*path, str(key))
        if _is_text(part):
            note_text(named(place), notes)
        else:
            kept[key] = _without_text(part, notes, place)
    return kept


def _is_text(part: Any) -> bool:
    first = part[0] if isinstance(part, list | np.ndarray) and np.ndim(part) and len(part) else part
    return isinstance(first, str)


def _get(episode: Any, name: str) -> Any:
    return episode.get(name) if isinstance(episode, Mapping) else getattr(episode, name, None)


def _seed(seed: Any) -> int | None:
    return int(seed) if isinstance(seed, int | np.integer) and seed >= 0 else None


def _tree(values: Any, name: str, depth: int = 0) -> Tree:
    """Arrays with one row per step, in the structure of the values."""
    if depth > DEEPEST:
        raise Mistake(f"{name} are nested too deeply")
    if isinstance(values, Mapping):
        return {str(key): _tree(part, name, depth + 1) for key, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_tree(part, name, depth + 1) for part in values)
    if isinstance(values, list) and values and isinstance(values[0], Mapping | tuple):  # one structure per step
        return mapped(lambda *rows: _array(rows, name), *values)
    return _array(values, name)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise Mistake(f"its {name} must have the same shape at every step") from None
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise Mistake(f"its {name} must be numbers with one row per step, got {array.dtype} {array.shape}")
    return array


def _length(tree: Tree) -> int:
    lengths = {len(array) for _, array in arrays(tree)}
    if len(lengths) != 1:
        raise Mistake(f"its actions must all have the same number of steps, got {sorted(lengths)}")
    return lengths.pop()


def _without_last(array: np.ndarray, steps: int) -> np.ndarray:
    """The observations before each action; the one after the last action is not needed."""
    if len(array) not in (steps, steps + 1):
        raise Mistake(f"it has {len(array)} observations and {steps} actions: one more or as many are expected")
    return array[:steps]
