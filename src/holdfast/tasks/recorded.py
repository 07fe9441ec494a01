"""A user's own data, ready to be learned: checked, encoded by a recorded layout, with its interface."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from holdfast.data.action_layouts import Actions as ActionLayout
from holdfast.data.action_layouts import ScaledActions
from holdfast.data.episodes import Dataset
from holdfast.data.layout import Layout
from holdfast.data.randomness import numpy_stream
from holdfast.data.raw_episodes import NO_REWARDS, RawEpisodes, check_size
from holdfast.data.sources import Where, read_source
from holdfast.errors import Mistake
from holdfast.tasks.interface import Actions, Continuous, Discrete, Interface

QUANTILE = 0.9  # of the data's returns: the default target
NOTHING_HELD_OUT = "The data has a single episode: nothing is held out, so there is no offline score."


@dataclass(frozen=True)
class Recorded:
    """Episodes as a network sees them, and how they became so."""

    dataset: Dataset
    interface: Interface
    layout: Layout
    environment: str | None
    """The environment's id, if the source names it."""
    seeds: tuple[int | None, ...]
    """The reset seed of each episode, where known."""
    has_rewards: bool
    """Whether rewards were recorded; without them they are zeros."""
    notes: tuple[str, ...]
    """What was left out or assumed, in sentences for the user."""

    @property
    def fingerprint(self) -> str:
        """A hash of the encoded data and the layout."""
        record = json.dumps(self.layout.record(), sort_keys=True)
        return hashlib.sha256(f"{self.dataset.fingerprint}{record}".encode()).hexdigest()


@dataclass(frozen=True)
class Defaults:
    """Settings that follow from the data."""

    return_scale: float
    horizon: int
    target: float


def read(where: Where, env: Any = None, layout: Layout | None = None) -> Recorded:
    """Reads data from anywhere; `env` is a Gymnasium environment whose spaces are used instead of the data's own.

    With a layout, the data is encoded as other data was before.
    """
    return recorded(read_source(where), env, layout)


def recorded(raw: RawEpisodes, env: Any = None, layout: Layout | None = None) -> Recorded:
    """Checks episodes and encodes them."""
    raw.check_finite()
    notes = list(raw.notes)
    own = raw.layout(notes, env)
    if layout is None:
        layout = own
    elif layout.actions != own.actions:
        check_bounds(layout.actions, raw.actions)
    check_size(prod(layout.observation) * int(raw.lengths.sum()) * layout.itemsize, "the encoded data")
    rewards = raw.rewards
    if rewards is None:
        notes.append(NO_REWARDS)
        rewards = np.zeros(int(raw.lengths.sum()), np.float32)
    with np.errstate(over="ignore"):  # what becomes infinite is refused by the dataset
        rewards = rewards.astype(np.float32)
    dataset = Dataset(
        observations=layout.encode_observations(raw.observations),
        actions=layout.encode_actions(raw.actions),
        rewards=rewards,
        lengths=raw.lengths.astype(np.int64),
    )
    interface = interface_of(layout, horizon=int(raw.lengths.max()))
    interface.check(dataset)
    return Recorded(
        dataset, interface, layout, raw.environment, raw.seeds, has_rewards=raw.rewards is not None, notes=tuple(notes)
    )


def interface_of(layout: Layout, horizon: int) -> Interface:
    """The interface of a task whose data has this layout."""
    pixels = len(layout.observation) == 3
    return Interface(layout.observation, _actions(layout.actions), horizon, normalised=not pixels)


def _actions(layout: ActionLayout) -> Actions:
    if isinstance(layout, ScaledActions):
        return Continuous(len(layout.low), len(layout.low))
    count = layout.count  # type: ignore[attr-defined]
    return Discrete(count, count)


def check_bounds(layout: ActionLayout, actions: Any) -> None:
    """Raises if continuous actions lie outside the bounds of a layout, which would clip them."""
    if not isinstance(layout, ScaledActions):
        return
    values = np.asarray(actions).reshape(len(actions), -1)
    if values.shape[1] == len(layout.low) and (np.abs(values - layout.middle) > layout.half * (1 + 1e-6)).any():
        raise Mistake(
            "the data has actions outside the bounds that its task was learned with: learn it under another name, or "
            "name an environment with these bounds"
        )


def held_out(dataset: Dataset, seed: int, share: float = 0.1) -> tuple[Dataset, Dataset | None]:
    """Splits a dataset into episodes to learn from and held-out ones; a single episode is not held out (None)."""
    if not 0 < share < 1:
        raise Mistake(f"the share of held-out episodes must lie between 0 and 1, got {share}")
    if len(dataset) == 1:
        return dataset, None
    count = min(max(round(share * len(dataset)), 1), len(dataset) - 1)
    order = numpy_stream(seed, "held out").permutation(len(dataset)).tolist()
    return dataset.take(sorted(order[count:])), dataset.take(sorted(order[:count]))


def defaults_from(dataset: Dataset, quantile: float = QUANTILE) -> Defaults:
    """The return scale (the largest return to go), the horizon (the longest episode), and a quantile of the returns."""
    if not 0 <= quantile <= 1:
        raise Mistake(f"the quantile of the returns must lie between 0 and 1, got {quantile}")
    scale = float(np.abs(dataset.returns_to_go).max())
    target = float(np.quantile(dataset.totals, quantile))
    return Defaults(scale if scale > 0 else 1.0, int(dataset.lengths.max()), target)
