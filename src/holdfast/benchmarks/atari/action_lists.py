"""The returns of fixed action lists, recorded and random, under a stochastic protocol of Atari-5.

python -m holdfast.benchmarks.atari.action_lists --protocol sticky --out results/atari5/blind-sticky.json
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from holdfast.benchmarks.atari.games import Game, games
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.errors import Mistake
from holdfast.tasks.environments import Protocol


@dataclass(frozen=True)
class ActionListsConfig:
    """The protocol, the recording and the output file."""

    out: Path
    """JSON file to write every episode's return to, by game."""
    protocol: Literal["paper", "noop", "sticky"] = "sticky"
    """Name of the protocol: how games start, and whether actions stick."""
    data: Literal["expert-10", "expert-100"] = "expert-100"
    """Recording to take actions from; each seed gets its next episode."""
    episodes: int = 20
    """Number of episodes of each kind and game, from the first seed of an evaluation on."""


def recorded(game: Game, count: int) -> np.ndarray:
    """The recorded actions (count, steps) of a game's episodes, repeated from the first, padded with no-ops."""
    traces = islice(cycle(SOURCES[game.data].recording(game.rom).traces), count)
    lists = [trace.actions[trace.noops :] for trace in traces]
    longest = max(map(len, lists))
    return np.stack([np.pad(actions, (0, longest - len(actions))) for actions in lists])


def random(game: Game, count: int) -> np.ndarray:
    """Uniformly random actions (count, steps) for the longest possible game."""
    return np.random.default_rng(0).integers(game.actions, size=(count, game.horizon))


def returns(game: Game, protocol: Protocol, lists: np.ndarray) -> list[float]:
    """The return of each list with its seed; observations are ignored."""
    arcade = game.environments(protocol)
    earned: list[float] = []
    for seeds in protocol.rounds:
        arcade.reset(seeds)
        total = np.zeros(len(seeds))
        for actions in lists[len(earned) : len(earned) + len(seeds)].T:
            total += arcade.step(actions).rewards
            if arcade.ended.all():
                break
        earned += total.tolist()
    arcade.close()
    return earned


def main() -> None:
    """Plays all lists and writes their returns; a user's mistake is one sentence and exit code 2."""
    try:
        play_action_lists(tyro.cli(ActionListsConfig, description=__doc__))
    except Mistake as mistake:
        sys.stderr.write(f"holdfast: {mistake}\n")
        raise SystemExit(2) from None


def play_action_lists(config: ActionListsConfig) -> None:
    """Plays all lists and writes their returns."""
    protocol = Protocol(config.protocol, config.episodes)
    with suppress(OSError):
        config.out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(config.out.parent, os.W_OK) or config.out.is_dir():  # checked before the long part
        raise Mistake(f"{config.out} cannot be written: choose a file in a writable folder")
    by_kind: dict[str, dict[str, list[float]]] = {"recorded": {}, "random": {}}
    for task, game in games(config.data, None).items():
        for kind, lists in (("recorded", recorded), ("random", random)):
            by_kind[kind][task] = returns(game, protocol, lists(game, config.episodes))
            sys.stderr.write(f"{task:<12}{kind:<10}{np.mean(by_kind[kind][task]):8.1f}\n")
    config.out.write_text(json.dumps({"protocol": asdict(protocol), "data": config.data, **by_kind}) + "\n")


if __name__ == "__main__":
    main()
