"""The sections about results: in words, as a table, and after every stage."""

from holdfast.study.figures.curves import learning_figure, loss_figure
from holdfast.study.figures.drawing import typeset
from holdfast.study.figures.front import front_figure
from holdfast.study.figures.heat import matrix_figure
from holdfast.study.figures.study import Setting, Study
from holdfast.study.page.markup import Child, Html, element, joined, paragraph, table
from holdfast.study.page.section import Section
from holdfast.study.page.story import counted, story
from holdfast.study.summary import Estimate, fewest_to_most
from holdfast.study.table_formats import Style, notes_of, rows_of
from holdfast.study.tables import make_table, records_of

PLAIN = Style({}, "published: {}", "{} ({})", "-")  # the page escapes text itself


def summary_section(found: Study) -> Section:
    """The results in a few sentences."""
    return Section("summary", "In short", joined(*(paragraph(sentence) for sentence in story(found))))


def final_section(found: Study) -> Section:
    """One row per setting, after the last task."""
    normed = any(setting.summary.normalised for setting in found.settings)
    columns = [
        *("setting", "seeds", *found.tasks),
        *(["NormAvg"] if normed else []),
        *("AvgGap", "AvgF", "copies", "MB", "n"),
    ]
    rows = [_cells(at + 1, setting, found.tasks, normed) for at, setting in enumerate(found.settings)]
    measures = "NormAvg is the mean share of the target in per cent, AvgGap" if normed else "AvgGap is"
    explained = (
        "Mean returns after the last task; below them 95 % intervals, and the share of episodes that succeed where a "
        f"task knows success. {measures} the mean distance to the target, AvgF what was forgotten, n the number of "
        "distinct episodes of a task in a run."
    )
    return Section("results", "Results", joined(paragraph(explained), table(columns, rows, "Results", sortable=True)))


def _cells(number: int, setting: Setting, tasks: list[str], normed: bool) -> list[Child]:
    summary = setting.summary
    return [
        joined(element("span", str(number), class_="index"), " ", setting.label),
        ", ".join(str(run.seed) for run in setting.runs),
        *(_task(setting, task) for task in tasks),
        *([_estimate(summary.normalised) if summary.normalised else ""] if normed else []),
        _estimate(summary.gap) if summary.gap else "",
        typeset(summary.forgetting.value) if summary.forgetting else "" if summary.joint else "not measured",
        fewest_to_most(summary.copies),
        typeset(summary.bytes / 1e6),
        fewest_to_most(summary.distinct.values()),
    ]


def _task(setting: Setting, task: str) -> Child:
    summary = setting.summary
    if task not in summary.returns:
        return ", ".join(f"{name} {typeset(value)}" for name, value in summary.scores.get(task, {}).items())
    success = summary.success.get(task)
    rate = element("small", f"{100 * success.value:.3g} % succeed") if success else None
    return joined(_estimate(summary.returns[task]), rate)


def _estimate(found: Estimate) -> Html:
    """A number, and below it its 95 % confidence interval."""
    between = " to ".join(typeset(end) for end in found.interval or ())
    return joined(typeset(found.value), element("small", between) if between else None)


def success_section(found: Study) -> Section:
    """The table of `holdfast table --table success`, with its notes."""
    made = make_table("success", records_of(found.results))
    rows: list[list[Child]] = [list(row.cells) for row in rows_of(made, PLAIN)]
    notes = element("ul", *(element("li", note) for note in notes_of(made)))
    shown = table(list(made.columns), rows, "Beside other publications")
    return Section("success", "Beside other publications", joined(paragraph(made.title), shown, notes))


def trade_off_section(found: Study) -> Section:
    """Return, bytes and forgetting of several settings against each other."""
    said = (
        "Return, bytes and forgetting: upwards is better, to the left is smaller, circles forget nothing. Rings mark "
        "the settings that no other with the same tasks, targets and protocol beats in all three at once; bars are "
        "95 % intervals."
    )
    names = element("ol", *(element("li", setting.label) for setting in found.settings))
    return Section("trade", "Trade-off", paragraph(said), [front_figure(found)], names)


def matrix_section(found: Study) -> Section:
    """The performance matrix of every setting."""
    said = (
        "Each row is what the learner earns on every task so far after learning one more. Deeper blue is nearer to "
        f"{found.reference_name}; the number is the mean return. “=” marks results carried over from an earlier "
        "stage: all that acts in the task was equal to the bit, and so were the episodes."
    )
    if any(setting.has_gaps for setting in found.settings):
        said += " Where a cell is empty, the task was not played after that stage."
    drawings = [matrix_figure(found, setting) for setting in found.settings]
    return Section("matrix", "After every task", paragraph(said), drawings)


def curves_section(found: Study) -> Section:
    """The results over the stages, as in the publication's appendix."""
    said = (
        f"The background is the task being trained, a line is a task in the colour of its own background. 1 is "
        f"{found.reference_name}; where returns are negative the fraction is turned round, so that less is worse. "
        "Tasks are evaluated after stages and not in between, so a line has at most one point a stage"
    )
    several = any(len(setting.runs) > 1 for setting in found.settings)
    seeds = "; thin lines are single seeds." if several else "."
    drawings = [learning_figure(found, setting) for setting in found.settings]
    return Section("curves", "Learning curves", paragraph(said + seeds), drawings)


def loss_section(found: Study) -> Section:
    """The loss within each stage, of every setting's first run."""
    known = [setting for setting in found.settings if setting.runs[0].losses]
    lacking = len(found.settings) - len(known)
    said = "How the training loss fell within each task, in the first run of each setting."
    if lacking:
        said += f" {counted(lacking, 'setting')} kept no losses of single tasks."
    return Section("loss", "Loss", paragraph(said), [loss_figure(found, one, one.runs[0]) for one in known])
