"""From names to settings: the defaults, then the suite's settings for a preset and a budget."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from holdfast.agent.devices import check_device, check_memory
from holdfast.data.validation import did_you_mean, shown
from holdfast.errors import Mistake
from holdfast.learners.dense import DenseConfig
from holdfast.learners.learner import Learner, LearnerConfig, learner_spec
from holdfast.nets.backbone import NetConfig, net_config
from holdfast.registry import LEARNERS, NETS
from holdfast.runs.plan import Plan, completed
from holdfast.subnets.claim import SubnetConfig
from holdfast.tasks.data_reports import Report, silent
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Settings, Suite, SuiteSpec, check_suite, suite_spec

PRESETS = ("paper", "holdfast")
HOLDFAST: Settings = {  # beside the suite's settings of the preset `paper`
    f"{learner}:{setting}": value
    for learner in ("affinity-a", "affinity-l", "affinity-h")
    for setting, value in (("subnets.new", "planned"), ("routing.threshold", "auto"))
}
NO_SETTINGS: Settings = MappingProxyType({})
BUDGETS = ("smoke", "quick", "full", "published")
GENERAL: dict[str, Settings] = {  # budgets of a suite that does not define its own
    "smoke": {"fit.steps": 20, "fit.batch": 16, "protocol.episodes": 4},
    "quick": {},  # the defaults
    "full": {"fit.steps": 20_000, "protocol.episodes": 100},
}
CHOICES = (
    "suite",
    "learner",
    "backbone",
    "preset",
    "budget",
)  # names that decide the settings, and so are not settings themselves


def configure(
    name: str,
    learner: str,
    preset: str = "paper",
    budget: str = "quick",
    seed: int = 0,
    *,
    suite: Suite | None = None,
    backbone: str = "dt",
) -> Plan:
    """The plan that these names stand for; `suite` is needed if it is not registered under its name."""
    spec = suite.spec if suite else suite_spec(name)
    if preset not in PRESETS:
        raise Mistake(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    check_budget(spec, budget)
    plan = Plan(
        default_config(learner, backbone),
        Protocol(),
        suite=name,
        learner=learner,
        backbone=backbone,
        preset=preset,
        budget=budget,
        seed=seed,
        order=spec.order,
        **asdict(spec.default_data),
    )
    fixed = {**suite.fixed, "order": tuple(suite.names)} if suite else {}  # its tasks are those it was built with
    for settings in (preset_settings(spec, preset), {**GENERAL, **spec.budgets}[budget], fixed):
        plan = apply(plan, settings)
    return plan


def preset_settings(spec: SuiteSpec, preset: str) -> Settings:
    """The settings of a preset on a suite; those of `holdfast` are added to those of `paper`."""
    if preset == "paper":
        return spec.presets.get("paper", {})
    return {**spec.presets.get("paper", {}), **HOLDFAST, **spec.presets.get("holdfast", {})}


def check_budget(spec: SuiteSpec, budget: str) -> None:
    """Raises unless a suite has a budget of this name."""
    if budget in spec.former_budgets:
        raise Mistake(
            f"there is no budget {budget!r} any more, since it was not the publication's: "
            f"on {spec.name} the same run is {spec.former_budgets[budget]}"
        )
    if budget not in BUDGETS:
        raise Mistake(f"there is no budget {budget!r}; there are {', '.join(BUDGETS)}")
    if budget == "published" and budget not in spec.budgets:
        raise Mistake(f"nothing is published about {spec.name}: use the budget smoke, quick or full")


def with_protocol(plan: Plan, name: str | None) -> Plan:
    """The plan with the protocol of this name, as the suite describes it; None leaves the plan as it is."""
    if name is None:
        return plan
    return apply(plan, {"protocol.name": name, **suite_spec(plan.suite).protocols.get(name, {})})


def apply(plan: Plan, settings: Settings) -> Plan:
    """The plan with these settings; `ewc:strength` is for one learner, others for all learners that have them."""
    if not isinstance(settings, Mapping):
        raise Mistake(f'settings must be a dict of names and values, as in {{"fit.steps": 500}}, got {shown(settings)}')
    for name, value in settings.items():
        only, _, path = str(name).rpartition(":")
        whole = _path(plan, path)
        if path in CHOICES or not (_has(plan, whole) or _some_learner_has(path)):
            others = [replace(plan, config=default_config(learner, net)) for learner in LEARNERS for net in NETS]
            known = {known for other in others for known in _names(other)}.difference(CHOICES)
            raise Mistake(f"no learner has a setting {name!r}{did_you_mean(path, known)}")
        if only in ("", plan.learner):
            plan = _replaced(plan, whole, value)
    return plan


def _some_learner_has(path: str) -> bool:
    """Whether some learner has the setting of this dotted name."""
    return any(_has(default_config(learner, net), path.split(".")) for learner in LEARNERS for net in NETS)


def default_config(learner: str, backbone: str) -> LearnerConfig:
    """A learner's settings before those of a suite."""
    return _made_config(learner_spec(learner).config, net_config(backbone))


