"""From names to settings: the defaults, then what a suite says of a preset and a budget."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from holdfast.errors import Mistake
from holdfast.learners.learner import Learner, check_device
from holdfast.learners.plan import Plan
from holdfast.learners.registry import entry
from holdfast.suites import Suite, suite
from holdfast.suites.environments import Protocol
from holdfast.suites.task import Settings

PRESETS = ("paper",)
BUDGETS = ("smoke", "quick", "paper", "full")


def configure(
    name: str, learner: str, preset: str = "paper", budget: str = "quick", seed: int = 0, found: Suite | None = None
) -> Plan:
    """The plan that these names stand for; change single settings with dataclasses.replace."""
    for kind, value, known in (("preset", preset, PRESETS), ("budget", budget, BUDGETS)):
        if value not in known:
            raise Mistake(f"there is no {kind} {value!r}; there are {', '.join(known)}")
    found = found or suite(name)
    order, size = tuple(found.names), found.transitions
    plan = Plan(entry(learner).config, Protocol(), name, learner, preset, budget, seed, order, size)
    for settings in (found.presets.get(preset, {}), found.budgets.get(budget, {})):
        plan = apply(plan, settings)
    return plan


def apply(plan: Plan, settings: Settings) -> Plan:
    """The plan with these settings; `ewc:strength` is for one learner, others for all learners that have them."""
    for name, value in settings.items():
        learner, _, path = name.rpartition(":")
        if learner in ("", plan.learner):
            plan = _set(plan, path, value)
    return plan


def _set(plan: Plan, path: str, value: Any) -> Plan:
    inside = path if path.split(".")[0] in {field.name for field in fields(plan)} else f"config.{path}"
    return _replaced(plan, inside.split("."), value)


def _replaced(thing: Any, path: list[str], value: Any) -> Any:
    """The frozen thing with one field, however deep, set to a value; unchanged where it has no such field."""
    if not is_dataclass(thing) or path[0] not in {field.name for field in fields(thing)}:
        return thing
    inner = value if len(path) == 1 else _replaced(getattr(thing, path[0]), path[1:], value)
    return replace(thing, **{path[0]: inner})  # type: ignore[type-var]


def learner_for(plan: Plan, found: Suite, device: str = "auto") -> Learner:
    """A learner that has learned nothing yet."""
    return entry(plan.learner).learner(found, plan, check_device(device))


def suite_for(plan: Plan) -> Suite:
    """The suite that a plan is about."""
    return suite(plan.suite, plan.order, plan.transitions)


def learner(
    name: str, found: Suite, seed: int = 0, preset: str = "paper", budget: str = "quick", device: str = "auto"
) -> Learner:
    """A learner by name, with the settings that the suite has for it."""
    plan = configure(found.name, name, preset, budget, seed, found)
    return learner_for(replace(plan, transitions=found.transitions), found, device)


def read_plan(record: dict[str, Any], found: Suite | None = None) -> Plan:
    """The plan that config.json records."""
    plan = configure(record["suite"], record["learner"], record["preset"], record["budget"], record["seed"], found)
    return _read(plan, record)


def _read(thing: Any, record: Any) -> Any:
    """The thing with every recorded value in the place of its own."""
    if is_dataclass(thing) and isinstance(record, dict):
        names = {field.name for field in fields(thing)}
        if names != set(record):
            raise Mistake(f"the run was made by another version of holdfast: {', '.join(sorted(names ^ set(record)))}")
        return replace(thing, **{name: _read(getattr(thing, name), record[name]) for name in names})  # type: ignore[type-var]
    return tuple(record) if isinstance(record, list) else record
