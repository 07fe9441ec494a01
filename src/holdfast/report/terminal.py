"""A run on the screen: its matrix, its routes, its certificate."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.evaluation.certificates import Certificate, changed
from holdfast.evaluation.matrix import Matrix
from holdfast.experts.check import Check


def show(
    console: Console, matrix: Matrix, routes: Sequence[dict[str, Any]], certificates: Sequence[Certificate]
) -> None:
    """Prints a run."""
    console.print(matrix_table(matrix))
    console.print(metrics_line(matrix), highlight=False)
    if routes:
        console.print(routes_table(routes))
    console.print(certificate_line(certificates), highlight=False)


def matrix_table(matrix: Matrix) -> Table:
    """Mean returns after each task; a result that was carried over, since nothing changed, is dim."""
    episodes = matrix.protocol["episodes"]
    table = Table(title=f"{matrix.learner} on {matrix.suite}, seed {matrix.seed}: mean return of {episodes} episodes")
    table.add_column("after learning")
    for task in matrix.tasks:
        table.add_column(task, justify="right")
    mean = matrix.mean
    for stage, task in enumerate(matrix.tasks):
        cells = zip(mean[stage], matrix.carried[stage], strict=True)
        table.add_row(task, *(_cell(value, origin) for value, origin in cells))
    table.add_section()
    table.add_row("target", *(f"{target:.4g}" for target in matrix.targets))
    return table


def _cell(value: float | None, origin: int | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if origin is None else f"[dim]{value:.4g}[/dim]"


def metrics_line(matrix: Matrix) -> str:
    """The run in one line of numbers."""
    metrics = matrix.metrics()
    if not metrics:
        return "not evaluated yet: holdfast evaluate does it"
    numbers = [
        f"{name} {metrics[name]:.4g}"
        for name in ("NormAvg", "AvgGap", "AvgF", "BWT", "FWT")
        if metrics[name] is not None
    ]
    copies = f"{matrix.copies} {'copy' if matrix.copies == 1 else 'copies'}"
    return f"{', '.join(numbers)}; {copies}, {matrix.bytes['total'] / 1e6:.2f} MB"


def routes_table(routes: Sequence[dict[str, Any]]) -> Table:
    """Why each task is where it is."""
    table = Table(title="routes")
    for name in ("task", "copy", "source", "distances", "threshold", "because"):
        table.add_column(name)
    for route in routes:
        distances = ", ".join(f"{found['task']} {found['distance']:.3g}" for found in route["candidates"])
        threshold = "" if route["threshold"] is None else f"{route['threshold']:g}"
        copy = f"{route['copy']}{' (new)' if route['opened'] else ''}"
        table.add_row(route["task"], copy, route["source"] or "", distances, threshold, route["reason"])
    return table


def certificate_line(certificates: Sequence[Certificate]) -> str:
    """Whether anything that was learned has changed since."""
    moved = changed(certificates)
    if moved:
        tasks = ", ".join(sorted({found.task for found in moved}))
        return f"certificate: [yellow]changed by later learning: {tasks}[/yellow]"
    stages = len({found.stage for found in certificates})
    return f"certificate: [green]every task equal to the bit after each of {stages} stages[/green]"


def checks_table(checks: Sequence[Check]) -> Table:
    """What a check of recorded data found."""
    table = Table(title="recorded data; all that was replayed was exactly as recorded")
    names = ("task", "episodes", "steps", "mean", "least", "most", "twice", "actions", "replayed")
    for name in names:
        table.add_column(name, justify="left" if name == "task" else "right")
    for found in checks:
        returns = (f"{value:.4g}" for value in (found.mean, found.least, found.most))
        counts = (str(found.episodes), str(found.transitions))
        table.add_row(
            found.task, *counts, *returns, str(found.duplicates), f"{found.coverage:.0%}", str(found.replayed)
        )
    return table
