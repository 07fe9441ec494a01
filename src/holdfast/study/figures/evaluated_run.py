"""One evaluated run with all of its records, checked so that everything in them can be drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from torch import Tensor

from holdfast.agent.routes import sources
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder
from holdfast.study.export import is_drawable, loss_curves
from holdfast.study.groups import RunResult
from holdfast.subnets.stored_masks import read_masks

Curve = Sequence[tuple[int, float]]  # steps, and the loss there


@dataclass(frozen=True)
class EvaluatedRun:
    """One evaluated run with all of its records; a missing record is empty."""

    path: Path
    record: Mapping[str, Any]  # config.json
    matrix: Matrix
    routes: Sequence[Mapping[str, Any]]
    certificates: Sequence[Certificate]
    losses: Mapping[str, Curve]  # by task
    overlap: Mapping[tuple[str, str], float]  # share of one task's weights that another in its copy uses too
    has_weights: bool  # whether its policies can act here
    instead: Sequence[str] = ()  # the folders of older ones of the same run

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.matrix.seed

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name


def read_run(result: RunResult, matrix: Matrix) -> EvaluatedRun:
    """All of a run's records; raises if one of them is damaged."""
    folder = RunFolder(result.folder)
    return EvaluatedRun(
        path=result.folder,
        record=folder.record,
        matrix=matrix,
        routes=_routes(folder, matrix),
        certificates=[found for found in folder.read_certificates() if found.stage < len(matrix.tasks)],
        losses=_losses(folder, matrix),
        overlap=_overlap(folder, matrix),
        has_weights=result.has_weights,
        instead=[Path(name).name for name in result.instead],
    )


def _damaged(folder: RunFolder, name: str) -> Mistake:
    return Mistake(f"{folder.path / name} is damaged: bring it back, or leave the run out")


def _routes(folder: RunFolder, matrix: Matrix) -> list[dict[str, Any]]:
    """Every task's route, once, in the order of the tasks; copies are opened one after the other."""
    routes = folder.read_routes()
    names = [route["task"] for route in routes]
    earlier = [{*sources(route), *(one["task"] for one in route["candidates"])} for route in routes]
    copies = {route["copy"] for route in routes}
    sound = (
        names == matrix.tasks[: len(names)]
        and copies == set(range(len(copies)))
        and all(known <= set(names[:at]) for at, known in enumerate(earlier))
        and all(route["threshold"] is not None for route in routes if route["candidates"])
    )
    if not sound:
        raise _damaged(folder, "routes.json")
    return routes


def _losses(folder: RunFolder, matrix: Matrix) -> Mapping[str, Curve]:
    """The loss curve of each planned task; a learner that learns all tasks at once has none."""
    curves: Mapping[str, Sequence[Any]] = folder.read_losses() or loss_curves(folder.events())
    points = {task: [point for point in curve if _drawable(point)] for task, curve in curves.items()}
    return {task: curve for task, curve in points.items() if curve and task in matrix.tasks}


def _drawable(point: Sequence[Any]) -> bool:
    """Whether a point of a loss curve is a step and a finite loss."""
    return len(point) == 2 and type(point[0]) is int and point[0] > 0 and is_drawable(point[1])


def _overlap(folder: RunFolder, matrix: Matrix) -> dict[tuple[str, str], float]:
    """Computed from the masks, if they are kept; masks of different copies do not compare."""
    masks = _masks(folder, matrix)
    together = [pair for pair in product(masks, masks) if len({matrix.task_copy[task] for task in pair}) == 1]
    return {
        (own, other): int((masks[own] & masks[other]).sum()) / max(int(masks[own].sum()), 1) for own, other in together
    }


def _masks(folder: RunFolder, matrix: Matrix) -> dict[str, Tensor]:
    """The mask of each task, copy by copy; empty if they are not kept."""
    if not folder.learned:
        return {}
    files = folder.store.index.stages[-1].files
    masks: dict[str, Tensor] = {}
    for copy, account in enumerate(matrix.accounts):
        inside = [
            task for task in matrix.tasks if matrix.task_copy.get(task) == copy and f"weights/task-{task}" in files
        ]
        stored = [folder.store.tensors(files[f"weights/task-{task}"]) for task in inside]
        try:
            masks |= zip(inside, read_masks(stored, account["total"]), strict=True)
        except (LookupError, ValueError) as problem:
            raise _damaged(folder, "weights") from problem
    return masks
