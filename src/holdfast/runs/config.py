"""The record config.json: the plan of a run, and what it was started with."""

import shlex
from dataclasses import fields
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from holdfast.agent.config import Begun
from holdfast.agent.plan import AgentPlan, completed
from holdfast.data.conform import Conform, conform
from holdfast.data.files import damaged
from holdfast.errors import Mistake
from holdfast.learners.learner import LearnerConfig, learner_spec
from holdfast.nets.backbone import net_config
from holdfast.registry import LEARNERS, NETS
from holdfast.runs.plan import Plan

NEEDED = {"config", "suite", "learner", "seed", "order"}  # what every recorded plan must have
LOOSELY = Conform(partial=True)


def checked_config(record: Any, path: Path) -> dict[str, Any]:
    """The record of a run, with defaults for what older versions did not record; raises if it is not one."""
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise Mistake(f"{path} is not the config.json of a run: choose another folder")
    if is_agent(record["config"]):
        folder = shlex.quote(str(path.parent))
        raise Mistake(
            f"{path.parent} is an agent, not a run: use holdfast agent list {folder} or holdfast agent verify {folder}"
        )
    if missing := NEEDED - set(record["config"]):
        raise Mistake(f"{path} lacks {', '.join(sorted(missing))}: restore it from a backup")
    known = {item.name for item in fields(Begun)}
    try:
        check_plan(completed(record["config"]))
        begun = conform({name: value for name, value in record.items() if name in known}, Begun)
    except Mistake as problem:
        raise damaged(path, problem) from problem
    return {**vars(begun), **record}


def is_agent(plan: dict[str, Any]) -> bool:
    """Whether these are the settings of an agent, which are fewer than those of a run."""
    return {"config", "learner", "seed"} <= set(plan) <= {item.name for item in fields(AgentPlan)}


def check_plan(plan: dict[str, Any]) -> None:
    """Raises if a setting cannot be that of a plan; that none is missing is only checked when the run continues."""
    LOOSELY({name: value for name, value in plan.items() if name != "config"}, Plan)
    order = plan["order"]
    if not order or len(set(order)) != len(order):
        raise Mistake(f"order must name tasks, each once, got {shortened(order)}")
    if plan["backbone"] not in NETS:  # it comes from a plugin, which only learning and acting need
        LOOSELY(plan["config"], LearnerConfig)
        return
    net = net_config(plan["backbone"])
    known = plan["learner"] in LEARNERS
    LOOSELY(plan["config"], type(learner_spec(plan["learner"]).config(net)) if known else LearnerConfig)
    LOOSELY(plan["config"].get("net", {}), type(net), "net")
