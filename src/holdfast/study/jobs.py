"""The runs of a grid: each has a command line, and a folder named after everything that decides its result."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from holdfast.agent.settings import flattened
from holdfast.data.validation import did_you_mean
from holdfast.errors import Mistake
from holdfast.registry import PLUGINS, plugins_of
from holdfast.runs.configure import configure, read_plan, suite_for, with_protocol
from holdfast.runs.options import Options
from holdfast.runs.plan import Plan
from holdfast.runs.results import single_results
from holdfast.runs.spec import RunSpec
from holdfast.study.grid import Grid, GridSettings, combinations
from holdfast.versions import VERSION

NAMES: GridSettings = {
    "suite": "toy",
    "learner": "affinity-l",
    "backbone": "dt",
    "preset": None,
    "budget": "quick",
    "protocol.name": None,
}
UNNAMED = (
    "seed",
    *(name for name in NAMES if name != "backbone"),
)  # settings that the readable part of a folder's name leaves out, or has elsewhere
OPTIONS = {field.name for field in fields(Options)}
SET_BY_SWEEP = {"out", "cache", "quiet"}  # settings that a grid cannot have


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    name: str
    words: tuple[str, ...]  # the same run on the command line, after `holdfast`
    spec: RunSpec

    @property
    def path(self) -> Path:
        """Its run folder."""
        return self.spec.out

    @property
    def steps(self) -> int:
        """Gradient steps of all its tasks together."""
        return self.spec.plan.config.fit.steps * len(self.spec.plan.order)


def expand(grid: Grid, parts: Sequence[str], device: str, cache: bool) -> list[Job]:
    """The runs of these parts of a grid, all checked; a run that is in several parts is there once."""
    for name in parts:
        if name not in grid.parts:
            raise Mistake(f"{grid.path} has no part {name!r}; it has {', '.join(grid.parts)}")
    jobs: dict[str, Job] = {}
    for name in parts or grid.parts:
        for block in grid.parts[name]:
            for settings in combinations({**grid.common, **block}):
                own = [key for key in settings if key in block and key not in UNNAMED]
                job = _job(grid, _complete(grid, settings, device), own, cache)
                jobs.setdefault(job.name.rpartition("-")[2], job)
    return list(jobs.values())


def _complete(grid: Grid, settings: GridSettings, device: str) -> GridSettings:
    """Names first, then all other settings, with the threads and the device that a sweep adds."""
    settings = {**{name: settings[name] for name in NAMES if name in settings}, **settings}
    settings.setdefault("threads", 1)  # bits depend on it, so it must not depend on the machine
    if settings.get("device", "auto") == "auto":
        settings["device"] = device
    return settings


def _job(grid: Grid, settings: GridSettings, own: Sequence[str], cache: bool) -> Job:
    try:
        spec = _spec(settings)
    except Mistake as mistake:
        raise Mistake(f"{grid.path}: {mistake}") from None
    digest = address(spec)
    same = sorted(grid.out.glob(f"*-{digest}"))  # made by another grid, under another name
    path = same[0] if same else grid.out / _readable(settings, own, digest)
    shared: dict[str, Any] = {"cache": grid.out / "cache"} if cache else {}
    plugins = [word for plugin in PLUGINS for word in ("--plugin", str(plugin.file))]
    words = ["run", *plugins, *_words({**settings, **shared, "out": path})]
    return Job(path.name, tuple(words), replace(spec, out=path, options=replace(spec.options, **shared)))


def address(spec: RunSpec) -> str:
    """A short hash of everything that decides a run's result, except its data, which the run folder checks."""
    decides = [asdict(spec.plan), spec.device, spec.options.full_matrix, str(spec.options.reference)]
    decides += [spec.options.evaluate_at] if spec.options.evaluate_at else []  # a finished run cannot be played at them
    plan = spec.plan
    plugins = [plugin.sha256 for plugin in plugins_of(plan.suite, plan.learner, plan.backbone)]
    return hashlib.sha256(json.dumps([VERSION, *decides, *plugins]).encode()).hexdigest()[:8]


def _readable(settings: GridSettings, own: Sequence[str], digest: str) -> str:
    """The name of a run folder: the learner, the settings of its own part of the grid, the seed and the hash."""
    values = [f"{name.rpartition('.')[2]}-{_plain(settings[name])}" for name in own]
    words = [str(settings.get("learner", NAMES["learner"])), *values, f"s{settings.get('seed', 0)}", digest]
    return re.sub(r"[^A-Za-z0-9.+-]", "-", "-".join(words))


def _plain(value: Any) -> str:
    return "+".join(str(word)[:12] for word in value) if isinstance(value, list) else str(value)


def _words(settings: GridSettings) -> list[str]:
    """Settings as they are written on the command line."""
    words: list[str] = []
    for name, value in settings.items():
        if isinstance(value, bool):
            path, dot, last = name.rpartition(".")
            words.append(f"--{path}{dot}{'' if value else 'no-'}{last}")
        elif isinstance(value, list):
            words += [f"--{name}", *map(str, value)]
        else:
            words += [f"--{name}", str(value)]
    return words


def _spec(settings: GridSettings) -> RunSpec:
    """The run with these settings, still without its folder; raises one sentence about what is wrong with them."""
    usual = _usual_plan(settings)
    _check_names(settings, usual)
    _check_device(settings["device"])
    own = {name: value for name, value in settings.items() if name not in OPTIONS and name != "device"}
    options = Options(**{name: value for name, value in settings.items() if name in OPTIONS})
    plan = _with_settings(usual, own)
    if not plan.order:
        raise Mistake("order = [[]] has no task: name some, or leave it out")
    suite = suite_for(plan)
    suite.check(plan.protocol)
    if options.reference:
        single_results(options.reference, suite, plan.protocol)
    return RunSpec(plan, options, Path(), settings["device"])


def _usual_plan(settings: GridSettings) -> Plan:
    """The plan that follows from the names among these settings."""
    chosen: list[Any] = [settings.get(name, usual) for name, usual in NAMES.items()]
    for name, value in zip(NAMES, chosen, strict=True):
        if not isinstance(value, str | None):
            raise Mistake(f"{name} must be a name, not {value!r}")
    suite, learner, backbone, preset, budget, protocol = chosen
    return with_protocol(configure(suite, learner, preset, budget, backbone=backbone), protocol)


def _with_settings(plan: Plan, settings: GridSettings) -> Plan:
    """The plan with these settings, all at once: some are only allowed together."""
    record = asdict(plan)
    for name, value in settings.items():
        *path, last = name.split(".")
        inner = record if name.partition(".")[0] in record else record["config"]
        for part in path:
            inner = inner[part]
        inner[last] = value
    return read_plan(record)


def _check_names(settings: GridSettings, plan: Plan) -> None:
    """Raises if there is no setting of a name, or if a setting that is a list has another value."""
    record = asdict(plan)
    usual = dict(flattened({**record.pop("config"), **record}))
    known: Iterable[str] = {*usual, *OPTIONS, "device"} - SET_BY_SWEEP
    for name, value in settings.items():
        if name not in known:
            raise Mistake(f"the learner {plan.learner} has no setting {name!r}{did_you_mean(name, known)}")
        if isinstance(usual.get(name), tuple) and not isinstance(value, list):
            raise Mistake(f'{name} is a list itself: write a list of lists, as in {name} = [["{value}"]]')


def _check_device(device: Any) -> None:
    """Raises if there is no such device anywhere; whether it is there is checked where the run is carried out."""
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", str(device)):
        raise Mistake(f"there is no device {device!r}; there are auto, cpu, cuda")
