"""The section that tells how each number was made."""

from collections.abc import Mapping

from holdfast.evaluation.statistics import RESAMPLES
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.study import Study
from holdfast.study.page.markup import Html, element, joined, listed, more, table
from holdfast.study.page.section import Section


def provenance_section(found: Study) -> Section:
    """How each number was made."""
    runs = [run for setting in found.settings for run in setting.runs]
    return Section(
        "origins",
        "How it was made",
        listed(
            [
                "Every number is computed from run folders: config.json, matrix.json with the return of every episode, "
                "routes.json, certificates.json. Nothing is typed in by hand.",
                "A return is the mean over the episodes of a task, then over seeds. Its interval is a bootstrap: runs "
                f"are drawn with replacement, then episodes within each task of a drawn run, {RESAMPLES:,} times; the "
                "2.5 and 97.5 percentiles are shown. With one run it tells what other episodes might give, not what "
                "another seed might.",
                "n is the number of distinct episodes, which differ in anything observed or done; where it is 1, the "
                "interval tells what other seeds might give, and with one run there is none.",
                "AvgF is the mean over the tasks before the last of the best that a task ever was minus what it is in "
                "the end; 0 means exactly 0.",
            ]
        ),
        (),
        joined(element("h3", "Runs"), *(_origin(run) for run in runs)),
    )


def _origin(run: EvaluatedRun) -> Html:
    record, matrix = run.record, run.matrix
    facts = {
        "command": record.get("command") or "from Python",
        "folder": run.name,
        "seed": str(run.seed),
        "preset and budget": f"{matrix.preset}, {matrix.budget}",
        "protocol": _said(matrix.protocol),
        "n of distinct episodes": _said(
            {matrix.tasks[task]: matrix.distinct_episodes[-1][task] for task in matrix.played()}
        ),
        "targets": _said(dict(zip(matrix.tasks, matrix.targets, strict=True))),
        "data, SHA-256": _said({task: digest[:16] for task, digest in record.get("datasets", {}).items()}),
        "versions": _said(record.get("versions", {})),
        "hardware": _said({name: value for name, value in record.get("hardware", {}).items() if value}),
        "threads": str(record.get("threads", "")),
    }
    rows = [[name, element("code", value) if name in ("command", "folder") else value] for name, value in facts.items()]
    return more(run.name, "how it was made", table(["what", "value"], rows, f"How {run.name} was made"))


def _said(record: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in record.items())
