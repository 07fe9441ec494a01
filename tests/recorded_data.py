"""Small recordings of environments, and the same data written in every format that can be read."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pyarrow
import pyarrow.parquet
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from holdfast.data.raw_episodes import arrays

STEPS = 12


class Spaces(gymnasium.Env):
    """An environment of any spaces: random observations by seed, and the number of steps as reward."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, steps: int = STEPS) -> None:
        self.observation_space, self.action_space, self.steps = observation_space, action_space, steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.taken = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.taken += 1
        return self.observation_space.sample(), float(self.taken), self.taken == self.steps, False, {}


DICT = spaces.Dict(
    {
        "speed": spaces.Box(-np.inf, np.inf, (2,), np.float32),
        "arm": spaces.Dict({"joint": spaces.Box(-1, 1, (3,), np.float32), "grip": spaces.Discrete(3)}),
    }
)
BOX = spaces.Box(-5, 5, (4,), np.float32)
ENVIRONMENTS: dict[str, Callable[[], gymnasium.Env]] = {
    "cartpole": lambda: gymnasium.make("CartPole-v1", max_episode_steps=STEPS),
    "pendulum": lambda: gymnasium.make("Pendulum-v1", max_episode_steps=STEPS),
    "dict": lambda: Spaces(DICT, spaces.Box(np.array([-3.0, 0.0]), np.array([5.0, 0.5]), dtype=np.float64)),
    "tuple": lambda: Spaces(spaces.Tuple((BOX, spaces.Discrete(4))), spaces.Discrete(3)),
    "multi": lambda: Spaces(BOX, spaces.MultiDiscrete([3, 4, 2])),
    "taxi": lambda: Spaces(spaces.Discrete(50), spaces.Discrete(6)),
    "minigrid": lambda: Spaces(spaces.Box(0, 10, (7, 7, 3), np.uint8), spaces.Discrete(4), steps=4),
    "images": lambda: Spaces(spaces.Box(0, 255, (40, 36, 3), np.uint8), spaces.Discrete(4), steps=4),
}


@dataclass(frozen=True)
class Played:
    """One episode as Minari keeps it: one observation more than actions."""

    observations: Any
    actions: np.ndarray
    rewards: np.ndarray
    seed: int


def stack(rows: list[Any]) -> Any:
    """Rows of any structure as arrays of rows in the same structure."""
    if isinstance(rows[0], dict):
        return {key: stack([row[key] for row in rows]) for key in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(stack(list(parts)) for parts in zip(*rows, strict=True))
    return np.stack([np.asarray(row) for row in rows])


def row(observations: Any, step: int) -> Any:
    """The raw observation of one step, in whatever structure."""
    if isinstance(observations, dict):
        return {key: row(part, step) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(row(part, step) for part in observations)
    return observations[step]


def play(make: Callable[[], gymnasium.Env], episodes: int = 3) -> list[Played]:
    """Episodes of random actions."""
    env, played = make(), []
    env.action_space.seed(0)
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        seen, actions, rewards, over = [observation], [], [], False
        while not over:
            actions.append(env.action_space.sample())
            observation, reward, ended, cut, _ = env.step(actions[-1])
            seen.append(observation)
            rewards.append(reward)
            over = ended or cut
        played.append(Played(stack(seen), np.stack(actions), np.array(rewards, np.float64), seed))
    env.close()
    return played


def as_dicts(played: list[Played]) -> list[dict[str, Any]]:
    """Episodes from Python."""
    return [vars(episode) for episode in played]


def flat(played: list[Played]) -> dict[str, np.ndarray]:
    """Arrays of transitions by name, as in D4RL."""
    named: dict[str, list[np.ndarray]] = {}
    for episode in played:
        steps = len(episode.rewards)
        for path, array in arrays(episode.observations):
            named.setdefault("/".join(["observations", *path]), []).append(array[:steps])
        named.setdefault("actions", []).append(episode.actions)
        named.setdefault("rewards", []).append(episode.rewards)
        named.setdefault("terminals", []).append(np.zeros(steps, bool))
        named.setdefault("timeouts", []).append(np.arange(steps) == steps - 1)
        named.setdefault("next_observations", []).append(np.zeros(steps))
    return {name: np.concatenate(parts) for name, parts in named.items()}


def write_npz(played: list[Played], path: Path) -> Path:
    """A compressed NumPy file."""
    named: dict[str, Any] = flat(played)
    np.savez_compressed(path / "data.npz", **named)
    return path / "data.npz"


def write_d4rl(played: list[Played], path: Path) -> Path:
    """An HDF5 file in D4RL's layout."""
    with h5py.File(path / "data.hdf5", "w") as file:
        for name, array in flat(played).items():
            file.create_dataset(name, data=array, compression="gzip")
        file["infos/qpos"] = np.zeros(3)
    return path / "data.hdf5"


def write_minari(played: list[Played], path: Path, env: gymnasium.Env, data_format: str, **settings: Any) -> Path:
    """A Minari dataset in the folder that the environment variable names, which must be `path`."""
    buffers = []
    for number, episode in enumerate(played):
        steps = len(episode.rewards)
        ends = (np.zeros(steps, bool), np.arange(steps) == steps - 1)
        buffers.append(
            EpisodeBuffer(number, episode.seed, None, episode.observations, episode.actions, episode.rewards, *ends)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            f"own/{data_format}-v0",
            buffers,
            env=env.spec,
            observation_space=env.observation_space,
            action_space=env.action_space,
            data_format=data_format,
            **settings,
        )
    return path / "own" / f"{data_format}-v0"


def write_lerobot(played: list[Played], path: Path, version: int = 3) -> Path:
    """A LeRobot dataset: version 2 has a file for each episode, version 3 has several episodes in a file."""
    folder = path / f"lerobot{version}"
    tables, index = [], 0
    for number, episode in enumerate(played):
        steps = len(episode.rewards)
        columns: dict[str, Any] = {
            "observation.state": _lists(episode.observations[:steps]),
            "action": _lists(episode.actions),
            "next.reward": pyarrow.array(episode.rewards.astype(np.float32)),
            "timestamp": pyarrow.array(np.arange(steps, dtype=np.float32)),
            "frame_index": pyarrow.array(np.arange(steps)),
            "episode_index": pyarrow.array(np.full(steps, number)),
            "index": pyarrow.array(np.arange(index, index + steps)),
        }
        tables.append(pyarrow.table(columns))
        index += steps
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    if version == 2:
        for number, table in enumerate(tables):
            pyarrow.parquet.write_table(table, chunk / f"episode_{number:06d}.parquet")
    else:
        pyarrow.parquet.write_table(pyarrow.concat_tables(tables), chunk / "file-000.parquet")
    features = {name: {"dtype": "float32", "shape": [1]} for name in tables[0].column_names}
    features["observation.images.top"] = {"dtype": "video", "shape": [3, 96, 96]}
    (folder / "meta").mkdir()
    about = {"codebase_version": f"v{version}.0", "features": features, "total_frames": index}
    (folder / "meta" / "info.json").write_text(json.dumps(about))
    return folder


def _lists(array: np.ndarray) -> pyarrow.Array:
    return pyarrow.array(array) if array.ndim == 1 else pyarrow.array(array.tolist(), _list_type(array))


def _list_type(array: np.ndarray) -> pyarrow.DataType:
    return pyarrow.list_(pyarrow.from_numpy_dtype(array.dtype), array.shape[1])
