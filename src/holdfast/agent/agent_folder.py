"""The folder of an agent: created on first use; a run folder is one, too."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from holdfast.agent.config import checked_config, new_record, plan_of
from holdfast.agent.folder import CONFIG, LearningFolder
from holdfast.agent.plan import AgentPlan
from holdfast.agent.settings import first_difference
from holdfast.agent.surroundings import surroundings
from holdfast.errors import Mistake


class AgentFolder(LearningFolder):
    """What was learned, with its settings and events beside it: `with AgentFolder(path) as folder`."""

    def __init__(self, path: str | Path, plan: AgentPlan | None = None) -> None:
        self.path = Path(path)
        if plan is not None:
            self._create(partial(begun_record, plan))
        super().__init__(path)

    def _config(self) -> dict[str, Any]:
        return checked_config(self.directory.read_json(CONFIG), self.path / CONFIG)

    def _planned(self) -> list[str]:
        return list(self.record["config"].get("order", []))

    @property
    def plan(self) -> AgentPlan:
        """The settings of the agent."""
        return plan_of(self.record)

    def check_plan(self, plan: AgentPlan) -> None:
        """Raises unless the agent has these settings."""
        if difference := first_difference(asdict(self.plan), asdict(plan)):
            name, old, new = difference
            raise Mistake(f"{self.path} is an agent with {name} = {old}, not {new}: choose another folder")

    def check_finished(self) -> None:
        """Raises if it is a run whose planned tasks are not all learned."""
        if missing := self.order[len(self.store.learned) :]:
            raise Mistake(f"{self.path} is a run that is not finished: {missing[0]} is to be learned first")


def begun_record(plan: AgentPlan) -> dict[str, Any]:
    """The record of an agent that begins here and now."""
    return new_record(plan, torch.get_num_threads(), surroundings("", plan.learner, plan.backbone))
