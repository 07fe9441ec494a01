"""A run on the screen: its matrix, its routes, its certificate, or how far it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.data.printable import printable
from holdfast.evaluation.certificates import Certificate, changed, verdict
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import avg_gap, norm_avg
from holdfast.runs.folder import RunFolder
from holdfast.runs.state import state_of
from holdfast.study.published import Row, published
from holdfast.study.summary import fewest_to_most
from holdfast.tasks.recorded import DataCheck


def show(console: Console, folder: RunFolder, recomputed: bool) -> None:
    """Prints what is known of a run; `recomputed` says that its fingerprints were compared with its weights."""
    state, matrix = state_of(folder), folder.read_matrix()
    data_returns, row = folder.record["data_returns"], published(folder.record["config"])
    if matrix and matrix.stages:
        console.print(matrix_table(matrix, data_returns, row))
        _print(console, metrics_line(matrix), beside_line(matrix, data_returns, row))
    if routes := folder.read_routes():
        console.print(routes_table(routes))
    console.print(certificate_line(folder.read_certificates(), recomputed))
    if not state.complete:
        _print(console, *state.lines())
    _print(console, f"folder: {folder.path}")


def summary(folder: RunFolder, recomputed: bool) -> dict[str, Any]:
    """The same as plain data."""
    state, matrix = state_of(folder), folder.read_matrix()
    return {
        "folder": str(folder.path),
        "complete": state.complete,
        "tasks": state.tasks,
        "learned": state.tasks[: state.learned],
        "step": state.step,
        "steps": state.steps,
        "next": None if state.complete else state.command,
        "config": folder.record["config"],
        "matrix": matrix.to_json() if matrix else None,
        "routes": folder.read_routes(),
        "certificate": verdict(folder.read_certificates()),
        "fingerprints": "recomputed" if recomputed else "as recorded",
    }


def _print(console: Console, *texts: str) -> None:
    """Prints lines that hold names from files: nothing in them is markup, and a long one is not broken."""
    for line in "\n".join(filter(None, texts)).splitlines():
        console.print(Text(printable(line)), soft_wrap=True)


def _text(value: object, style: str = "") -> Text:
    """A cell or a title as it is written, nothing in it being markup."""
    return Text(printable(value), style)


def beside_line(matrix: Matrix, data_returns: Mapping[str, float], row: Row | None) -> str:
    """What the data itself and the publication have, in the same measures."""
    known = [data_returns[task] for task in matrix.tasks if task in data_returns]
    lines = []
    if len(known) == len(matrix.tasks):
        lines.append(f"the data itself: {measures(norm_avg(known, matrix.targets), avg_gap(known, matrix.targets))}")
    if row:
        found = measures(row.get("NormAvg"), row.get("AvgGap"), row.get("AvgF"))
        lines.append(
            f"published ({row['method']}): {found or 'no summary'}; {row.get('copies', len(matrix.tasks))} copies"
        )
    return "\n".join(lines)


def measures(normalised: float | None, gap: float | None, forgotten: float | None = None) -> str:
    """Those of these numbers that there are."""
    named = {"NormAvg": normalised, "AvgGap": gap, "AvgF": forgotten}
    return ", ".join(f"{name} {value:.4g}" for name, value in named.items() if value is not None)


def matrix_table(matrix: Matrix, data_returns: Mapping[str, float], row: Row | None) -> Table:
    """Mean returns after each task; a result that was carried over, since nothing changed, is dim."""
    title = f"{matrix.learner} on {matrix.suite}, seed {matrix.seed}: mean return of {_episodes(matrix)}"
    table = Table(title=_text(title, "table.title"))
    table.add_column("after learning")
    for task in matrix.tasks:
        table.add_column(_text(task), justify="right")
    mean = matrix.mean
    for stage, task in enumerate(matrix.tasks):
        cells = zip(mean[stage], matrix.carried[stage], strict=True)
        table.add_row(_text(task), *(_cell(value, origin) for value, origin in cells))
    for rows in (_interval_rows(matrix), _success_rows(matrix)):
        table.add_section()
        for line in rows:
            table.add_row(*line)
    table.add_section()
    table.add_row("the data's mean", *(_cell(data_returns.get(task)) for task in matrix.tasks))
    if row:
        table.add_row("published", *(_cell(row.get(task)) for task in matrix.tasks))
    table.add_row("target", *(_cell(target) for target in matrix.targets))
    return table


def _episodes(matrix: Matrix) -> str:
    """How many a mean is of, and if some are the same, how many differ, in the task where fewest and where most do."""
    count = matrix.protocol["episodes"]
    distinct = [found for row in matrix.distinct_episodes for found in row if found is not None] or [count]
    same = "" if min(distinct) == count else f", {fewest_to_most(distinct)} distinct"
    return f"{count} {'episode' if count == 1 else 'episodes'}{same}"


def _cell(value: float | None, origin: int | None = None) -> Text:
    if value is None:
        return Text()
    return Text(f"{value:.4g}", "" if origin is None else "dim")


def _interval_rows(matrix: Matrix) -> list[list[str | Text]]:
    """Where each task's last mean lies with 95 % confidence."""
    found = matrix.intervals().get("tasks", {})
    names = ("95 %: from", "95 %: to")
    cells = [[found[task][end] if task in found else None for task in matrix.tasks] for end in (0, 1)]
    return [[name, *map(_cell, row)] for name, row in zip(names, cells, strict=True) if found]


