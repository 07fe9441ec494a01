"""The run folder: the record of a run, from which it is resumed and every table is made."""

import json
import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from holdfast.agent.configure import CHOICES
from holdfast.agent.events import training_seconds
from holdfast.agent.folder import CONFIG, LearningFolder
from holdfast.agent.plan import completed
from holdfast.agent.settings import first_difference
from holdfast.agent.surroundings import surroundings
from holdfast.data.conform import conform
from holdfast.data.files import damaged
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.registry import check_plugins
from holdfast.runs.config import checked_config
from holdfast.runs.plan import Plan
from holdfast.tasks.task import Task
from holdfast.training.ranks import ranks

MATRIX = "matrix.json"


class RunFolder(LearningFolder):
    """What was learned, with the plan, the events and the results beside it.

    One process works in it at a time: `with RunFolder(path, plan) as folder`.
    """

    kind = "a run folder"
    keeps_past = False
    elsewhere = "choose another --out"
    otherwise = f"wait for it, or {elsewhere}"

    def __init__(self, path: str | Path, plan: Plan | None = None) -> None:
        self.path = Path(path)
        if plan is not None:
            self._create(partial(begun_record, plan))
            self.check_plan(plan)
        super().__init__(path)

    def _planned(self) -> list[str]:
        return list(self.record["config"]["order"])

    def _config(self) -> dict[str, Any]:
        return checked_config(self.directory.read_json(CONFIG), self.path / CONFIG)

    def check_plan(self, plan: Plan) -> None:
        """Raises unless this is a run of this plan, made with the plugins that are loaded."""
        record = self._config()
        check_plugins(record["plugins"])
        known, wanted = completed(record["config"]), json.loads(json.dumps(asdict(plan)))
        if difference := first_difference(choices_first(known), choices_first(wanted)):
            name, old, new = difference
            raise Mistake(f"{self.path} is a run with {name} = {old}, not {new}: choose another --out or delete it")

    def _known(self) -> int:
        matrix = self.read_matrix()
        return max(super()._known(), matrix.stages if matrix else 0)

    # Learning

    def check_data(self, task: Task) -> None:
        """Records the fingerprint and the mean return of a planned task's data; raises if the run has other data."""
        known = self.record["datasets"].setdefault(task.name, task.dataset.fingerprint)
        if known != task.dataset.fingerprint:
            raise Mistake(f"the data of {task.name} changed since {self.path} was begun: choose another --out")
        self.record["data_returns"][task.name] = float(task.dataset.totals.mean())
        self.directory.write_json(CONFIG, self.record)

    @property
    def learned(self) -> int:
        """The number of planned tasks that are learned."""
        return min(len(self.store.learned), len(self.order))

    @property
    def further(self) -> list[str]:
        """The tasks that were learned into the finished run, after those of the plan."""
        return self.store.learned[len(self.order) :]

    @property
    def is_complete(self) -> bool:
        """Whether all planned tasks are learned and certified, and no file is left to remove."""
        return self.learned == len(self.order) and self._is_certified() and not self.store.has_unused

    def _is_certified(self) -> bool:
        certified = [(found.stage, found.task) for found in self.read_certificates()]
        stages = [stage for stage, found in enumerate(self.store.index.stages[: len(self.order)]) if not found.joint]
        return all((stage, task) in certified for stage in stages for task in self.order[: stage + 1])

    def how_to_go_on(self) -> str:
        """The command that continues a run whose results are not complete."""
        trained = self.learned == len(self.order)
        plugins = [word for plugin in self.record["plugins"] for word in ("--plugin", plugin["file"])]
        command = ["evaluate"] if trained else ["run", "--config"]
        return shlex.join(["holdfast", *command, str(self.path), *plugins])

    # Results

    def read_matrix(self) -> Matrix | None:
        """The results so far; raises if they are those of another run."""
        if not self.directory.exists(MATRIX):
            return None
        record, path = self.directory.read_json(MATRIX), self.path / MATRIX
        try:
            matrix = Matrix.from_json(record)
        except Mistake as problem:
            raise damaged(path, problem) from problem
        if difference := first_difference(*self._in_both(matrix)):
            name, own, other = difference
            raise Mistake(
                f"{path} is of another run than the config.json beside it, with {name} = {other}, not {own}: "
                "restore the right one"
            )
        return matrix

    def _in_both(self, matrix: Matrix) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both config.json and a matrix say, as far as the older of them says it."""
        plan = completed(self.record["config"])
        names = [name for name in ("suite", "learner", "seed", "preset", "budget") if name in plan]
        protocol = plan.get("protocol", {})
        played = {name: value for name, value in matrix.protocol.items() if name in protocol}
        ours: dict[str, Any] = {"tasks": self.order, **{name: plan[name] for name in names}, "protocol": protocol}
        theirs = completed({"tasks": matrix.tasks, **{name: getattr(matrix, name) for name in names}})
        return ours, {**{name: theirs[name] for name in ("tasks", *names)}, "protocol": played}

    def write_matrix(self, matrix: Matrix) -> None:
        """Keeps the results so far."""
        self.directory.write_json(MATRIX, matrix.to_json())

    def read_routes(self) -> list[dict[str, Any]]:
        """Why each planned task is in its copy."""
        return self._routes()[: len(self.order)]

    def read_losses(self) -> dict[str, list[list[Any]]]:
        """Of an export, which has no events: for each task, some steps and the loss there."""
        return self._exported("losses", dict[str, list[list[Any]]])

    def read_seconds(self) -> dict[str, float]:
        """The time that the training of each task took, as far as it is known."""
        return self._exported("seconds", dict[str, float]) or training_seconds(self.events())

    def _exported(self, name: str, kind: Any) -> Any:
        """What an export has instead of events; empty if this is none."""
        file = f"{name}.json"
        if not self.directory.exists(file):
            return {}
        try:
            return conform(self.directory.read_json(file), kind, name)
        except Mistake as problem:
            raise damaged(self.path / file, problem) from problem


def choices_first(plan: dict[str, Any]) -> dict[str, Any]:
    """The settings, those first that decide what the others are."""
    return {**{name: plan[name] for name in CHOICES if name in plan}, **plan}


def begun_record(plan: Plan) -> dict[str, Any]:
    """The record of a run that begins here and now; when it is resumed, it has as many threads and processes."""
    config = json.loads(json.dumps(asdict(plan)))
    kept = {"config": config, "datasets": {}, "data_returns": {}, "threads": plan.threads or torch.get_num_threads()}
    return {**kept, "processes": ranks().size, **surroundings(plan.suite, plan.learner, plan.backbone)}
