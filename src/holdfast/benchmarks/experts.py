"""The experts by task, and how `holdfast expert` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tyro

from holdfast.benchmarks.atari import expert as atari
from holdfast.benchmarks.panda import reach, tune
from holdfast.benchmarks.panda.tune import SCRIPTS, Say
from holdfast.errors import Mistake

TASKS = ("panda/reach", *(f"panda/{name}" for name in SCRIPTS), "atari/GAME for any game of ale-py")


def make_expert(task: str, words: Sequence[str], say: Say) -> None:
    """Trains or tunes the expert of a task as the words say, and says how it goes."""
    parse = partial(tyro.cli, prog=f"holdfast expert {task}", config=(tyro.conf.DisallowNone,))
    suite, _, name = task.partition("/")
    if suite == "atari" and name:
        if any(word.partition("=")[0] == "--game" for word in words):
            raise Mistake(f"{task} names the game already: leave --game out")
        atari.run(parse(atari.Config, args=["--game", name, *words]), say)
    elif task == "panda/reach":
        reach.run(parse(reach.Settings, args=words), say)
    elif suite == "panda" and name in SCRIPTS:
        tune.run(name, parse(tune.Settings, args=words), say)
    else:
        raise Mistake(f"there is no expert of {task!r}; there are {', '.join(TASKS)}")
