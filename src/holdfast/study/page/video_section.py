"""The section with videos of the policies."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from holdfast.agent.progress import Screen
from holdfast.errors import Mistake
from holdfast.runs.run import reopen, threads
from holdfast.study.figures.drawing import typeset
from holdfast.study.figures.study import Setting, Study
from holdfast.study.page.markup import Html, element, joined, paragraph
from holdfast.study.page.section import Section
from holdfast.study.page.story import counted, listed_settings
from holdfast.study.videos import MOST, Video, film_task


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


def film_runs(found: Study, screen: Screen) -> list[Reel]:
    """Plays every task of every setting once more, to film it."""
    return [_reel(setting, screen) for setting in found.settings]


def _reel(setting: Setting, screen: Screen) -> Reel:
    run = next((run for run in setting.runs if run.has_weights), None)
    if run is None:
        return Reel(setting, (), "the run folders have no weights")
    try:
        suite, learner = reopen(run.path, "cpu")
        videos, played = [], [task for task in suite.tasks if task.environments]
        with threads(run.record.get("threads", 1)):
            for number, task in enumerate(played):
                videos.append(film_task(learner.policy(task.name), task, learner.plan.protocol, suite.spec))
                screen.show(f"film {setting.label}", number + 1, len(played), task.name)
    except Mistake as mistake:
        return Reel(setting, (), str(mistake))
    return Reel(setting, videos)


def video_section(reels: Sequence[Reel], room: int) -> Section:
    """As many videos as there is room for."""
    ends = accumulate(reel.size for reel in reels)
    shown_reels = [reel for reel, end in zip(reels, ends, strict=True) if reel.videos and end <= room]
    left_out = [reel for reel in reels if reel not in shown_reels]
    reasons = {reel.setting.label: reel.reason or "the page would be too large" for reel in left_out}
    lacking = [
        f"No videos of {listed_settings([label for label, why in reasons.items() if why == reason])}: {reason}."
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
    episodes = f"{counted(len(video.seeds), 'episode')}, {kind} {typeset(float(np.mean(video.returns)))}"
    return f"{episodes}, {sum(video.successes)} succeeded" if any(video.successes) else episodes
