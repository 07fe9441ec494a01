"""Learners side by side in a Markdown table, the published results under ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import avg_gap, norm_avg
from holdfast.report.groups import Group, Result, group, read
from holdfast.report.published import main_rows, published_at
from holdfast.report.summary import Estimate, Summary, summarise
from holdfast.runs.files import read_json

Cells = dict[str, str]  # by column
EXPERT = "expert.json"  # beside the runs, what experts/starts.py writes


def table(root: Path) -> str:
    """The table of all runs under a folder, and under it the runs that each row is made of."""
    results = read(root)
    groups, suite = group(results), results[0].plan["suite"]
    tasks = list(results[0].plan["order"])
    expert = read_json(root / EXPERT) if (root / EXPERT).exists() else None
    rows = [_data_row(results, tasks)]
    played = next((one.matrix for one in results if one.matrix), None)
    if expert and played:
        rows.append(_expert_row(expert, played))
    rows += _all_rows(suite, groups, _seeds(results), expert)
    rows += _missing_rows(suite, groups)
    columns = ["learner", "seeds", *tasks, "NormAvg", "AvgGap", "behind the expert", "AvgF", "copies", "MB", "episodes"]
    used = [column for column in columns if any(column in row for row in rows)]
    return "\n".join([*markdown(used, rows), "", *_sources(groups)])


def markdown(columns: Sequence[str], rows: Sequence[Cells]) -> list[str]:
    """The lines of a table; the first column is text, the others are numbers."""
    rule = ["---", *("--:" for _ in columns[1:])]
    lines = [columns, rule, *([row.get(column, "") for column in columns] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _seeds(results: Sequence[Result]) -> list[int]:
    return sorted({result.plan["seed"] for result in results})


def _data_row(results: Sequence[Result], tasks: Sequence[str]) -> Cells:
    """What the recorded episodes themselves earned."""
    known = next((one for one in results if one.matrix and set(tasks) <= set(one.data_returns)), None)
    if known is None or known.matrix is None:
        return {"learner": "the data itself", "seeds": "missing"}
    means, targets = [known.data_returns[task] for task in known.matrix.tasks], known.matrix.targets
    row = {task: number(mean) for task, mean in zip(known.matrix.tasks, means, strict=True)}
    share = norm_avg(means, targets)
    shares = {} if share is None else {"NormAvg": number(share)}
    return {"learner": "the data itself", **row, **shares, "AvgGap": number(avg_gap(means, targets))}


def _expert_row(expert: Mapping[str, Any], matrix: Matrix) -> Cells:
    """What the expert that made the data earns from the starts that learners are evaluated from."""
    means = [float(np.mean(expert["returns"][task])) for task in matrix.tasks]
    rates = [f"{100 * np.mean(expert['successes'][task]):.3g} %" for task in matrix.tasks]
    rows = zip(matrix.tasks, means, rates, strict=True)
    cells = {task: f"{number(mean)}<br>{rate}" for task, mean, rate in rows}
    gap = number(avg_gap(means, matrix.targets))
    return {"learner": "the expert, same starts", **cells, "AvgGap": gap, "behind the expert": "0"}


def _all_rows(
    suite: str, groups: Sequence[Group], seeds: Sequence[int], expert: Mapping[str, Any] | None
) -> list[Cells]:
    """Ours, and under the last of those that it is for, the published row."""
    rows = []
    above = [published_at(suite, found.learner, found.routing) for found in groups]
    for found, row, following in zip(groups, above, [*above[1:], None], strict=True):
        rows.append(_our_row(found, seeds, expert))
        if row is not None and row != following:
            rows.append(_published_row(row))
    return rows


def _our_row(found: Group, seeds: Sequence[int], expert: Mapping[str, Any] | None) -> Cells:
    cells = {"learner": found.label, "seeds": _seeds_cell(found, seeds)}
    return cells | (_cells(summarise(found.matrices, expert)) if found.matrices else {})


def _seeds_cell(found: Group, seeds: Sequence[int]) -> str:
    there = [result.plan["seed"] for result in found.results if result.matrix]
    missing = [str(seed) for seed in seeds if seed not in there]
    have = ", ".join(str(seed) for seed in there)
    return f"{have} ({', '.join(missing)} missing)".strip() if missing else have


def _cells(summary: Summary) -> Cells:
    fewest, most = summary.copies
    shares = {} if summary.normalised is None else {"NormAvg": estimate(summary.normalised)}
    return {
        **{task: _task_cell(summary, task) for task in summary.returns},
        **shares,
        "AvgGap": estimate(summary.gap),
        **({"behind the expert": estimate(summary.behind)} if summary.behind else {}),
        "AvgF": number(summary.forgotten),
        "copies": str(most) if fewest == most else f"{fewest} to {most}",
        "MB": f"{summary.bytes / 1e6:.2f}",
        "episodes": str(summary.episodes),
    }


def _task_cell(summary: Summary, task: str) -> str:
    success = summary.success.get(task)
    return estimate(summary.returns[task]) + (f"<br>{share(success)}" if success else "")


def _published_row(row: Mapping[str, Any]) -> Cells:
    numbers = {
        name: number(value) for name, value in row.items() if isinstance(value, float | int) and name != "copies"
    }
    copies = {"copies": str(row["copies"])} if "copies" in row else {}
    return {"learner": f"*published: {row['method']}*", **numbers, **copies}


def _missing_rows(suite: str, groups: Sequence[Group]) -> list[Cells]:
    """Published learners that no run here is of."""
    ours = {found.learner for found in groups}
    rows = [row for row in main_rows(suite) if row["method"].split()[0] not in ours]
    return [cells for row in rows for cells in ({"learner": row["method"], "seeds": "missing"}, _published_row(row))]


def _sources(groups: Sequence[Group]) -> list[str]:
    """Which runs each row is made of."""
    return [f"- {found.label}: {', '.join(f'`{result.name}`' for result in found.results)}" for found in groups]


def number(value: float) -> str:
    """Three digits after the point, fewer where the number is large, none for zero."""
    digits = 3 - sum(abs(value) >= bound for bound in (10, 100, 1000))
    return f"{value:.{digits}f}" if value else "0"


def estimate(found: Estimate) -> str:
    """A number and its interval."""
    if found.interval is None:
        return number(found.value)
    low, high = found.interval
    return f"{number(found.value)} [{number(low)}, {number(high)}]"


def share(found: Estimate) -> str:
    """A rate and its interval, in per cent."""
    low, high = found.interval or (found.value, found.value)
    return f"{100 * found.value:.3g} % [{100 * low:.3g}, {100 * high:.3g}]"
