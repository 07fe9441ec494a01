"""A grid: the runs that a TOML file stands for, each a command line and a folder named by what decides its result."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.data.files import read_bytes
from holdfast.errors import Mistake
from holdfast.runs.command import RunCommand, parse
from holdfast.runs.configure import configure, suite_for
from holdfast.runs.options import Options
from holdfast.runs.results import single_results
from holdfast.runs.settings import flattened
from holdfast.versions import VERSION

Settings = dict[str, Any]
ALL, OUT = "all", "out"
NAMES: Settings = {"suite": "toy", "learner": "affinity-l", "preset": "paper", "budget": "quick", "protocol.name": None}
UNSAID = ("seed", *NAMES)  # in the readable part of a folder's name these stand apart, or not at all
SWEEPS_OWN = ("out", "cache", "quiet")
RENAMED = {"single": "reference"}  # what older grids say


@dataclass(frozen=True)
class Grid:
    """A grid file: parts by name, each a list of products."""

    path: Path
    out: Path
    common: Settings
    parts: Mapping[str, list[Settings]]


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    name: str
    words: tuple[str, ...]  # after `holdfast`
    command: RunCommand

    @property
    def path(self) -> Path:
        """Its run folder."""
        return self.command.out

    @property
    def steps(self) -> int:
        """Gradient steps in all."""
        return self.command.plan.config.fit.steps * len(self.command.plan.order)


def read_grid(path: Path, out: Path | None = None, budget: str | None = None) -> Grid:
    """The grid in a file, with its own budget or another; its runs go to `out`, or where the file says, or to runs/."""
    if not path.exists():
        raise Mistake(f"there is no grid {path}")
    try:
        record = tomllib.loads(read_bytes(path).decode())
    except (ValueError, RecursionError) as problem:
        raise Mistake(f"{path} is not TOML: {problem}") from None
    place, common = record.pop(OUT, f"runs/{path.stem}"), record.pop(ALL, {})
    if not isinstance(place, str):
        raise Mistake(f"{path}: {OUT} must be the name of a folder, not {place!r}")
    if not isinstance(common, dict):
        raise Mistake(f"{path}: {ALL!r} must be what all runs share, written [{ALL}] with settings under it")
    for name, part in record.items():
        if not (isinstance(part, list) and part and all(isinstance(block, dict) for block in part)):
            raise Mistake(f"{path}: {name!r} must be a part, written [[{name}]] with settings under it")
    if not record:
        raise Mistake(f"{path} has no runs: write [[main]] and settings under it")
    instead = {"budget": budget} if budget else {}
    parts = {name: [{**_settings(path, block), **instead} for block in part] for name, part in record.items()}
    return Grid(path, out or Path(place), _settings(path, common), parts)


def _settings(path: Path, table: Mapping[str, Any]) -> Settings:
    try:
        settings = {RENAMED.get(name, name): value for name, value in flattened(table)}
    except RecursionError:
        raise Mistake(f"{path} is nested too deeply: no setting has so long a name") from None
    for name, value in settings.items():
        if value == []:
            raise Mistake(f"{path}: {name} = [] stands for no run: write a value, or leave it out")
    return settings


def expand(grid: Grid, parts: Sequence[str], device: str, cache: bool) -> list[Job]:
    """The grid's runs, all checked; one that several parts ask for is there once."""
    for name in parts:
        if name not in grid.parts:
            raise Mistake(f"{grid.path} has no part {name!r}; it has {', '.join(grid.parts)}")
    jobs: dict[str, Job] = {}
    for name in parts or grid.parts:
        for block in grid.parts[name]:
            for settings in combinations({**grid.common, **block}):
                said = [key for key in settings if key in block and key not in UNSAID]
                job = _job(grid, settings, said, device, cache)
                jobs.setdefault(job.name.rpartition("-")[2], job)
    return list(jobs.values())


def combinations(block: Settings) -> Iterator[Settings]:
    """The product of all lists; seeds change fastest, so that runs started together have few fits in common."""
    names = sorted(block, key=lambda name: name == "seed")
    lists = [block[name] if isinstance(block[name], list) else [block[name]] for name in names]
    for values in product(*lists):
        chosen = dict(zip(names, values, strict=True))
        yield {name: chosen[name] for name in block}


