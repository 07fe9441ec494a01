"""The command `holdfast expert atari/GAME`: trains an expert."""

from collections.abc import Sequence

import tyro

from holdfast.errors import Mistake
from holdfast.tasks.experts import Experts, Say


def train_atari_expert(name: str, words: Sequence[str], say: Say) -> None:
    """Trains a network to play a game."""
    from holdfast.benchmarks.atari import expert  # imports torch

    if any(word.partition("=")[0] == "--game" for word in words):
        raise Mistake(f"atari/{name} already names the game: leave --game out")
    arguments = ["--game", name, *words]
    config = tyro.cli(
        expert.AtariExpertConfig, prog=f"holdfast expert atari/{name}", args=arguments, config=(tyro.conf.DisallowNone,)
    )
    expert.make_atari_expert(config, say)


EXPERTS = Experts("atari", ("GAME for any game of ale-py",), train_atari_expert)
