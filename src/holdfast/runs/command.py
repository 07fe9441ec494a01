"""The words after `holdfast run`, and the run that they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.learners import Plan, configure, learner_for, suite_for
from holdfast.learners.team import joined
from holdfast.runs.options import Options
from holdfast.runs.recorder import Screen
from holdfast.runs.run import run

FLAGS = (tyro.conf.AvoidSubcommands,)


@dataclass(frozen=True)
class Named:
    """A protocol by name."""

    name: str | None = None


@dataclass(frozen=True)
class Choice:
    """The names that settings follow from."""

    protocol: Named

    suite: str = "toy"
    learner: str = "affinity-l"
    preset: str = "paper"
    budget: str = "quick"


@dataclass(frozen=True)
class RunCommand:
    """Learn a suite's tasks one after another, evaluate and certify after each. The same command again resumes."""

    plan: Annotated[Plan, tyro.conf.arg(name="")]
    options: Annotated[Options, tyro.conf.arg(name="")]
    out: Path = Path("runs/demo")
    """The run folder."""
    device: str = "auto"
    """auto, cpu or cuda."""


def default_command(words: Sequence[str]) -> RunCommand:
    """What the names among these words stand for, before other settings."""
    known = [word for word in words if word not in ("-h", "--help")]
    choice, _ = tyro.cli(Choice, args=known, default=Choice(Named()), return_unknown_args=True, add_help=False)
    plan = configure(choice.suite, choice.learner, choice.preset, choice.budget, protocol=choice.protocol.name)
    return RunCommand(plan, Options())


def parse(words: Sequence[str], default: RunCommand) -> RunCommand:
    """The command that these words say; where they say nothing, prints why and raises SystemExit."""
    return tyro.cli(RunCommand, prog="holdfast run", args=words, default=default, config=FLAGS)


def carry_out(command: RunCommand) -> bool:
    """Makes what data is missing, then learns; returns whether this is the process that keeps the record."""
    with joined(command.device) as team:
        with team.one_before(), Screen() as screen:
            suite = suite_for(command.plan, partial(show_data, screen))
            for task in suite.tasks:
                task.dataset  # noqa: B018  made here, where it can be watched, if it is not there yet
        run(suite, learner_for(command.plan, suite, command.device), command.out, command.options)
        return team.leads


def show_data(screen: Screen, task: str, done: int, wanted: int) -> None:
    """Moves the bar of a task whose data is being made."""
    screen.show(f"data of {task}", done, wanted)