@cache
def _made_config(make: Callable[[NetConfig], LearnerConfig], net: NetConfig) -> LearnerConfig:
    return make(net)


def _names(thing: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings; those of a learner without the `config.` before them."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        if is_dataclass(value):
            yield from _names(value, "" if field.name == "config" else f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def _path(plan: Plan, dotted: str) -> list[str]:
    path = dotted.split(".")
    return path if path[0] in {field.name for field in fields(plan)} else ["config", *path]


def _has(thing: Any, path: list[str]) -> bool:
    found = is_dataclass(thing) and path[0] in {field.name for field in fields(thing)}
    return found and (len(path) == 1 or _has(getattr(thing, path[0]), path[1:]))


def _replaced(thing: Any, path: list[str], value: Any) -> Any:
    """A copy of a frozen object with one nested field set to a value; unchanged if it has no such field."""
    if not is_dataclass(thing) or path[0] not in {field.name for field in fields(thing)}:
        return thing
    inner = value if len(path) == 1 else _replaced(getattr(thing, path[0]), path[1:], value)
    return replace(thing, **{path[0]: inner})  # type: ignore[type-var]


def learner_for(plan: Plan, suite: Suite, device: str = "auto") -> Learner:
    """A new learner for a suite, with the data that the plan names."""
    check_suite(suite)
    if not plan.order:
        raise Mistake("the order names no task: name some, or leave it out")
    suite = suite.with_data(plan.choice)
    suite.check(plan.protocol)
    for task in plan.targets:
        suite.task(task)  # raises if there is none
    device = check_device(device)
    check_memory(plan.config, suite.interface, device)
    made = learner_spec(plan.learner).learner(planned(plan.config, len(plan.order)), plan.seed, device)
    made.plan, made.targets = plan, plan.targets
    return made


def planned(config: LearnerConfig, tasks: int) -> LearnerConfig:
    """The settings; `tasks` or `subnets.tasks`, if the learner has it and it is not set, is the number of tasks."""
    if isinstance(config, DenseConfig) and config.tasks is None:
        return replace(config, tasks=tasks)
    subnets = getattr(config, "subnets", None)
    if isinstance(subnets, SubnetConfig) and subnets.tasks is None:
        return replace(config, subnets=replace(subnets, tasks=tasks))  # type: ignore[call-arg]
    return config


def suite_for(plan: Plan, report: Report | None = silent) -> Suite:
    """The suite of a plan. `report` is called while missing data is made; with None, none is made."""
    return suite_spec(plan.suite).suite(plan.order, plan.choice, report)


def learner(
    name: str,
    suite: Suite,
    seed: int = 0,
    preset: str = "paper",
    budget: str = "quick",
    *,
    settings: Settings = NO_SETTINGS,
    device: str = "auto",
    backbone: str = "dt",
) -> Learner:
    """A learner by name, with what the suite sets for it, and these settings, as in {"fit.steps": 500}.

    The data is as much as the budget says, unless the suite was made with another amount or brings its own.
    """
    check_suite(suite)
    plan = apply(configure(suite.name, name, preset, budget, seed, suite=suite, backbone=backbone), settings)
    for setting in settings:
        if ":" not in setting and not _has(plan, _path(plan, setting)):
            raise Mistake(f"the learner {name} has no setting {setting!r}{did_you_mean(setting, _names(plan))}")
    return learner_for(plan, suite, device)


def read_plan(record: dict[str, Any]) -> Plan:
    """The plan that config.json records."""
    missing = {"suite", "learner", "preset", "budget", "seed"} - set(record)
    if missing:
        raise Mistake(f"the run's config.json lacks {', '.join(sorted(missing))}")
    record = completed(record)
    return _read(Plan(default_config(record["learner"], record["backbone"]), Protocol()), record)


def _read(thing: Any, record: Any) -> Any:
    """A copy of an object with every value replaced by the recorded one."""
    if is_dataclass(thing) and isinstance(record, dict):
        names = {field.name for field in fields(thing)}
        if names != set(record):
            raise Mistake(f"the run was made by another version of holdfast: {', '.join(sorted(names ^ set(record)))}")
        return replace(thing, **{name: _read(getattr(thing, name), record[name]) for name in names})  # type: ignore[type-var]
    return tuple(record) if isinstance(record, list) else record
