"""From names to settings: a learner's defaults, with settings by their dotted names."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Protocol, TypeVar

from holdfast.data.validation import did_you_mean, shown
from holdfast.errors import Mistake
from holdfast.learners.dense import DenseConfig
from holdfast.learners.learner import LearnerConfig, learner_spec
from holdfast.nets.backbone import NetConfig, net_config
from holdfast.registry import LEARNERS, NETS
from holdfast.subnets.config import SubnetConfig
from holdfast.tasks.suite import Settings

REUSE: Settings = {  # a task changes, for itself alone, the network that it starts from
    "subnets.new": 0.0,
    "subnets.private": 0.3,
    "subnets.biases": "outside",
    "subnets.far_source": "last",
    "routing.threshold": "auto",
}
HOLDFAST: Settings = {  # beside the suite's settings of the preset `paper`
    f"{learner}:{setting}": value
    for learner in ("affinity-a", "affinity-l", "affinity-h")
    for setting, value in REUSE.items()
}
CHOICES = ("suite", "learner", "backbone", "preset", "budget")  # names that decide the settings, and are none


class Configured(Protocol):
    """A plan: the settings of a learner, and its name, among others."""

    @property
    def config(self) -> LearnerConfig:
        """The settings of the learner."""

    @property
    def learner(self) -> str:
        """Its name."""


P = TypeVar("P", bound=Configured)


def apply(plan: P, settings: Settings) -> P:
    """The plan with these settings; `ewc:strength` is for one learner, others for all learners that have them."""
    if not isinstance(settings, Mapping):
        raise Mistake(f'settings must be a dict of names and values, as in {{"fit.steps": 500}}, got {shown(settings)}')
    values: dict[tuple[str, ...], Any] = {}
    for name, value in settings.items():
        only, _, path = str(name).rpartition(":")
        whole = setting_path(plan, path)
        if path in CHOICES or not (has_setting(plan, whole) or _some_learner_has(path)):
            others = [
                _replaced(plan, {("config",): default_config(learner, net)}) for learner in LEARNERS for net in NETS
            ]
            known = {known for other in others for known in setting_names(other)}.difference(CHOICES)
            raise Mistake(f"no learner has a setting {name!r}{did_you_mean(path, known)}")
        if only in ("", plan.learner):
            values[tuple(whole)] = value
    return _replaced(plan, values)


def _some_learner_has(path: str) -> bool:
    """Whether some learner has the setting of this dotted name."""
    return any(has_setting(default_config(learner, net), path.split(".")) for learner in LEARNERS for net in NETS)


def default_config(learner: str, backbone: str) -> LearnerConfig:
    """A learner's settings before those of a suite."""
    return _made_config(learner_spec(learner).config, net_config(backbone))


@cache
def _made_config(make: Callable[[NetConfig], LearnerConfig], net: NetConfig) -> LearnerConfig:
    return make(net)


def setting_names(thing: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings; those of a learner without the `config.` before them."""
    for field in fields(thing):
        value = getattr(thing, field.name)
        if is_dataclass(value):
            yield from setting_names(value, "" if field.name == "config" else f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def setting_path(plan: Any, dotted: str) -> list[str]:
    path = dotted.split(".")
    return path if path[0] in {field.name for field in fields(plan)} else ["config", *path]


def has_setting(thing: Any, path: list[str]) -> bool:
    found = is_dataclass(thing) and path[0] in {field.name for field in fields(thing)}
    return found and (len(path) == 1 or has_setting(getattr(thing, path[0]), path[1:]))


def _replaced(thing: Any, values: Mapping[tuple[str, ...], Any]) -> Any:
    """A copy of a frozen object with nested fields set to values, all at once; fields that it lacks are passed over."""
    if not is_dataclass(thing):
        return thing
    changed = {}
    for field in fields(thing):
        inner = {path[1:]: value for path, value in values.items() if path[0] == field.name}
        if () in inner:
            changed[field.name] = inner[()]
        elif inner:
            changed[field.name] = _replaced(getattr(thing, field.name), inner)
    return replace(thing, **changed)  # type: ignore[type-var]


def planned(config: LearnerConfig, tasks: int) -> LearnerConfig:
    """The settings; `tasks` or `subnets.tasks`, if the learner has it and it is not set, is the number of tasks."""
    if isinstance(config, DenseConfig) and config.tasks is None:
        return replace(config, tasks=tasks)
    subnets = getattr(config, "subnets", None)
    if isinstance(subnets, SubnetConfig) and subnets.tasks is None:
        return replace(config, subnets=replace(subnets, tasks=tasks))  # type: ignore[call-arg]
    return config


def read_settings(thing: Any, record: Any) -> Any:
    """A copy of an object with every value replaced by the recorded one."""
    if is_dataclass(thing) and isinstance(record, dict):
        names = {field.name for field in fields(thing)}
        if names != set(record):
            raise Mistake(f"the run was made by another version of holdfast: {', '.join(sorted(names ^ set(record)))}")
        return replace(thing, **{name: read_settings(getattr(thing, name), record[name]) for name in names})  # type: ignore[type-var]
    return tuple(record) if isinstance(record, list) else record