def _job(grid: Grid, settings: Settings, said: Sequence[str], device: str, cache: bool) -> Job:
    try:
        command = _checked(settings)
        _check_device(device if command.device == "auto" else command.device)
    except Mistake as mistake:
        raise Mistake(f"{grid.path}: {mistake}") from None
    settings = {**{name: settings[name] for name in NAMES if name in settings}, **settings}
    if command.plan.threads is None:  # bits depend on it, and so it must not depend on the machine
        settings["threads"], command = 1, replace(command, plan=replace(command.plan, threads=1))
    if command.device == "auto":
        settings["device"], command = device, replace(command, device=device)
    digest = address(command)
    name = _readable(settings, said, digest)
    found = sorted(grid.out.glob(f"*-{digest}"))  # another grid may have called it otherwise
    path = found[0] if found else grid.out / name
    last = {"cache": str(grid.out / "memo")} if cache else {}
    words = ["run", *_words(settings), *_words({**last, "out": str(path)})]
    options = replace(command.options, cache=grid.out / "memo" if cache else None)
    return Job(path.name, tuple(words), replace(command, out=path, options=options))


def address(command: RunCommand) -> str:
    """A short hash of everything that decides a run's result, but for its data, which the run folder checks."""
    decides = [asdict(command.plan), command.device, command.options.full_matrix, str(command.options.reference)]
    return hashlib.sha256(json.dumps([VERSION, *decides]).encode()).hexdigest()[:8]


def _readable(settings: Settings, said: Sequence[str], digest: str) -> str:
    values = [f"{name.rpartition('.')[2]}-{_plain(settings[name])}" for name in said]
    words = [str(settings.get("learner", "affinity-l")), *values, f"s{settings.get('seed', 0)}", digest]
    return re.sub(r"[^A-Za-z0-9.+-]", "-", "-".join(words))


def _plain(value: Any) -> str:
    return "+".join(str(word)[:12] for word in value) if isinstance(value, list) else str(value)


def _words(settings: Settings) -> list[str]:
    """Settings as they are written on the command line."""
    words: list[str] = []
    for name, value in settings.items():
        if isinstance(value, bool):
            path, dot, last = name.rpartition(".")
            words.append(f"--{path}{dot}{'' if value else 'no-'}{last}")
        else:
            words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return words


def _checked(settings: Settings) -> RunCommand:
    """The command of these settings; raises one sentence about what is wrong with them."""
    chosen: list[Any] = [settings.get(name, usual) for name, usual in NAMES.items()]
    for name, value in zip(NAMES, chosen, strict=True):
        if not isinstance(value, str | None):
            raise Mistake(f"{name} must be a name, not {value!r}")
    suite, learner, preset, budget, protocol = chosen
    default = RunCommand(configure(suite, learner, preset, budget, protocol=protocol), Options())
    _check_settings(settings, default)
    command = _parsed(settings, default)
    if command is None:
        wrong = next(name for name in settings if _parsed({name: settings[name]}, default) is None)
        raise Mistake(f"{wrong} cannot be {_plain(settings[wrong])!r}")
    if not command.plan.order:
        raise Mistake("order = [[]] has no task: name some, or leave it out")
    suite = suite_for(command.plan)
    suite.check(command.plan.protocol)
    if command.options.reference:
        single_results(command.options.reference, suite, command.plan.protocol)
    return command


def _check_settings(settings: Settings, default: RunCommand) -> None:
    """Raises if there is no setting of a name, or if it wants a list and has no list of them."""
    plan = asdict(default.plan)
    usual = dict(flattened({**plan, **plan["config"], **asdict(default.options), "device": default.device}))
    known = usual.keys() - {*SWEEPS_OWN}
    for name, value in settings.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise Mistake(f"the learner {default.plan.learner} has no setting {name!r}{hint}")
        if isinstance(usual[name], tuple) and not isinstance(value, list):
            raise Mistake(f'{name} is a list itself: write a list of lists, as in {name} = [["{value}"]]')


def _check_device(device: str) -> None:
    """Raises if there is no such device anywhere; whether there is one here matters where the run is carried out."""
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", device):
        raise Mistake(f"there is no device {device!r}; there are auto, cpu, cuda")


def _parsed(settings: Settings, default: RunCommand) -> RunCommand | None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # we say it in one sentence
        try:
            return parse(_words(settings), default)
        except SystemExit:
            return None
