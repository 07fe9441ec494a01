"""The command `holdfast run`: learns the tasks of a suite one after another."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from holdfast.agent.configure import apply
from holdfast.agent.settings import flattened
from holdfast.cli.output import print_lines
from holdfast.cli.parsing import parse_words
from holdfast.cli.show import show_run
from holdfast.data.files import read_json
from holdfast.errors import Mistake
from holdfast.registry import check_plugins
from holdfast.runs.config import checked_config
from holdfast.runs.configure import configure, read_plan, with_protocol
from holdfast.runs.folder import RunFolder
from holdfast.runs.forecast import forecast
from holdfast.runs.options import Flag, Options
from holdfast.runs.plan import Plan
from holdfast.runs.spec import RunSpec, carry_out


@dataclass(frozen=True)
class ProtocolName:
    """A protocol by name."""

    name: str | None = None


@dataclass(frozen=True)
class Names:
    """The names that decide which settings there are, and their defaults."""

    protocol: ProtocolName
    suite: str = "toy"
    learner: str = "affinity-l"
    backbone: str = "dt"
    preset: str | None = None
    budget: str = "quick"

    @classmethod
    def of(cls, plan: Plan) -> "Names":
        """The names in a plan."""
        return cls(ProtocolName(plan.protocol.name), plan.suite, plan.learner, plan.backbone, plan.preset, plan.budget)

    def plan(self) -> Plan:
        """The plan that these names stand for."""
        plan = configure(self.suite, self.learner, self.preset, self.budget, backbone=self.backbone)
        return with_protocol(plan, self.protocol.name)


@dataclass(frozen=True)
class ConfigFlag:
    """The run whose settings are used."""

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

    @property
    def spec(self) -> RunSpec:
        """The run that is asked for."""
        return RunSpec(self.plan, self.options, self.out, self.device)


def run_command(words: Sequence[str]) -> None:
    """Carries out a run, or only tells what it would do."""
    command = parse_run(words)
    if command.dry:
        print_lines(forecast(command.spec))
    else:
        run_and_show(command.spec)


def run_and_show(spec: RunSpec) -> None:
    """Carries out a run and prints its results."""
    if carry_out(spec) and not spec.options.quiet:
        show_run(spec.out, recomputed=True)


def parse_run(words: Sequence[str]) -> RunCommand:
    """The command that these words say; if they are wrong or ask for help, prints a text and raises SystemExit."""
    return parse_words(RunCommand, "run", words, default_command(words))


def default_command(words: Sequence[str]) -> RunCommand:
    """The command before any setting is changed: it follows from the names, and from --config, among these words."""
    known = [word for word in words if word not in ("-h", "--help")]
    source, rest = tyro.cli(ConfigFlag, args=known, return_unknown_args=True, add_help=False)
    plan = read_plan(_read_config(source.config)) if source.config else None
    usual = Names.of(plan) if plan else Names(ProtocolName())
    names, _ = tyro.cli(Names, args=rest, default=usual, return_unknown_args=True, add_help=False)
    if plan is None or source.config is None:
        return RunCommand(names.plan(), Options())
    if names != usual:
        plan = _renamed(plan, usual, names)
    return RunCommand(plan, Options(), _folder_of(source.config) or RunCommand.out, source.config)


def _read_config(source: Path) -> dict[str, Any]:
    """The settings that a run folder, or a copy of its config.json, records."""
    if os.path.isdir(source):
        record = RunFolder(source).record
    else:
        record = read_json(source)
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
            raise Mistake(f"{source} is not the config.json of a run: give --config a run folder")
        record = checked_config(record, source)
    check_plugins(record["plugins"])
    return record["config"]


def _folder_of(source: Path) -> Path | None:
    """The run folder that settings were taken from, if they were taken from one."""
    if os.path.isdir(source):
        return source
    return source.parent if source.name == "config.json" else None


def _renamed(plan: Plan, before: Names, after: Names) -> Plan:
    """The plan of other names, with the settings of this plan that differ from what its own names stand for."""
    usual = dict(flattened(asdict(before.plan())))
    renamed = after.plan()
    own = {name: value for name, value in flattened(asdict(plan)) if usual.get(name) != value}
    if lost := sorted(own.keys() - dict(flattened(asdict(renamed)))):
        name = lost[0].removeprefix("config.")
        raise Mistake(f"the learner {after.learner} has no setting {name}, which --config sets: leave out --config")
    return apply(renamed, own)
