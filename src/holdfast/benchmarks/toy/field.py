"""The toy environment: a point must go to a goal that it cannot observe."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from holdfast.data.episodes import Dataset, Episode
from holdfast.tasks.interface import Continuous, Discrete

OBSERVATION = 4  # position and last move, two coordinates each
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]], float)


@dataclass(frozen=True)
class DiscreteMoves:
    """Discrete moves: stay, four directions, and in some tasks the four diagonals."""

    actions: Discrete
    stride = 0.25

    @property
    def space(self) -> gymnasium.Space:
        return gymnasium.spaces.Discrete(self.actions.count)

    def move(self, action: Any) -> np.ndarray:
        """The displacement an action asks for."""
        return MOVES[int(action)] * self.stride

    def toward(self, way: np.ndarray) -> Any:
        """The action whose displacement is nearest to `way`."""
        moves = MOVES[: self.actions.count] * self.stride
        return np.int64(np.linalg.norm(way - moves, axis=1).argmin())


@dataclass(frozen=True)
class ContinuousMoves:
    """Continuous moves in one dimension (on a rail) or two."""

    actions: Continuous
    stride = 0.3

    @property
    def space(self) -> gymnasium.Space:
        return gymnasium.spaces.Box(-1, 1, (self.actions.dimension,), np.float32)

    def move(self, action: Any) -> np.ndarray:
        """The displacement an action asks for."""
        move = np.zeros(2)
        move[: self.actions.dimension] = np.clip(action, -1, 1)[: self.actions.dimension]
        return move * self.stride

    def toward(self, way: np.ndarray) -> Any:
        """The action straight along `way`, padded to the shared width."""
        active = np.arange(self.actions.width) < self.actions.dimension
        return (np.clip(way / self.stride, -1, 1) * active).astype(np.float32)


@dataclass(frozen=True)
class Rules:
    """What distinguishes one toy task from another."""

    goal: tuple[float, float]
    moves: DiscreteMoves | ContinuousMoves
    rail: bool  # whether the point stays at the goal's height
    ends: bool  # True: ends at the goal, reward is the negative distance; False: reward 1 per step at the goal
    horizon = 20
    radius = 0.2


class Field(gymnasium.Env):
    """The square [-1, 1]^2 with a goal that the observation does not show."""

    def __init__(self, rules: Rules) -> None:
        self.rules, self.goal = rules, np.array(rules.goal)
        self.observation_space = gymnasium.spaces.Box(-2, 2, (OBSERVATION,), np.float32)
        self.action_space = rules.moves.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2)
        self.last = np.zeros(2)
        self.steps = 0
        if self.rules.rail:
            self.position[1] = self.goal[1]
        return self.observation, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        before = self.position
        self.steps += 1
        self.position = np.clip(before + self.rules.moves.move(action), -1, 1)
        self.last = self.position - before
        distance = float(np.linalg.norm(self.position - self.goal))
        at_goal = distance <= self.rules.radius
        reward = -distance if self.rules.ends else float(at_goal)
        terminated = at_goal and self.rules.ends
        truncated = self.steps == self.rules.horizon
        return self.observation, reward, terminated, truncated, {"is_success": at_goal}

    @property
    def observation(self) -> np.ndarray:
        """The position of the point and its last move, (4,) float32."""
        return np.concatenate([self.position, self.last]).astype(np.float32)


def expert_dataset(rules: Rules, transitions: int) -> Dataset:
    """Episodes of the optimal policy with at least this many transitions."""
    env, steps = Field(rules), 0
    episodes: list[Episode] = []
    while steps < transitions:
        observation, _ = env.reset(seed=len(episodes))
        rows, over = [], False
        while not over:
            action = rules.moves.toward(env.goal - env.position)
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((observation, action, reward))
            observation, over = following, terminated or truncated
        episodes.append(Episode(*(np.array(column) for column in zip(*rows, strict=True))))
        steps += len(rows)
    return Dataset.of(episodes)
