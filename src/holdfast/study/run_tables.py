"""A run's matrix, routes and certificate as text for a terminal."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from rich.table import Table
from rich.text import Text

from holdfast.agent.routes import sources
from holdfast.data.printable import printable
from holdfast.evaluation.certificates import Certificate, changed, verdict
from holdfast.evaluation.matrix import METRICS, Matrix
from holdfast.evaluation.metrics import avg_gap, norm_avg
from holdfast.routing.affinities import SCALES
from holdfast.study.published import PublishedRow
from holdfast.study.summary import fewest_to_most
from holdfast.study.what_if import Prediction

NEAREST = 3  # learned tasks that the evidence shows of each task


def _text(value: object, style: str = "") -> Text:
    """A cell or a title, printed literally: nothing in it is markup."""
    return Text(printable(value), style)


def reference_lines(matrix: Matrix, data_returns: Mapping[str, float], row: PublishedRow | None) -> list[str]:
    """The metrics of the recorded data, and those that the publication reports."""
    played = matrix.played()
    known = [data_returns[matrix.tasks[task]] for task in played if matrix.tasks[task] in data_returns]
    lines = []
    if known and len(known) == len(played):
        targets = [matrix.targets[task] for task in played]
        lines.append(f"the data itself: {measures(norm_avg(known, targets), avg_gap(known, targets))}")
    if row:
        metrics = measures(row.get("NormAvg"), row.get("AvgGap"), row.get("AvgF"))
        copies = row.get("copies", len(matrix.tasks))
        lines.append(f"published ({row['method']}): {metrics or 'no summary'}; {copies} copies")
    return lines


def measures(normalised: float | None, gap: float | None, forgotten: float | None = None) -> str:
    """These metrics in one line, without those that are None."""
    named = {"NormAvg": normalised, "AvgGap": gap, "AvgF": forgotten}
    return ", ".join(f"{name} {value:.4g}" for name, value in named.items() if value is not None)


def matrix_table(matrix: Matrix, data_returns: Mapping[str, float], row: PublishedRow | None) -> Table:
    """Mean returns after each task; results carried over from an earlier stage are dim."""
    title = f"{matrix.learner} on {matrix.suite}, seed {matrix.seed}: mean return of {_episodes(matrix)}"
    table = Table(title=_text(title, "table.title"))
    table.add_column("after learning")
    for task in matrix.tasks:
        table.add_column(_text(task), justify="right")
    mean = matrix.mean
    for stage, task in enumerate(matrix.tasks):
        if matrix.joint and stage < len(matrix.tasks) - 1:
            continue
        cells = zip(mean[stage], matrix.carried[stage], strict=True)
        learned = "all tasks at once" if matrix.joint else task
        table.add_row(_text(learned), *(_cell(value, origin) for value, origin in cells))
    for rows in (_interval_rows(matrix), _success_rows(matrix), _score_rows(matrix)):
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
    """The number of episodes behind a mean, and the range over tasks of distinct ones if some are equal."""
    count = matrix.protocol["episodes"]
    distinct = [found for row in matrix.distinct_episodes for found in row if found is not None] or [count]
    same = "" if min(distinct) == count else f", {fewest_to_most(distinct)} distinct"
    return f"{count} {'episode' if count == 1 else 'episodes'}{same}"


def _cell(value: float | None, origin: int | None = None) -> Text:
    if value is None:
        return Text()
    return Text(f"{value:.4g}", "" if origin is None else "dim")


def _interval_rows(matrix: Matrix) -> list[list[str | Text]]:
    """The 95 % confidence interval of each task's last mean."""
    found = matrix.intervals().get("tasks", {})
    names = ("95 %: from", "95 %: to")
    cells = [[found[task][end] if task in found else None for task in matrix.tasks] for end in (0, 1)]
    return [[name, *map(_cell, row)] for name, row in zip(names, cells, strict=True) if found]


def _success_rows(matrix: Matrix) -> list[list[str | Text]]:
    """The success rate of the last episodes with its 95 % confidence interval."""
    found = matrix.success()
    if not found:
        return []
    rates = {task: f"{one['rate']:.0%}" for task, one in found.items()}
    between = {task: f"{100 * one['interval'][0]:.0f}, {one['interval'][1]:.0%}" for task, one in found.items()}
    rows = {"success": rates, "95 %: from, to": between}
    return [[name, *(cells.get(task, "") for task in matrix.tasks)] for name, cells in rows.items()]


def _score_rows(matrix: Matrix) -> list[list[str | Text]]:
    """After each task, how well tasks without an environment predict the actions of their held-out episodes."""
    rows: list[list[str | Text]] = []
    for stage, scores in enumerate(matrix.scores):
        for measure in dict.fromkeys(name for score in scores for name in score or {}):
            cells = [_cell((score or {}).get(measure)) for score in scores]
            rows.append([_text(f"{measure}, after {matrix.tasks[stage]}"), *cells])
    return rows


