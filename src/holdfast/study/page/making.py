"""The sections about where all of it comes from: the policies at work, and how each number was made."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.statistics import RESAMPLES
from holdfast.runs.progress import Screen
from holdfast.runs.run import reopen, threads
from holdfast.study.figures.drawing import shown
from holdfast.study.figures.run import Run
from holdfast.study.figures.study import Setting, Study
from holdfast.study.page.markup import Html, element, joined, listed, more, paragraph, table
from holdfast.study.page.section import Section
from holdfast.study.page.words import counted, those
from holdfast.study.videos import MOST, Video, film


@dataclass(frozen=True)
class Reel:
    """The videos of a setting's first run with weights, or why there are none."""

    setting: Setting
    videos: Sequence[Video]
    reason: str | None = None

    @property
    def size(self) -> int:
        """Bytes in the page."""
        return sum((len(video.webm) + len(video.poster)) * 4 // 3 for video in self.videos)


def reels(found: Study, screen: Screen) -> list[Reel]:
    """Plays every task of every setting once more, to film it."""
    return [_reel(setting, screen) for setting in found.settings]


def _reel(setting: Setting, screen: Screen) -> Reel:
    run = next((run for run in setting.runs if run.has_weights), None)
    if run is None:
        return Reel(setting, (), "the run folders have no weights")
    try:
        suite, learner = reopen(run.path, "cpu")
        videos = []
        with threads(run.record.get("threads", 1)):
            for number, task in enumerate(suite.tasks):
                videos.append(film(learner.policy(task.name), task, learner.plan.protocol, suite.name))
                screen.show(f"film {setting.label}", number + 1, len(suite.tasks), task.name)
    except Mistake as mistake:
        return Reel(setting, (), str(mistake))
    return Reel(setting, videos)


def cinema(reels: Sequence[Reel], room: int) -> Section:
    """The videos, as many as there is room for."""
    ends = accumulate(reel.size for reel in reels)
    shown_reels = [reel for reel, end in zip(reels, ends, strict=True) if reel.videos and end <= room]
    left_out = [reel for reel in reels if reel not in shown_reels]
    reasons = {reel.setting.label: reel.reason or "the page would be too large" for reel in left_out}
    lacking = [
        f"No videos of {those([label for label, why in reasons.items() if why == reason])}: {reason}."
        for reason in dict.fromkeys(reasons.values())
    ]
    said = (
        "The policies as the last task left them, in the first episodes that they were evaluated on; a second episode "
        "follows where the first is short. What was forgotten can be seen here."
    )
    button = element("button", "Play all", type="button", id="play", hidden=True)
    return Section(
        "videos",
        "Videos",
        joined(
            joined(paragraph(said), button) if shown_reels else None,
            *(paragraph(sentence) for sentence in lacking),
            *(_films(reel) for reel in shown_reels),
        ),
    )


def _films(reel: Reel) -> Html:
    films = [_film(reel.setting, video) for video in reel.videos]
    return joined(element("h3", reel.setting.label), element("div", *films, class_="grid films"))


def _film(setting: Setting, video: Video) -> Html:
    width, height = video.size
    player = element(
        "video",
        src=f"data:video/webm;base64,{b64encode(video.webm).decode()}",
        width=str(width),
        height=str(height),
        controls=True,
        muted=True,
        loop=True,
        playsinline=True,
        preload="metadata",
        poster=f"data:image/jpeg;base64,{b64encode(video.poster).decode()}",
        aria_label=f"{setting.label} plays {video.task}: {_outcome(video)}",
    )
    return element("figure", player, element("figcaption", element("b", video.task), " ", _outcome(video)))


def _outcome(video: Video) -> str:
    if len(video.returns) < len(video.seeds):
        return f"the first {MOST} steps of an episode"
    kind = "return" if len(video.seeds) == 1 else "mean return"
    episodes = f"{counted(len(video.seeds), 'episode')}, {kind} {shown(float(np.mean(video.returns)))}"
    return f"{episodes}, {sum(video.successes)} succeeded" if any(video.successes) else episodes


def origins(found: Study) -> Section:
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


def _origin(run: Run) -> Html:
    record, matrix = run.record, run.matrix
    facts = {
        "command": record.get("command") or "from Python",
        "folder": run.name,
        "seed": str(run.seed),
        "preset and budget": f"{matrix.preset}, {matrix.budget}",
        "protocol": _said(matrix.protocol),
        "n of distinct episodes": _said(dict(zip(matrix.tasks, matrix.distinct_episodes[-1], strict=True))),
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
