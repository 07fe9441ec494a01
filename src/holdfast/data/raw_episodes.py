"""Recorded episodes as their environment returned them, of any spaces, laid end to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.data import spaces
from holdfast.data.action_layouts import ScaledActions, action_layout
from holdfast.data.layout import Layout
from holdfast.data.observation_parts import OneHot, named, observation_parts
from holdfast.data.spaces import DEEPEST, NUMBERS, Space, Tree
from holdfast.errors import Mistake

LARGEST = 2**35  # bytes of one dataset in memory
UNDECLARED = "The {} are integers of an unknown range: the largest recorded one is taken as the last."
NO_REWARDS = "There are no rewards: they are set to zero, and the task is cloned without a return to ask for."


def largest() -> int:
    """The most bytes that a dataset may take: a quarter of this machine's memory, since copies are made of it."""
    return min(LARGEST, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)


def check_size(count: int, where: object) -> None:
    """Raises if so many bytes are too many; to be called before they are allocated."""
    if count > largest():
        needed, most = count / 2**30, largest() / 2**30
        raise Mistake(
            f"{where} would take {needed:,.1f} GiB of memory, and at most {most:,.1f} GiB are used: split it, or keep "
            "fewer episodes"
        )


@dataclass(frozen=True)
class RawEpisodes:
    """Episodes of any spaces. Numbers may be anything, also NaN: `tasks.recorded` checks and encodes them."""

    observations: Tree  # one row per step in every part, (N, ...)
    actions: Tree  # (N, ...)
    rewards: np.ndarray | None  # (N,), or None if they were not recorded
    lengths: np.ndarray  # (E,) steps of each episode
    observation_space: Space | None = None
    action_space: Space | None = None
    environment: str | None = None
    """The environment's id, if the source names it."""
    seeds: tuple[int | None, ...] = ()
    """The reset seed of each episode, where known."""
    notes: list[str] = field(default_factory=list)
    """What was left out or assumed, in sentences for the user."""

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise Mistake("the data has no episodes: at least one is needed")
        if (self.lengths < 1).any():
            raise Mistake(f"episode {int(np.argmin(self.lengths))} of the data has no steps: leave it out")
        steps = int(self.lengths.sum())
        parts = {"observations": self.observations, "actions": self.actions, "rewards": self.rewards}
        for name, tree in parts.items():
            for path, array in arrays(tree) if tree is not None else ():
                place = named((name, *path))
                if array.dtype.kind not in NUMBERS:
                    raise Mistake(f"{place} must be numbers, got {array.dtype}")
                if len(array) != steps:
                    raise Mistake(f"{place} has {len(array)} rows, but the episodes have {steps} steps together")
        if self.rewards is not None and self.rewards.ndim != 1:
            raise Mistake(f"there must be one reward per step, got shape {self.rewards.shape}")
        if not self.seeds:
            object.__setattr__(self, "seeds", (None,) * len(self.lengths))
        if len(self.seeds) != len(self.lengths):
            raise Mistake(f"there are {len(self.seeds)} seeds for {len(self.lengths)} episodes")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """The row of each episode's first step, (E,)."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def returns(self) -> np.ndarray:
        """Each episode's return, (E,) float64; zeros without rewards."""
        if self.rewards is None:
            return np.zeros(len(self))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.add.reduceat(self.rewards.astype(np.float64), self.starts)

    def numbers(self) -> Iterator[tuple[str, np.ndarray]]:
        """The name and the array of everything recorded."""
        parts = {"observations": self.observations, "actions": self.actions, "rewards": self.rewards}
        for name, tree in parts.items():
            if tree is not None:
                yield from ((named((name, *path)), array) for path, array in arrays(tree))

    def layout(self, notes: list[str], env: Any = None) -> Layout:
        """The layout for the spaces of a Gymnasium environment, else the declared ones, else what the data looks like.

        What is left out or assumed is added to the notes.
        """
        observation_space = self.observation_space or spaces.observed(self.observations)
        action_space = self.action_space or spaces.acted(self.actions)
        if env is not None:
            observation_space = spaces.from_gymnasium(env.observation_space)
            action_space = spaces.from_gymnasium(env.action_space)
        layout = Layout(observation_parts(observation_space, notes), action_layout(action_space, self.actions, notes))
        if env is None and self.observation_space is None and any(isinstance(part, OneHot) for part in layout.parts):
            notes.append(UNDECLARED.format("observations"))
        if env is None and self.action_space is None and not isinstance(layout.actions, ScaledActions):
            notes.append(UNDECLARED.format("actions"))
        return layout

    def place(self, row: int) -> tuple[int, int]:
        """The episode of a row, and the step in it."""
        episode = int(np.searchsorted(self.starts, row, "right")) - 1
        return episode, row - int(self.starts[episode])

    def check_finite(self) -> None:
        """Raises if a number is NaN or infinite, and says where."""
        for name, array in self.numbers():
            if array.dtype.kind != "f" or np.isfinite(array).all():
                continue
            row, *column = (int(index) for index in np.argwhere(~np.isfinite(array))[0])
            episode, step = self.place(row)
            where = f", column {named(column)}" if column else ""
            value = array[(row, *column)]
            raise Mistake(
                f"{name} must be finite numbers, but step {step} of episode {episode}{where} is {value}: repair or "
                "leave out this episode"
            )


def arrays(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], np.ndarray]]:
    """The arrays in a tree and the path to each; dictionaries in sorted key order."""
    if len(path) > DEEPEST:
        raise Mistake(f"observations may be nested {DEEPEST} levels deep at most")
    if isinstance(tree, Mapping):
        for key in sorted(tree):
            yield from arrays(tree[key], (*path, key))
    elif isinstance(tree, tuple):
        for index, part in enumerate(tree):
            yield from arrays(part, (*path, index))
    else:
        yield path, tree


def mapped(function: Callable[..., Any], *trees: Tree) -> Tree:
    """The tree of a function's results at each place of trees of the same structure."""
    first = trees[0]
    if isinstance(first, Mapping):
        _same([isinstance(tree, Mapping) and set(tree) == set(first) for tree in trees])
        return {key: mapped(function, *(tree[key] for tree in trees)) for key in sorted(first)}
    if isinstance(first, tuple):
        _same([isinstance(tree, tuple) and len(tree) == len(first) for tree in trees])
        return tuple(mapped(function, *parts) for parts in zip(*trees, strict=True))
    _same([not isinstance(tree, Mapping | tuple) for tree in trees])
    return function(*trees)


def _same(agreements: list[bool]) -> None:
    if not all(agreements):
        raise Mistake("all episodes must have observations and actions of the same structure: the same keys everywhere")


def joined(trees: list[Tree]) -> Tree:
    """Trees of several episodes laid end to end."""
    return mapped(_concatenated, *trees)


def _concatenated(*parts: np.ndarray) -> np.ndarray:
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) != 1:
        raise Mistake(f"all episodes must have arrays of the same shape, got {sorted(shapes)[:4]}")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