def metrics_line(matrix: Matrix) -> str:
    """The metrics of a run, its copies and its size; those that need a missing result are not measured."""
    metrics = matrix.metrics()
    known = {name: metrics[name] for name in METRICS if metrics[name] is not None}
    sure = {name: f" ({pair[0]:.3g} to {pair[1]:.3g})" for name, pair in matrix.intervals().items() if name in known}
    numbers = [f"{name} {value:.4g}{sure.get(name, '')}" for name, value in known.items()]
    numbers += [f"{name} not measured" for name in _unmeasured(matrix, metrics)]
    size = f"{matrix.bytes['total'] / 1e6:.2f} MB"
    if matrix.stages < len(matrix.tasks):
        return f"{', '.join(numbers)}\n{size}; evaluated after {matrix.stages} of {len(matrix.tasks)} tasks so far"
    return f"{', '.join(numbers)}\n{matrix.copies} {'copy' if matrix.copies == 1 else 'copies'}, {size}"


def capacity_lines(matrix: Matrix) -> list[str]:
    """How much of each copy is owned, and how many more tasks it has room for."""
    return [_capacity_line(copy, account) for copy, account in enumerate(matrix.accounts)]


def _capacity_line(copy: int, account: Mapping[str, Any]) -> str:
    owned = f"copy {copy}: {100 * account['occupied'] / account['total']:.0f} % of its entries are owned"
    more = account.get("more")
    if more is None:
        return owned
    if isinstance(more, str):
        return f"{owned}, room for {more} of tasks"
    return f"{owned}, room for {more} more {'task' if more == 1 else 'tasks'}"


def _unmeasured(matrix: Matrix, metrics: Mapping[str, Any]) -> list[str]:
    """The metrics that compare stages and lack a result."""
    comparing = ("AvgF", "BWT", "SuccessF") if matrix.knows_success else ("AvgF", "BWT")
    return [name for name in comparing if matrix.has_gaps and metrics[name] is None]


def routes_table(routes: Sequence[dict[str, Any]]) -> Table:
    """The route of each task, and the reason for it."""
    table = Table(title="routes")
    for name in ("task", "copy", "source", "distances", "threshold", "because"):
        table.add_column(name)
    for route in routes:
        distances = ", ".join(f"{found['task']} {_distance(found['distance'])}" for found in route["candidates"])
        threshold = "" if route["threshold"] is None else f"{route['threshold']:g}"
        copy = f"{route['copy']}{' (new)' if route['opened'] else ''}"
        cells = (route["task"], copy, ", ".join(sources(route)), distances, threshold, route["reason"])
        table.add_row(*map(_text, cells))
    return table


def evidence_table(routes: Sequence[dict[str, Any]]) -> Table | None:
    """Of each task with an automatic threshold, the nearest learned tasks: scores, their scales and the decision."""
    known = {part for route in routes for candidate in route["candidates"] for part in candidate["parts"]}
    pairs = [(name, scale) for name, (scale, _) in SCALES.items() if scale in known]
    if not pairs:
        return None
    table = Table(title=f"evidence: the nearest {NEAREST} learned tasks (routes.json has all)")
    for name in ("task", "learned task", *map(" / ".join, pairs), "distance", "decision"):
        table.add_column(name)
    for route in routes:
        for candidate in sorted(route["candidates"], key=lambda found: _or_infinite(found["distance"]))[:NEAREST]:
            scores = [" / ".join(_distance(candidate["parts"].get(part)) for part in pair) for pair in pairs]
            cells = (route["task"], candidate["task"], *scores, _distance(candidate["distance"]))
            table.add_row(*map(_text, (*cells, _decision(route, candidate))))
    return table


def what_if_table(predictions: Sequence[Prediction]) -> Table:
    """How many copies and bytes other thresholds would have given."""
    table = Table(title="predicted from the recorded distances; after another route, later distances would differ")
    for name in ("threshold from", "copies", "MB"):
        table.add_column(name, justify="right")
    for found in predictions:
        least = "below" if found.least is None else f"{found.least:.3g}"
        table.add_row(*map(_text, (least, found.copies, f"{found.bytes / 1e6:.2f}")))
    return table


def _decision(route: dict[str, Any], candidate: dict[str, Any]) -> str:
    near = _or_infinite(candidate["distance"]) <= _or_infinite(route["threshold"])
    remarks = ["near" if near else "far"]
    if candidate.get("full"):
        remarks.append("its copy is full")
    if candidate["task"] in sources(route):
        remarks.append("the source" if candidate["task"] == route["source"] else "a source")
    return ", ".join(remarks)


def _or_infinite(value: float | None) -> float:
    return inf if value is None else value


def _distance(value: float | None) -> str:
    """A recorded distance; null means that it could not be computed, which counts as infinite."""
    return "∞" if value is None else f"{value:.3g}"


def certificate_line(certificates: Sequence[Certificate], recomputed: bool) -> Text:
    """Whether any learned task has changed, and whether the fingerprints were just recomputed or only read."""
    colour = "green" if certificates and not changed(certificates) else "yellow"
    known = f" (fingerprints {'recomputed' if recomputed else 'as recorded'})" if certificates else ""
    return Text("certificate: ").append(_text(verdict(certificates), colour)).append(known)
