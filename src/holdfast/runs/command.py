"""The words after `holdfast run`, and the run that they stand for."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from holdfast.data.files import read_json
from holdfast.data.validation import check_paths
from holdfast.errors import Mistake
from holdfast.learners.plan import Plan
from holdfast.runs.configure import apply, configure, learner_for, read_plan, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Flag, Options
from holdfast.runs.progress import Screen
from holdfast.runs.run import run
from holdfast.runs.settings import flattened
from holdfast.training.ranks import process_group

FLAGS = (tyro.conf.AvoidSubcommands, tyro.conf.DisallowNone)


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

    def plan(self) -> Plan:
        """The plan that these names stand for."""
        return configure(self.suite, self.learner, self.preset, self.budget, protocol=self.protocol.name)


@dataclass(frozen=True)
class Recorded:
    """Where settings are taken from."""

    config: Path | None = None


@dataclass(frozen=True)
class RunCommand:
    """Learn a suite's tasks one after another, evaluate and certify after each. The same command again resumes."""

    plan: Annotated[Plan, tyro.conf.arg(name="")]
    options: Annotated[Options, tyro.conf.arg(name="")]
    out: Path = Path("runs/demo")
    """The run folder."""
    config: Path | None = None
    """Run folder, or its config.json, to take all settings from; flags override them, and --out is that folder."""
    dry: Flag = False
    """Print what would be done and about how long training takes; write nothing."""
    device: str = "auto"
    """Device to train on: auto, cpu or cuda."""


def default_command(words: Sequence[str]) -> RunCommand:
    """What the names among these words stand for, before other settings."""
    known = [word for word in words if word not in ("-h", "--help")]
    recorded, rest = tyro.cli(Recorded, args=known, return_unknown_args=True, add_help=False)
    plan = read_plan(read_config(recorded.config)) if recorded.config else None
    usual = names_of(plan) if plan else Choice(Named())
    choice, _ = tyro.cli(Choice, args=rest, default=usual, return_unknown_args=True, add_help=False)
    if plan is None or recorded.config is None:
        return RunCommand(choice.plan(), Options())
    if choice != usual:
        plan = renamed(plan, usual, choice)
    return RunCommand(plan, Options(), folder_of(recorded.config) or RunCommand.out, recorded.config)


def read_config(source: Path) -> dict[str, Any]:
    """The settings that a run folder, or a copy of its config.json, records."""
    if os.path.isdir(source):
        return RunFolder(source).record["config"]
    record = read_json(source)
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise Mistake(f"{source} is not the config.json of a run: give --config a run folder")
    return record["config"]


def folder_of(source: Path) -> Path | None:
    """The run folder that settings were taken from, if they were taken from one."""
    if os.path.isdir(source):
        return source
    return source.parent if source.name == "config.json" else None


def names_of(plan: Plan) -> Choice:
    """The names that a plan's settings follow from."""
    return Choice(Named(plan.protocol.name), plan.suite, plan.learner, plan.preset, plan.budget)


def renamed(plan: Plan, before: Choice, now: Choice) -> Plan:
    """The plan of other names, with those of this plan's settings that did not follow from its own names."""
    usual, new = dict(flattened(asdict(before.plan()))), now.plan()
    own = {name: value for name, value in flattened(asdict(plan)) if usual.get(name) != value}
    if lost := sorted(own.keys() - dict(flattened(asdict(new)))):
        name = lost[0].removeprefix("config.")
        raise Mistake(f"the learner {now.learner} has no setting {name}, which --config sets: leave --config out")
    return apply(new, own)


def parse(words: Sequence[str], default: RunCommand) -> RunCommand:
    """The command that these words say; where they say nothing, prints why and raises SystemExit."""
    command = tyro.cli(RunCommand, prog="holdfast run", args=words, default=default, config=FLAGS)
    check_paths(command)
    return command


def carry_out(command: RunCommand) -> bool:
    """Makes what data is missing, then learns; returns whether this is the process that keeps the record."""
    with process_group(command.device) as ranks:
        with ranks.first_rank_first(), Screen(command.options.quiet) as screen:
            suite = suite_for(command.plan, partial(show_data, screen))
            learner = learner_for(command.plan, suite, command.device)  # what cannot be learned costs no data
            suite.load()  # made here, where it can be watched, if it is not there yet
        run(suite, learner, command.out, command.options)
        return ranks.is_first


def show_data(screen: Screen, task: str, done: int, wanted: int) -> None:
    """Moves the bar of a task whose data is being made."""
    screen.show(f"data of {task}", done, wanted)
