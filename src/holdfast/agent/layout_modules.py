"""A recorded layout as modules: raw observations to what a network sees, and its actions to the environment's."""

from abc import ABC, abstractmethod
from math import prod
from typing import cast

import torch
from torch import Tensor, nn

from holdfast.data.action_layouts import Actions, CombinedActions, ScaledActions
from holdfast.data.layout import Layout
from holdfast.data.observation_parts import Frames, OneHot, Part, named
from holdfast.errors import Mistake


class PartEncoder(nn.Module, ABC):
    """`Part.encode` on tensors; values outside of a Discrete space are not refused."""

    dtype: torch.dtype  # of raw values

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.shape = part.shape

    def zeros(self, rows: int) -> Tensor:
        """Raw values of zeros, (N, *shape)."""
        return torch.zeros(rows, *self.shape, dtype=self.dtype)

    @abstractmethod
    def forward(self, raw: Tensor) -> Tensor:
        """The columns of these rows, (N, *shape) -> (N, width)."""


class NumbersEncoder(PartEncoder):
    """Numbers as they are, flattened."""

    dtype = torch.float32

    def forward(self, raw: Tensor) -> Tensor:
        return raw.reshape(len(raw), prod(self.shape))


class OneHotEncoder(PartEncoder):
    """Integers, each as a vector with a single one."""

    dtype = torch.int64
    entries: Tensor  # (width,) which integer a column belongs to
    values: Tensor  # (width,) the value that sets the column to one

    def __init__(self, part: OneHot) -> None:
        super().__init__(part)
        counts = torch.tensor(part.counts)
        values = [torch.arange(count) + start for count, start in zip(part.counts, part.starts, strict=True)]
        self.register_buffer("entries", torch.arange(len(counts)).repeat_interleave(counts))
        self.register_buffer("values", torch.cat(values))

    def forward(self, raw: Tensor) -> Tensor:
        flat = raw.reshape(len(raw), prod(self.shape))
        return (flat[:, self.entries] == self.values).float()


class FramesEncoder(PartEncoder):
    """A stack of frames or the channels of an image, channels first."""

    dtype = torch.uint8

    def __init__(self, part: Frames) -> None:
        super().__init__(part)
        self.channels_last, self.seen = part.channels_last, part.seen

    def forward(self, raw: Tensor) -> Tensor:
        frames = raw.movedim(-1, 1) if self.channels_last else raw
        return frames.reshape(len(raw), *self.seen)


def part_encoder(part: Part) -> PartEncoder:
    """The encoder of a part of an observation."""
    if isinstance(part, OneHot):
        return OneHotEncoder(part)
    return FramesEncoder(part) if isinstance(part, Frames) else NumbersEncoder(part)


class LayoutEncoder(nn.Module):
    """`Layout.encode_observations` on named tensors, one for each part."""

    def __init__(self, layout: Layout, prefix: str) -> None:
        super().__init__()
        self.names = [f"{prefix}.{named(part.path)}" if part.path else prefix for part in layout.parts]
        if len(set(self.names)) < len(self.names):
            raise Mistake("two parts of the observation have the same name: rename a key of its dictionaries")
        self.parts = nn.ModuleList(part_encoder(part) for part in layout.parts)

    def inputs(self, rows: int) -> dict[str, Tensor]:
        """Inputs of zeros, by name."""
        return {
            name: part.zeros(rows) for name, part in zip(self.names, cast(list[PartEncoder], self.parts), strict=True)
        }

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Encoded observations, (N, D) or (N, C, H, W)."""
        columns = [part(inputs[name]) for name, part in zip(self.names, self.parts, strict=True)]
        return columns[0] if len(columns) == 1 else torch.cat(columns, dim=1)


class ScaledDecoder(nn.Module):
    """Continuous actions in their original bounds and shape; integers are rounded."""

    middle: Tensor  # (A,), as the other buffers
    half_range: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, actions: ScaledActions) -> None:
        super().__init__()
        self.shape, self.dtype = actions.shape, getattr(torch, actions.dtype)
        bounds = {"middle": actions.middle, "half_range": actions.half, "low": actions.low, "high": actions.high}
        for name, bound in bounds.items():
            self.register_buffer(name, torch.tensor(bound, dtype=torch.float64))

    def forward(self, actions: Tensor) -> Tensor:
        values = self.middle + self.half_range * actions.double().clamp(-1, 1)
        values = values.clamp(self.low, self.high)
        if not self.dtype.is_floating_point:
            values = values.round()
        return values.reshape(len(actions), *self.shape).to(self.dtype)


class IntegersDecoder(nn.Module):
    """The integers that one integer stands for: its digits in a number with these radices, each from its start on."""

    radices: Tensor
    weights: Tensor
    starts: Tensor

    def __init__(self, shape: tuple[int, ...], radices: tuple[int, ...], starts: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("radices", torch.tensor(radices))
        self.register_buffer("weights", torch.tensor([prod(radices[place + 1 :]) for place in range(len(radices))]))
        self.register_buffer("starts", torch.tensor(starts))

    def forward(self, actions: Tensor) -> Tensor:
        digits = actions[:, None].div(self.weights, rounding_mode="floor") % self.radices
        return (digits + self.starts).reshape(len(actions), *self.shape)


def action_decoder(actions: Actions) -> nn.Module:
    """`Actions.decode` on tensors."""
    if isinstance(actions, ScaledActions):
        return ScaledDecoder(actions)
    if isinstance(actions, CombinedActions):
        return IntegersDecoder(actions.shape, actions.counts, actions.starts)
    return IntegersDecoder((), (actions.count,), (actions.start,))  # type: ignore[attr-defined]
