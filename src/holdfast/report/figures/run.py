"""One evaluated run with all of its records, checked so that everything in them can be drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate
from holdfast.evaluation.matrix import Matrix
from holdfast.report.export import losses
from holdfast.report.groups import Result
from holdfast.report.shapes import fits
from holdfast.runs.files import read_json, read_tensors
from holdfast.runs.folder import RunFolder
from holdfast.subnets.copies import from_bits

Curve = Sequence[tuple[int, float]]  # steps, and the loss there
ROUTE = {
    "task": str,
    "candidates": [{"task": str, "distance": (None, float)}],  # null where it could not be computed
    "threshold": (None, float),
    "source": (None, str),
    "copy": int,
    "opened": bool,
    "reason": str,
}
CERTIFICATE = {"stage": int, "task": str, "fingerprint": str}
FILES = {str: {"path": str, "sha256": str}}  # of a stage in weights/index.json


@dataclass(frozen=True)
class Run:
    """One evaluated run, with all of its records; a record that is not there is empty."""

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
        """What its randomness began with."""
        return self.matrix.seed

    @property
    def name(self) -> str:
        """Of its folder, wherever that is."""
        return self.path.resolve().name


def read_run(result: Result, matrix: Matrix) -> Run:
    """All of a run's records; raises if one of them is damaged."""
    folder = RunFolder(result.folder)
    return Run(
        path=result.folder,
        record=folder.record,
        matrix=matrix,
        routes=_routes(folder, matrix),
        certificates=_certificates(folder),
        losses=_losses(folder),
        overlap=_overlap(folder, matrix),
        has_weights=result.has_weights,
        instead=[Path(name).name for name in result.instead],
    )


def _damaged(folder: RunFolder, name: str) -> Mistake:
    return Mistake(f"{folder.path / name} is damaged: bring it back, or leave the run out")


def _routes(folder: RunFolder, matrix: Matrix) -> list[dict[str, Any]]:
    """Every task's route, once, in the order of the tasks; copies are opened one after the other."""
    routes = folder.read_routes()
    if not fits(routes, [ROUTE]):
        raise _damaged(folder, "routes.json")
    names = [route["task"] for route in routes]
    earlier = [{route["source"], *(one["task"] for one in route["candidates"])} - {None} for route in routes]
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


def _certificates(folder: RunFolder) -> list[Certificate]:
    found = folder.read_certificates()
    if not all(fits(vars(certificate), CERTIFICATE) for certificate in found):
        raise _damaged(folder, "certificates.json")
    return found


def _losses(folder: RunFolder) -> Mapping[str, Curve]:
    exported = folder.path / "losses.json"
    curves = read_json(exported) if exported.exists() else losses(folder.events())
    if not fits(curves, {str: [(list, tuple)]}):
        raise _damaged(folder, "losses.json")
    points = {task: [point for point in curve if _drawable(point)] for task, curve in curves.items()}
    return {task: curve for task, curve in points.items() if curve}


def _drawable(point: Sequence[Any]) -> bool:
    """Whether a point of a loss curve is a step and a finite loss."""
    return len(point) == 2 and type(point[0]) is int and point[0] > 0 and fits(point[1], float)


def _overlap(folder: RunFolder, matrix: Matrix) -> dict[tuple[str, str], float]:
    """From the masks, where they are kept; masks of different copies are of different weights."""
    masks = {task: mask for task in matrix.tasks if (mask := _mask(folder, matrix, task)) is not None}
    together = [pair for pair in product(masks, masks) if len({matrix.task_copy[task] for task in pair}) == 1]
    return {
        (own, other): float((masks[own] & masks[other]).sum() / max(masks[own].sum(), 1)) for own, other in together
    }


def _mask(folder: RunFolder, matrix: Matrix, task: str) -> np.ndarray | None:
    if not folder.learned or not matrix.accounts:
        return None
    stage = folder.index["stages"][-1]
    if not fits(stage, {"files": FILES}) or task not in matrix.task_copy:
        raise _damaged(folder, "weights/index.json")
    file = stage["files"].get(f"weights/task-{task}")
    if file is None:
        return None
    tensors = read_tensors(folder.path / file["path"], file["sha256"])
    total = matrix.accounts[matrix.task_copy[task]]["total"]
    if "mask" not in tensors or tensors["mask"].numel() != -(-total // 8):
        raise _damaged(folder, file["path"])
    return from_bits(tensors["mask"], total).numpy()
