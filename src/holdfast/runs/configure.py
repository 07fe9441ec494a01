"""From names to settings: the defaults, then the suite's settings for a preset and a budget."""

from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from holdfast.agent.configure import (
    HOLDFAST,
    apply,
    default_config,
    has_setting,
    planned,
    read_settings,
    setting_names,
    setting_path,
)
from holdfast.agent.devices import check_device, check_memory
from holdfast.agent.plan import completed
from holdfast.data.validation import did_you_mean
from holdfast.errors import Mistake
from holdfast.learners.learner import Learner, learner_spec
from holdfast.runs.plan import Plan
from holdfast.tasks.data_reports import Report, silent
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Settings, Suite, SuiteSpec, check_suite, suite_spec

PRESETS = ("holdfast", "paper")
NO_SETTINGS: Settings = MappingProxyType({})
BUDGETS = ("smoke", "quick", "full", "published")
GENERAL: dict[str, Settings] = {  # budgets of a suite that does not define its own
    "smoke": {"fit.steps": 20, "fit.batch": 16, "protocol.episodes": 4},
    "quick": {},  # the defaults
    "full": {"fit.steps": 20_000, "protocol.episodes": 100},
}


def configure(
    name: str,
    learner: str,
    preset: str | None = None,
    budget: str = "quick",
    seed: int = 0,
    *,
    suite: Suite | None = None,
    backbone: str = "dt",
) -> Plan:
    """The plan that these names stand for; `suite` is needed if it is not registered under its name."""
    spec = suite.spec if suite else suite_spec(name)
    preset = preset or usual_preset(budget)
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


def usual_preset(budget: str) -> str:
    """The preset of a run for which none is named: ours, or the publication's with its budget."""
    return "paper" if budget == "published" else "holdfast"


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


def suite_for(plan: Plan, report: Report | None = silent) -> Suite:
    """The suite of a plan. `report` is called while missing data is made; with None, none is made."""
    return suite_spec(plan.suite).suite(plan.order, plan.choice, report)


def learner(
    name: str,
    suite: Suite,
    seed: int = 0,
    preset: str | None = None,
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
        if ":" not in setting and not has_setting(plan, setting_path(plan, setting)):
            raise Mistake(f"the learner {name} has no setting {setting!r}{did_you_mean(setting, setting_names(plan))}")
    return learner_for(plan, suite, device)


def read_plan(record: dict[str, Any]) -> Plan:
    """The plan that config.json records."""
    missing = {"suite", "learner", "preset", "budget", "seed"} - set(record)
    if missing:
        raise Mistake(f"the run's config.json lacks {', '.join(sorted(missing))}")
    record = completed(record)
    return read_settings(Plan(default_config(record["learner"], record["backbone"]), Protocol()), record)
