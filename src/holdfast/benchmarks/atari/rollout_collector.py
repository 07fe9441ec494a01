"""Collects PPO rollouts from two vectors of emulators, which are stepped in turn."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from holdfast.benchmarks.atari.actor import ActionSampler
from holdfast.benchmarks.atari.episode_returns import EpisodeReturns
from holdfast.benchmarks.atari.ppo import VECTORS, Ppo, Rollout
from holdfast.benchmarks.atari.traces import Origin


class RolloutCollector:
    """Fills a rollout with the steps of all emulators."""

    def __init__(self, game: str, sampler: ActionSampler, config: Ppo, seed: int) -> None:
        self.vectors = [_vector(game, config.envs) for _ in range(VECTORS)]
        self.rollout = Rollout(config.steps, config.envs, sampler.generator.device)
        self.episode_returns = EpisodeReturns(VECTORS, config.envs)
        self._limits = horizons(config) * Origin.skip  # in frames, as the emulators count
        self._clocks = np.zeros((VECTORS, config.envs))
        self._sampler = sampler
        for i, vector in enumerate(self.vectors):
            frames, _ = vector.reset(seed=seed + 1000 * i)
            self._send(i, frames, slot=-1)

    def fill(self) -> None:
        """Fills the rollout and starts the next step, so that the emulators work while the GPU trains."""
        self.rollout.wrap()
        for t in range(len(self.rollout.rewards)):
            for i in range(VECTORS):
                self._send(i, self._receive(i, t), slot=t + 1)

    def _receive(self, vector: int, slot: int) -> np.ndarray:
        """Stores the results of the last actions, cuts games at their limit, and returns the frames to act on."""
        frames, rewards, ends, _, info = self.vectors[vector].recv()
        clocks = info["episode_frame_number"]
        cut = clocks >= self._limits[vector]
        self.episode_returns.add(
            vector, rewards, clocks < self._clocks[vector], cut
        )  # only a new game sets a clock back
        beyond = np.zeros(len(cut), np.float32)
        if cut.any():
            beyond = self._sampler.decide(frames).values.cpu().numpy() * (cut & ~ends)
            frames, info = self.vectors[vector].reset(options={"reset_mask": cut})
        self._clocks[vector] = info["episode_frame_number"]
        self.rollout.receive(slot, vector, rewards, ends | cut, beyond)
        return frames

    def _send(self, vector: int, frames: np.ndarray, slot: int) -> None:
        decision = self._sampler.decide(frames)
        self.rollout.put(slot, vector, self._sampler.frames, decision)
        self.vectors[vector].send(decision.actions.cpu().numpy())

    def close(self) -> None:
        for vector in self.vectors:
            vector.recv()
            vector.close()


def horizons(config: Ppo) -> np.ndarray:
    """Steps (vectors, envs) after which each emulator cuts its games, spaced geometrically.

    So both starts and late phases occur at any time, and no two emulators keep restarting together.
    """
    spread = np.geomspace(config.horizon, Origin.horizon, VECTORS * config.envs)
    return spread.round().astype(int).reshape(config.envs, VECTORS).T


def _vector(game: str, envs: int) -> Any:
    """Emulators as in recording, except that every lost life counts as an end, and games start after up to 30 no-ops.

    The fire button is not pressed automatically: the network must learn to start a game, since recordings begin there.
    """
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        game,
        envs,
        max_num_frames_per_episode=2 * Origin.horizon * Origin.skip,  # never reached: the collector cuts games
        noop_max=30,
        use_fire_reset=False,
        life_loss_info=True,
        autoreset_mode=AutoresetMode.SAME_STEP,
        num_threads=min(envs, (os.cpu_count() or 1) // VECTORS + 2),
    )
