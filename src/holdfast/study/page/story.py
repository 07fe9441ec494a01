"""The results of runs in plain sentences."""

from collections.abc import Sequence

from holdfast.study.figures.drawing import typeset
from holdfast.study.figures.front import FrontPoint, front_points, return_score
from holdfast.study.figures.study import Setting, Study, Terms
from holdfast.study.groups import OLDER
from holdfast.study.summary import fewest_to_most

FEW = 6


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed_words(words: Sequence[str]) -> str:
    """Words joined with commas and "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def listed_settings(labels: Sequence[str]) -> str:
    """Settings by name if they are few, otherwise their number."""
    return listed_words(labels) if len(labels) <= FEW else f"{len(labels)} settings"


def story(found: Study) -> list[str]:
    """The results in a few sentences."""
    return [what_was_done(found), *what_was_forgotten(found), *what_is_best(found), *what_is_missing(found)]


def what_was_done(found: Study) -> str:
    """How many runs, learners, tasks and episodes there are."""
    runs = [run for setting in found.settings for run in setting.runs]
    fewest = min(setting.summary.episodes for setting in found.settings)
    learners = counted(len({setting.learner for setting in found.settings}), "learner")
    carried = any(origin is not None for run in runs for row in run.matrix.carried for origin in row)
    same = "; where nothing that acts in a task had changed, its result was carried over" if carried else ""
    episodes = f"Each was played in at least {counted(fewest, 'distinct episode')}."
    played = "After every task all tasks so far were played"
    if gaps := [setting.label for setting in found.settings if setting.has_gaps]:
        played += f" (of {listed_settings(gaps)} not all of them, so that AvgF is not measured)"
    return (
        f"{counted(len(runs), 'run')} of {learners} learned {_tasks(found)}. {played}{same}. {episodes}{_unsure(found)}"
    )


def _tasks(found: Study) -> str:
    """The tasks that were learned; settings may have learned different ones."""
    counts = [len(setting.tasks) for setting in found.settings]
    learned = f"{counted(len(found.tasks), 'task')} of {found.suite} one after another: {listed_words(found.tasks)}"
    return learned if min(counts) == len(found.tasks) else f"{fewest_to_most(counts)} of {learned}"


def _unsure(found: Study) -> str:
    """Which means have no interval."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for setting in found.settings:
        if setting.summary.gap and setting.summary.gap.interval is None:
            groups.setdefault(_bare(setting), []).append(setting.label)
    said = [
        f"no intervals{f' of {listed_settings(labels)}' if len(labels) < len(found.settings) else ''} are given"
        + (f" in {listed_words(tasks)} and over all" if tasks else "")
        for tasks, labels in sorted(groups.items())
    ]
    return f" One episode of one run says nothing about others, so {', and '.join(said)}." if said else ""


def _bare(setting: Setting) -> tuple[str, ...]:
    """The tasks whose means have no interval; empty if no task has one."""
    means = setting.summary.returns
    bare = tuple(task for task in means if means[task].interval is None)
    return bare if len(bare) < len(means) else ()


def what_was_forgotten(found: Study) -> list[str]:
    """Which settings forgot nothing, and which forgot most."""
    kept = [setting.label for setting in found.settings if setting.summary.forgotten == 0]
    lost = sorted((setting for setting in found.settings if _forgotten(setting) > 0), key=_forgotten)
    joint = [setting.label for setting in found.settings if setting.runs[0].matrix.joint]
    said = []
    if kept:
        said.append(f"Exactly nothing was forgotten by {_all_of(found, kept)}.")
    elif lost and not joint:
        said.append("Every learner forgot something.")
    if lost:
        most = lost[-1]
        how = "AvgF" if most.summary.forgetting else "from right after learning to the end"
        said.append(
            f"Most was forgotten by {most.label}: {typeset(most.summary.forgotten)} of return on average ({how})."
        )
    if joint:
        said.append(f"All tasks were learned at once by {_all_of(found, joint)}, so there was nothing to forget.")
    return [" ".join(said)]


