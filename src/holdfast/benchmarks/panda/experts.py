"""The Panda experts: smooth, stateless functions from observations to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

Observation = Mapping[str, np.ndarray]
"""panda-gym's: `observation` (hand, its velocity, then fingers and cube), `achieved_goal`, `desired_goal`."""

Layers = tuple[tuple[np.ndarray, np.ndarray], ...]
"""A network's weights (out, in) and biases (out,), tanh between the layers."""

STEP = 0.05  # metres: the displacement of an action of 1, on each axis


class Expert(Protocol):
    """A deterministic function from an observation to an action in [-1, 1]."""

    def __call__(self, observation: Observation) -> np.ndarray: ...


def read_layers() -> Layers:
    with np.load(Path(__file__).with_name("reach.npz")) as file:
        return tuple((file[f"weight{i}"], file[f"bias{i}"]) for i in range(len(file) // 2))


@dataclass(frozen=True)
class Reach:
    """Moves straight to the goal, corrected by a small network.

    panda-gym stops its inverse kinematics early, so the hand does not move as commanded: the axes have different gains
    and are coupled, and both depend on the pose. A matrix of gains cannot correct this (mean return -0.213); a network
    with 1,500 parameters, trained by `reach.py`, can (-0.198, about as good as planning in the simulator).
    """

    layers: Layers = field(default_factory=read_layers)

    def __call__(self, observation: Observation) -> np.ndarray:
        hand, velocity = observation["observation"][:3], observation["observation"][3:6]
        gap = observation["desired_goal"] - hand
        hidden = np.concatenate([5 * hand, velocity, 10 * gap])  # about 1 each
        for weight, bias in self.layers[:-1]:
            hidden = np.tanh(weight @ hidden + bias)
        weight, bias = self.layers[-1]
        return _action(1.2 * gap / STEP + weight @ hidden + bias)


@dataclass(frozen=True)
class Push:
    """Lands on the cube and drags it by friction, so that it need not move around the cube.

    Lengths are in metres, gains in actions per `STEP` of error. All numbers are positive, as the tuner requires.
    """

    behind: float = 0.0105  # lands this far behind the centre; at the front edge the cube would tip
    height: float = 0.0345  # target height, below the 0.047 at which the hand rests on the cube, so that it presses
    lift: float = 0.059  # flies this much higher ...
    wide: float = 0.047  # ... while it is further away than this, so that it does not hit the cube
    outward: float = 12.7  # and higher for cubes further out, because the arm sinks when it stretches
    fly_x: float = 1.42
    fly_y: float = 1.14
    fly_z: float = 0.88
    drag_out: float = 0.8  # lower: pressing speeds the hand up outward, and hard braking would throw the cube off
    drag_in: float = 1.6
    drag_y: float = 1.85
    press: float = 0.74
    press_outward: float = 0.30  # dragging outward needs more pressure, inward more speed
    near: float = 0.043  # within this distance the hand is over the cube
    near_blur: float = 0.0054
    low: float = 0.0645  # below this height the hand touches the cube or would hit it
    low_blur: float = 0.0026

    def __call__(self, observation: Observation) -> np.ndarray:
        hand, cube, goal = _places(observation)
        way = (goal - cube)[:2]
        gap = (cube - hand)[:2] - self.behind * way / _length(way)
        over = _gate(self.near - _length(gap), self.near_blur)
        low = _gate(self.low - hand[2], self.low_blur)
        climb = self.height + _lift(gap, self.lift, self.wide, self.outward) - hand[2]

        fly = _steps(gap, self.fly_x, self.fly_y)
        drag = _steps(way, self.drag_out if way[0] > 0 else self.drag_in, self.drag_y)
        press = self.press + self.press_outward * way[0] / _length(way)
        # High: fly. Low and over the cube: drag. Low beside the cube: only climb.
        flat = (1 - low) * fly + low * over * drag
        upright = (1 - low * over) * _steps([climb], self.fly_z) - low * over * press
        return _action(np.concatenate([flat, upright]))


@dataclass(frozen=True)
class Pick:
    """Lowers the open gripper over the cube, closes it on the way down, and carries the cube to the goal.

    Lengths are in metres, gains in actions per `STEP` of error. All numbers are positive, as the tuner requires.
    """

    below: float = 0.009  # grips this far below the cube's centre
    lift: float = 0.045  # as in `Push`
    wide: float = 0.040
    outward: float = 14.0
    fly_out: float = 2.4  # along x: the arm stretches slowly ...
    fly_in: float = 1.3  # ... and withdraws fast
    fly_y: float = 1.3
    fly_z: float = 1.1
    carry_x: float = 2.0
    carry_y: float = 1.5
    carry_z: float = 1.2
    early: float = 0.08  # share of the carrying motion while the fingers are still closing
    near: float = 0.045  # within this distance the hand is over the cube
    near_blur: float = 0.003
    low: float = 0.028  # within this height above the cube's centre the fingers reach it
    low_blur: float = 0.0025
    closed: float = 0.055  # finger distance when holding the 0.04 wide cube, with a margin
    closed_blur: float = 0.002

    def __call__(self, observation: Observation) -> np.ndarray:
        hand, cube, goal = _places(observation)
        gap = cube - hand
        over = _gate(self.near - _length(gap[:2]), self.near_blur)
        low = _gate(self.low + gap[2], self.low_blur)
        around = over * low
        held = around * _gate(self.closed - observation["observation"][6], self.closed_blur)
        climb = gap[2] - self.below + _lift(gap, self.lift, self.wide, self.outward)

        # Low beside the cube: only climb.
        flat = (1 - low * (1 - over)) * _steps(gap[:2], self.fly_out if gap[0] > 0 else self.fly_in, self.fly_y)
        fly = np.concatenate([flat, _steps([climb], self.fly_z)])
        carry = _steps(goal - cube, self.carry_x, self.carry_y, self.carry_z)
        arm = (1 - held) * (fly + around * self.early * carry) + held * carry
        return _action(np.append(arm, 1 - 3 * around))


def _places(observation: Observation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The positions of the hand, the cube and the goal, (3,) each."""
    return observation["observation"][:3], observation["achieved_goal"], observation["desired_goal"]


def _length(vector: np.ndarray) -> float:
    return float(np.sqrt(vector @ vector)) + 1e-8


def _gate(margin: float, blur: float) -> float:
    """A smooth step from 0 to 1 at a margin of 0."""
    return float(0.5 + 0.5 * np.tanh(0.5 * margin / blur))


def _lift(gap: np.ndarray, lift: float, wide: float, outward: float) -> float:
    flat = gap[:2]
    return float(lift * (1 - np.exp(-(flat @ flat) / wide**2)) + outward * max(0.0, flat[0]) ** 2)


def _steps(error: np.ndarray | list[float], *gains: float) -> np.ndarray:
    """Actions for these errors, clipped before blending so that a distant target does not dominate the gates."""
    return np.clip(np.asarray(error) * gains / STEP, -1, 1)


def _action(command: np.ndarray) -> np.ndarray:
    return np.clip(command, -1, 1).astype(np.float32)
