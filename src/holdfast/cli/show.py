"""The command `holdfast show`: prints a run's results, routes and certificate, or how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.text import Text

from holdfast.cli.output import Output, print_json
from holdfast.cli.parsing import parse_words
from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import verdict
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Flag
from holdfast.runs.run import reopen
from holdfast.runs.state import state_of
from holdfast.study.published import published_row
from holdfast.study.run_tables import (
    capacity_lines,
    certificate_line,
    evidence_table,
    matrix_table,
    metrics_line,
    reference_lines,
    routes_table,
    what_if_table,
)
from holdfast.study.what_if import Prediction, what_if


@dataclass(frozen=True)
class ShowCommand:
    """Print a run's results, routes and certificate; for an unfinished run, also how far it is."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run folder."""
    verify: Flag = False
    """Compute the fingerprints of all tasks again from the weights, and compare them with the certificates."""
    what_if: Flag = False
    """Print only what other routing thresholds would have given: copies and bytes, predicted without training."""
    json: Flag = False
    """Print everything as JSON."""


def show_command(words: Sequence[str]) -> None:
    """Prints a run."""
    command = parse_words(ShowCommand, "show", words)
    if command.verify:
        reopen(command.run, "cpu")
    if command.json:
        print_json(run_record(RunFolder(command.run), command.verify))
    elif command.what_if:
        Output().print(what_if_table(_predictions(RunFolder(command.run))))
    else:
        show_run(command.run, command.verify)


def _predictions(folder: RunFolder) -> list[Prediction]:
    """What other thresholds would have given; raises if the run has none to vary, or is not evaluated to its end."""
    matrix = folder.read_matrix()
    found = what_if(folder.read_routes(), matrix, folder.record["config"]) if matrix else []
    if not found:
        raise Mistake(f"{folder.path} has nothing to vary: it needs results, and a routing threshold that is a number")
    return found


def show_run(path: Path, recomputed: bool) -> None:
    """Prints a run; `recomputed` means that its fingerprints were compared with its weights."""
    folder, output = RunFolder(path), Output()
    state, matrix = state_of(folder), folder.read_matrix()
    data_returns, row = folder.record["data_returns"], published_row(folder.record["config"])
    if matrix and matrix.stages:
        output.print(matrix_table(matrix, data_returns, row))
        _print(output, metrics_line(matrix), *reference_lines(matrix, data_returns, row))
        if tasks := tasks_without_results(matrix):
            _print(output, f"no results, since there is no environment and no held-out data: {', '.join(tasks)}")
        if matrix.has_gaps and folder.store.learned:
            _print(output, f"not evaluated after every task: {folder.how_to_go_on()} plays the rest")
        _print(output, *capacity_lines(matrix))
    if routes := folder.read_routes():
        output.print(routes_table(routes))
        if evidence := evidence_table(routes):
            output.print(evidence)
    output.print(certificate_line(folder.read_certificates(), recomputed))
    if folder.further:
        _print(output, f"learned after the plan's tasks: {', '.join(folder.further)}")
    if not state.complete:
        _print(output, *state.lines())
    _print(output, f"folder: {folder.path}")


def tasks_without_results(matrix: Matrix) -> list[str]:
    """The learned tasks that have neither returns nor an offline score after the last stage."""
    last = matrix.stages - 1
    cells = zip(matrix.tasks, matrix.returns[last], matrix.scores[last], strict=True)
    return [task for task, returns, score in list(cells)[: last + 1] if returns is None and score is None]


def _print(output: Output, *texts: str) -> None:
    """Prints lines with names from files: nothing in them is markup, and long ones are not wrapped."""
    for text in texts:
        for line in text.splitlines():
            output.print(Text(printable(line)), soft_wrap=True)


def run_record(folder: RunFolder, recomputed: bool) -> dict[str, Any]:
    """What `show_run` prints, as plain data."""
    state, matrix = state_of(folder), folder.read_matrix()
    return {
        "folder": str(folder.path),
        "complete": state.complete,
        "tasks": state.tasks,
        "learned": state.tasks[: state.learned],
        "further": folder.further,
        "step": state.step,
        "steps": state.steps,
        "next": None if state.complete else state.command,
        "config": folder.record["config"],
        "matrix": matrix.to_json() if matrix else None,
        "routes": folder.read_routes(),
        "what_if": [one.record() for one in what_if(folder.read_routes(), matrix, folder.record["config"])]
        if matrix
        else [],
        "certificate": verdict(folder.read_certificates()),
        "fingerprints": "recomputed" if recomputed else "as recorded",
    }