def _all_of(found: Study, labels: Sequence[str]) -> str:
    """Settings by name, or by learner if they are many and all settings of these learners."""
    learners = dict.fromkeys(setting.learner for setting in found.settings if setting.label in labels)
    whole = {setting.label for setting in found.settings if setting.learner in learners} == set(labels)
    return f"any setting of {listed_words(list(learners))}" if len(labels) > FEW and whole else listed_words(labels)


def _forgotten(setting: Setting) -> float:
    return setting.summary.forgotten or 0.0


def what_is_best(found: Study) -> list[str]:
    """The best final mean, and the smallest setting that forgets nothing, among comparable settings."""
    if len(found.settings) == 1:
        return [f"In the end it has {cost(found.settings[0])}, and {measured(found.settings[0])}."]
    ranked = sorted(front_points(found, return_score(found)), key=lambda place: -place.worth.value)
    terms = list(dict.fromkeys(setting.terms for setting in found.settings))
    alike = [[place for place in ranked if place.setting.terms == each] for each in terms]
    return [_best(_among(found, each, terms), rivals) for each, rivals in zip(terms, alike, strict=True)]


def _among(found: Study, own: Terms, terms: Sequence[Terms]) -> str:
    """The beginning of a sentence about comparable settings: what distinguishes them from the others."""
    said = []
    if len({each.tasks for each in terms}) > 1:
        said.append(f"learned {listed_words([task for task in found.tasks if task in own.tasks])}")
    if len({each.protocol for each in terms}) > 1:
        said.append(f"were played under {own.protocol}")
    if sum((each.tasks, each.protocol) == (own.tasks, own.protocol) for each in terms) > 1:
        targets = dict(own.targets)
        said.append(
            f"had the targets {listed_words([typeset(targets[task]) for task in found.tasks if task in targets])}"
        )
    return f"Of those that {listed_words(said)}, the" if said else "The"


def _best(begin: str, ranked: Sequence[FrontPoint]) -> str:
    top, near = ranked[0].setting, [place.setting.label for place in ranked[1:] if intervals_overlap(place, ranked[0])]
    said = f"{begin} best mean in the end is that of {top.label}: {measured(top)}, with {cost(top)}."
    said += f" The intervals of {listed_settings(near)} overlap with it." if near else ""
    kept = [place.setting for place in ranked if place.setting.summary.forgotten == 0]
    least = min(kept, key=lambda setting: setting.summary.bytes, default=top)
    if least is not top:
        said += f" The smallest that forgets nothing is {least.label}: {measured(least)}, with {cost(least)}."
    return said


def intervals_overlap(one: FrontPoint, other: FrontPoint) -> bool:
    """Whether their 95 % intervals overlap, so that either may be better."""
    ours, theirs = one.worth.interval, other.worth.interval
    return bool(ours and theirs and ours[0] <= theirs[1] and theirs[0] <= ours[1])


def measured(setting: Setting) -> str:
    """The main metric of a setting with its interval."""
    summary = setting.summary
    name, value = ("AvgGap", summary.gap) if summary.normalised is None else ("NormAvg", summary.normalised)
    assert value is not None  # a page has only runs with returns
    between = f" (95 %: {typeset(value.interval[0])} to {typeset(value.interval[1])})" if value.interval else ""
    return f"{name} {typeset(value.value)}{between}"


def cost(setting: Setting) -> str:
    """The copies and bytes of a setting."""
    return f"{copies(setting)} and {typeset(setting.summary.bytes / 1e6)} MB"


def copies(setting: Setting) -> str:
    """The number of copies over its runs."""
    fewest, most = setting.summary.copies
    return counted(most, "copy", "copies") if fewest == most else f"{fewest} to {most} copies"


def what_is_missing(found: Study) -> list[str]:
    """Runs that are not shown."""
    newer = [run for setting in found.settings for run in setting.runs if run.instead]
    said = [f"{run.name} is shown, not {listed_words(run.instead)}: {OLDER}." for run in newer]
    if not found.unfinished:
        return said
    return [*said, f"Not shown, since not evaluated to its end: {listed_words(found.unfinished)}."]
