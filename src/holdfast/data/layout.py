"""How raw observations and actions become what a network sees, and back: recorded once, applied everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from holdfast.data import spaces
from holdfast.data.action_layouts import ACTIONS, Actions, DiscreteActions
from holdfast.data.conform import conform
from holdfast.data.observation_parts import PARTS, Frames, Part, named
from holdfast.data.spaces import Tree
from holdfast.data.validation import shown
from holdfast.errors import Mistake


@dataclass(frozen=True)
class Layout:
    """The parts of an observation in the order of their columns, and the actions."""

    parts: tuple[Part, ...]
    actions: Actions

    def __post_init__(self) -> None:
        if not self.parts:
            raise Mistake("an observation must have at least one part")
        if len(self.parts) > 1 and any(isinstance(part, Frames) for part in self.parts):
            raise Mistake("an image cannot be combined with other observations")
        if sum(part.width for part in self.parts) > spaces.WIDEST:
            raise Mistake(f"an observation may have at most {spaces.WIDEST:,} numbers")

    @property
    def observation(self) -> tuple[int, ...]:
        """The shape of an encoded observation."""
        first = self.parts[0]
        return first.seen if isinstance(first, Frames) else (sum(part.width for part in self.parts),)

    @property
    def itemsize(self) -> int:
        """Bytes of each number of an encoded observation."""
        return 1 if isinstance(self.parts[0], Frames) else 4

    @property
    def columns(self) -> dict[str, tuple[int, int]]:
        """The first column of each part, and the column after its last one."""
        ends = np.cumsum([part.width for part in self.parts]).tolist()
        return {named(part.path): (end - part.width, end) for part, end in zip(self.parts, ends, strict=True)}

    def encode_observations(self, raw: Tree) -> np.ndarray:
        """Raw observations, one row per step in every part, as arrays: (N, D) float32 or (N, C, H, W) uint8."""
        columns = [part.encode(part.take(raw)) for part in self.parts]
        if len({len(column) for column in columns}) != 1:
            raise Mistake("all parts of the observations must have the same number of steps")
        return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)

    def encode_observation(self, raw: Tree) -> np.ndarray:
        """One raw observation, as its environment returns it."""
        return self.encode_observations(_as_rows(raw))[0]

    def encode_actions(self, raw: Any) -> np.ndarray:
        """Raw actions, (N, *shape), as the network's."""
        return self.actions.encode(np.asarray(raw))

    def encode_action(self, raw: Any) -> np.ndarray:
        """One raw action."""
        return self.encode_actions(np.asarray(raw)[None])[0]

    def decode_actions(self, actions: np.ndarray) -> np.ndarray:
        """The network's actions as the environment expects them, (N, *shape)."""
        return self.actions.decode(np.asarray(actions))

    def decode_action(self, action: Any) -> np.ndarray:
        """One action as the environment expects it: an array, or for Discrete an integer, which can be a key."""
        decoded = self.decode_actions(np.asarray(action)[None])
        return decoded[0] if isinstance(self.actions, DiscreteActions) else decoded[0, ...]

    def record(self) -> dict[str, Any]:
        """The layout as plain data."""
        parts = [{"kind": part.KIND, **_plain(part)} for part in self.parts]
        return {"parts": parts, "actions": {"kind": self.actions.KIND, **_plain(self.actions)}}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Layout:
        """The layout that `record` described."""
        try:
            parts = tuple(_read(part, PARTS, "parts") for part in record["parts"])
            return cls(parts, _read(record["actions"], ACTIONS, "actions"))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise Mistake(f"the recorded layout is damaged ({problem})") from problem


def _plain(value: Any) -> dict[str, Any]:
    return {name: list(entry) if isinstance(entry, tuple) else entry for name, entry in asdict(value).items()}


def _read(record: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> Any:
    fields = dict(record)
    kind = fields.pop("kind")
    if kind not in kinds:
        raise Mistake(f"the recorded layout has unknown {where}: {shown(kind)}")
    return conform(fields, kinds[kind], where)


def _as_rows(raw: Tree) -> Tree:
    """One raw observation as a batch of one."""
    if isinstance(raw, Mapping):
        return {key: _as_rows(part) for key, part in raw.items()}
    if isinstance(raw, tuple):
        return tuple(_as_rows(part) for part in raw)
    try:
        return np.asarray(raw)[None]
    except ValueError:
        raise Mistake(f"an observation must be numbers, got {shown(raw)}") from None
