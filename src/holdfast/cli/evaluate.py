"""The command `holdfast evaluate`: evaluates a trained run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.cli.parsing import parse_words
from holdfast.cli.show import show_run
from holdfast.errors import Mistake
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Flag, Options
from holdfast.runs.run import reopen, run


@dataclass(frozen=True)
class EvaluateCommand:
    """Evaluate what a run has no results of yet (`holdfast run --evaluate none` or `ends`), and print its results."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""
    ends: Flag = False
    """Play only each task right after it was learned, and all tasks at the ends, as `run --evaluate ends` does."""
    re_evaluate: Flag = False
    """Play every episode again, even if there is a result."""
    cache: Path | None = None
    """Folder of finished evaluations that runs share, so that none is done twice."""
    device: str = "auto"
    """Device to evaluate on: auto, cpu or cuda."""
    quiet: Flag = False
    """Print nothing unless something is wrong."""


def evaluate_command(words: Sequence[str]) -> None:
    """Plays the episodes that a trained run still lacks."""
    command = parse_words(EvaluateCommand, "evaluate", words)
    suite, learner = reopen(command.run, command.device)
    if learner.learned[: len(suite.tasks)] != suite.names:
        raise Mistake(f"{command.run} has not learned all of its tasks: {RunFolder(command.run).how_to_go_on()}")
    options = Options(
        evaluate="ends" if command.ends else "every",
        re_evaluate=command.re_evaluate,
        cache=command.cache,
        tensorboard=False,
        quiet=command.quiet,
    )
    run(suite, learner, command.run, options)
    if not command.quiet:
        show_run(command.run, recomputed=True)
