"""The sections about the network: routing, shared weights, capacity and certificates."""

from holdfast.agent.routes import route_reason, sources
from holdfast.evaluation.certificates import verdict
from holdfast.study.figures.capacity import capacity_figure
from holdfast.study.figures.evaluated_run import EvaluatedRun
from holdfast.study.figures.heat import overlap_figure
from holdfast.study.figures.routing import RouteRecord, routing_figure
from holdfast.study.figures.study import Setting, Study
from holdfast.study.figures.thresholds import predictions_of, thresholds_figure
from holdfast.study.page.markup import Html, element, joined, listed, more, paragraph, table
from holdfast.study.page.section import Section
from holdfast.study.page.story import listed_settings


def routing_section(found: Study) -> Section:
    """Which copy every task went to, and why."""
    decided = [setting for setting in found.settings if setting.runs[0].routes]
    others = [setting.label for setting in found.settings if setting not in decided]
    said = (
        "Lanes are copies of the network, tasks stand in the order they arrived, an arrow comes from the task whose "
        "mask the new one started from. Below, each decision: how far the new task was from every learned one, the "
        "nearest filled; a task within the bar is near enough to share its copy."
    )
    predicted = (
        "With a dashed line: how many copies other thresholds would have given, and in how many bytes, by the recorded "
        "distances. It is a prediction without training: after another decision, later distances would differ."
    )
    varied = [setting for setting in decided if predictions_of(setting.runs[0])]
    return Section(
        "routes",
        "Routing",
        joined(
            paragraph(said) if decided else None,
            paragraph(predicted) if varied else None,
            _not_so(others, "decided nothing: no masks, no copies to choose"),
        ),
        [
            *(routing_figure(found, setting, setting.runs[0]) for setting in decided),
            *(thresholds_figure(setting, setting.runs[0]) for setting in varied),
        ],
        element("div", *(_reasons(setting) for setting in decided if _had_a_choice(setting)), class_="grid reasons"),
    )


def _reasons(setting: Setting) -> Html:
    """Every decision of every run in words."""
    title = element("h3", f"Why: {setting.label}")
    first = setting.runs[0]
    told = [title, listed([route_reason(route) for route in first.routes])]
    for run in setting.runs[1:]:
        same = [_decision(route) for route in run.routes] == [_decision(route) for route in first.routes]
        alike = "decided the same" if same else "decided otherwise"
        reasons = listed([route_reason(route) for route in run.routes])
        told.append(more(f"Seed {run.seed} {alike}", setting.label, reasons))
    return element("div", *told)


def _had_a_choice(setting: Setting) -> bool:
    return any(route["candidates"] for run in setting.runs for route in run.routes)


def _decision(route: RouteRecord) -> tuple[str, int, list[str]]:
    return route["task"], route["copy"], sources(route)


def shared_weights_section(found: Study) -> Section:
    """Which weights tasks share."""
    sparse = [setting for setting in found.settings if setting.runs[0].matrix.accounts]
    seen = [setting for setting in sparse if setting.runs[0].overlap]
    unseen = [setting.label for setting in sparse if setting not in seen]
    others = [setting.label for setting in found.settings if setting not in sparse]
    said = "Of the weights that the task of a row uses, the share that the task of a column uses as well. "
    blank = "Tasks in different copies share none, and have no number."
    return Section(
        "masks",
        "Shared weights",
        joined(
            paragraph(said + blank) if seen else None,
            _not_so(unseen, "came without weights, so that the masks cannot be compared; what is reused stands below"),
            _not_so(others, "had no masks"),
        ),
        [overlap_figure(setting, setting.runs[0]) for setting in seen],
    )


def capacity_section(found: Study) -> Section:
    """How much of each copy is used, and the bytes on disk."""
    sparse = [setting for setting in found.settings if setting.runs[0].matrix.accounts]
    said = (
        "Weights of a copy belong to the task that claimed them first; later tasks may use but not change them. A task "
        "adds its mask, in at most one bit a weight, the weights that it claimed, and what is private to it."
    )
    rows = [
        [setting.label, *(_bytes(run, part) for part in ("weights", "memory", "total")), _each(setting)]
        for setting in found.settings
        for run in setting.runs[:1]
    ]
    columns = ["setting", "weights", "only to learn on", "total bytes", "bytes a task"]
    return Section(
        "capacity",
        "Capacity",
        joined(table(columns, rows, "Bytes on disk"), paragraph(said) if sparse else None),
        [capacity_figure(found, setting, setting.runs[0]) for setting in sparse],
    )


def _bytes(run: EvaluatedRun, part: str) -> str:
    """The bytes of a part, if they are recorded."""
    return f"{run.matrix.bytes[part]:,}" if part in run.matrix.bytes else ""


def _each(setting: Setting) -> str:
    matrix = setting.runs[0].matrix
    return f"{matrix.bytes['total'] / len(matrix.tasks):,.0f}"


def certificate_section(found: Study) -> Section:
    """Whether learned tasks are unchanged."""
    said = (
        "After every task a fingerprint is taken of all that acts in each task learned so far: weights under its mask, "
        "private parameters, normaliser. Equal fingerprints are equal policies."
    )
    rows = [
        [setting.label, str(run.seed), verdict(run.certificates), *_fingerprints(setting, number)]
        for setting in found.settings
        for number, run in enumerate(setting.runs)
    ]
    columns = ["setting", "seed", "certificate", "first task, first and last fingerprint"]
    return Section("certificates", "Certificates", joined(paragraph(said), table(columns, rows, "Certificates")))


def _fingerprints(setting: Setting, number: int) -> list[Html]:
    run = setting.runs[number]
    own = [found.fingerprint[:12] for found in run.certificates if found.task == setting.tasks[0]]
    return [element("code", " → ".join([own[0], own[-1]]) if own else "")]


def _not_so(labels: list[str], what: str) -> Html | None:
    return paragraph(f"{listed_settings(labels)} {what}.") if labels else None
