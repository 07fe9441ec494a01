"""The command `holdfast expert panda/NAME`: trains or tunes an expert of the arm."""

from collections.abc import Sequence
from functools import partial

import tyro

from holdfast.benchmarks.panda import tune
from holdfast.benchmarks.panda.tune import SCRIPTS
from holdfast.errors import Mistake
from holdfast.tasks.experts import Experts, Say


def make_panda_expert(name: str, words: Sequence[str], say: Say) -> None:
    """Trains the network of the reach expert, or tunes the script of another expert."""
    parse = partial(tyro.cli, prog=f"holdfast expert panda/{name}", args=words, config=(tyro.conf.DisallowNone,))
    if name == "reach":
        from holdfast.benchmarks.panda import reach  # imports torch

        reach.train_reach(parse(reach.ReachConfig), say)
    elif name in SCRIPTS:
        tune.tune_script(name, parse(tune.TuneConfig), say)
    else:
        raise Mistake(f"there is no expert of 'panda/{name}'; there are {', '.join(EXPERTS.tasks)}")


EXPERTS = Experts("panda", ("reach", *SCRIPTS), make_panda_expert)
