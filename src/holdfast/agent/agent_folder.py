"""The folder of an agent: created on first use; a run folder is one, too."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from holdfast.agent.config import checked_config, new_record, plan_of
from holdfast.agent.folder import CONFIG, LearningFolder
from holdfast.agent.plan import AgentPlan
from holdfast.agent.settings import first_difference
from holdfast.agent.surroundings import surroundings
from holdfast.data.directory import Directory
from holdfast.data.files import make_folder
from holdfast.errors import Mistake


class AgentFolder(LearningFolder):
    """What was learned, with its settings and events beside it: `with AgentFolder(path) as folder`."""

    def __init__(self, path: str | Path, plan: AgentPlan | None = None) -> None:
        self.path = Path(path)
        if plan is not None and not os.path.lexists(self.path / CONFIG):
            self._create(plan)
        super().__init__(path)

    def _create(self, plan: AgentPlan) -> None:
        if os.path.isfile(self.path):
            raise Mistake(f"{self.path} is a file: choose another folder")
        make_folder(self.path)
        self.directory = Directory(self.path)
        self._lock()  # if two processes begin at once, one of them creates the agent
        try:
            if not self.directory.exists(CONFIG):
                if {*self.directory.names()} - {f"{CONFIG}.part"}:  # which a killed process may leave
                    raise Mistake(f"{self.path} is not empty and not an agent's folder: choose another folder")
                made_with = surroundings("", plan.learner, plan.backbone)
                self.directory.write_json(CONFIG, new_record(plan, torch.get_num_threads(), made_with))
        finally:
            self.directory.unlock()

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
