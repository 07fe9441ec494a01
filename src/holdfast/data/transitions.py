"""Flat arrays of transitions, as in D4RL and NumPy files, split into episodes at `terminals` and `timeouts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.data.raw_episodes import RawEpisodes
from holdfast.errors import Mistake

NEEDED = ("observations", "actions")
ENDS = ("terminals", "timeouts")
NAMES = (*NEEDED, "rewards", *ENDS, "seeds")
NO_END = "Neither terminals nor timeouts mark an end: all steps are read as one episode."


def wanted(name: str) -> bool:
    """Whether an array with this name is read; others, such as `next_observations` and `infos/...`, are not."""
    return name in NAMES or name.startswith("observations/")


def split(named_arrays: Mapping[str, np.ndarray], where: object) -> RawEpisodes:
    """The episodes in arrays with these names; a dictionary observation has names such as `observations/goal`."""
    arrays: dict[str, Any] = {name: array for name, array in named_arrays.items() if "/" not in name}
    if any(name.startswith("observations/") for name in named_arrays):
        if "observations" in arrays:
            raise Mistake(f"{where} has observations both as one array and as several: keep one of the two")
        arrays["observations"] = _nested(named_arrays)
    for name in NEEDED:
        if name not in arrays:
            found = ", ".join(sorted(named_arrays)[:8]) or "nothing"
            raise Mistake(f"{where} has no array {name!r}: it needs observations and actions, and has {found}")
    for name, array in named_arrays.items():
        if array.ndim == 0:
            raise Mistake(f"{name} in {where} must have one row per step, got a single value")
    notes: list[str] = []
    lengths = _lengths(arrays, len(arrays["actions"]), where, notes)
    rewards = arrays.get("rewards")
    if rewards is not None and rewards.ndim == 2 and rewards.shape[1] == 1:
        rewards = rewards[:, 0]
    return RawEpisodes(
        arrays["observations"], arrays["actions"], rewards, lengths, seeds=_seeds(arrays.get("seeds")), notes=notes
    )


def _nested(named_arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, array in named_arrays.items():
        first, *keys = name.split("/")
        if first != "observations" or not keys:
            continue
        inner = tree
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise Mistake(f"{name} lies inside another array: use different names")
        if keys[-1] in inner:
            raise Mistake(f"{name} lies inside another array: use different names")
        inner[keys[-1]] = array
    return tree


def _lengths(arrays: Mapping[str, Any], steps: int, where: object, notes: list[str]) -> np.ndarray:
    if steps == 0:
        raise Mistake(f"{where} has no steps: at least one episode is needed")
    ended = np.zeros(steps, bool)
    for name in ENDS:
        if name in arrays:
            ended |= _flags(arrays[name], steps, f"{name} in {where}")
    if not ended.any():
        notes.append(NO_END)
    elif not ended[-1]:
        notes.append("The last episode has no marked end: it ends with the data.")
    ended[-1] = True
    return np.diff(np.flatnonzero(ended), prepend=-1)


def _flags(flags: np.ndarray, steps: int, place: str) -> np.ndarray:
    if flags.ndim == 2 and flags.shape[1] == 1:
        flags = flags[:, 0]
    if flags.shape != (steps,):
        raise Mistake(f"{place} must have one entry for each of the {steps} actions, got shape {flags.shape}")
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise Mistake(f"{place} must be true or false at each step")
    return flags.astype(bool)


def _seeds(seeds: np.ndarray | None) -> tuple[int | None, ...]:
    if seeds is None:
        return ()
    if seeds.ndim != 1 or seeds.dtype.kind not in "iu":
        raise Mistake("seeds must be one integer for each episode")
    return tuple(seed if seed >= 0 else None for seed in seeds.tolist())