def _success_rows(matrix: Matrix) -> list[list[str | Text]]:
    """How many of the last episodes succeeded, and between what the rate lies with 95 % confidence."""
    found = matrix.success().values()
    between = [f"{100 * one['interval'][0]:.0f}, {one['interval'][1]:.0%}" for one in found]
    return [["success", *(f"{one['rate']:.0%}" for one in found)], ["95 %: from, to", *between]] if found else []


def metrics_line(matrix: Matrix) -> str:
    """The run in one line of numbers."""
    metrics = matrix.metrics()
    known = {name: metrics[name] for name in ("NormAvg", "AvgGap", "AvgF", "BWT", "FWT") if metrics[name] is not None}
    sure = {name: f" ({pair[0]:.3g} to {pair[1]:.3g})" for name, pair in matrix.intervals().items() if name in known}
    numbers = [f"{name} {value:.4g}{sure.get(name, '')}" for name, value in known.items()]
    size = f"{matrix.bytes['total'] / 1e6:.2f} MB"
    if matrix.stages < len(matrix.tasks):
        return f"{', '.join(numbers)}\n{size}; evaluated after {matrix.stages} of {len(matrix.tasks)} tasks so far"
    return f"{', '.join(numbers)}\n{matrix.copies} {'copy' if matrix.copies == 1 else 'copies'}, {size}"


def routes_table(routes: Sequence[dict[str, Any]]) -> Table:
    """Why each task is where it is."""
    table = Table(title="routes")
    for name in ("task", "copy", "source", "distances", "threshold", "because"):
        table.add_column(name)
    for route in routes:
        distances = ", ".join(f"{found['task']} {_distance(found['distance'])}" for found in route["candidates"])
        threshold = "" if route["threshold"] is None else f"{route['threshold']:g}"
        copy = f"{route['copy']}{' (new)' if route['opened'] else ''}"
        cells = (route["task"], copy, route["source"] or "", distances, threshold, route["reason"])
        table.add_row(*map(_text, cells))
    return table


def _distance(value: float | None) -> str:
    """A recorded distance; null is one that could not be computed, and so infinitely far."""
    return "∞" if value is None else f"{value:.3g}"


def certificate_line(certificates: Sequence[Certificate], recomputed: bool) -> Text:
    """Whether anything that was learned has changed since, and whether that was checked now or is only recorded."""
    colour = "green" if certificates and not changed(certificates) else "yellow"
    known = f" (fingerprints {'recomputed' if recomputed else 'as recorded'})" if certificates else ""
    return Text("certificate: ").append(_text(verdict(certificates), colour)).append(known)


def checks_table(checks: Sequence[DataCheck]) -> Table:
    """What a check found: returns, episodes that stand there twice, the range of actions seen, episodes replayed."""
    table = Table(title="recorded data; all that was replayed was exactly as recorded")
    for name in ("task", "episodes", "mean", "worst", "twice", "range", "replayed"):
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=True)
    for found in checks:
        returns = (f"{found.mean:.3f}", f"{found.least:.2f}")
        rest = (str(found.duplicates), f"{found.coverage:.0%}", str(found.replayed))
        table.add_row(_text(found.task), str(found.episodes), *returns, *rest)
    return table
