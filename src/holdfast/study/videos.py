"""Short videos of a run's policies in the first episodes of their evaluation."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.film import Film, encode
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import SuiteSpec
from holdfast.tasks.task import Task

ENOUGH, MOST = 48, 150  # frames: another episode follows until there are enough, and one is cut at the most


@dataclass(frozen=True)
class Video:
    """A video of one task after the last stage."""

    task: str
    webm: bytes
    poster: bytes  # its first frame, JPEG
    seeds: Sequence[int]  # of the episodes shown
    returns: Sequence[float]  # of those that are shown to their end
    successes: Sequence[bool]
    size: tuple[int, int]  # width, height


def film_task(policy: Policy, task: Task, protocol: Protocol, spec: SuiteSpec) -> Video:
    """Plays a task's first episodes and encodes the frames."""
    if spec.view is None:
        raise Mistake(f"the suite {spec.name} has no view, so that it cannot be filmed")
    view = spec.view(task, replace(protocol, lanes=1, episodes=1))
    film = Film(policy, task, view, MOST)
    with closing(view.environments):
        frames = list(film.frames(protocol.seeds, ENOUGH))
    returns = [total for totals, *_ in film.played for total in totals]
    successes = [success for _, _, found, _ in film.played for success in found]
    height, width, _ = frames[0].shape
    webm, poster = encode(frames, view.rate), jpeg(frames[0])
    return Video(task.name, webm, poster, film.seeds, returns, successes, (width, height))


def jpeg(frame: np.ndarray) -> bytes:
    """One frame as a picture."""
    from PIL import Image

    content = BytesIO()
    Image.fromarray(frame).save(content, "JPEG", quality=70)
    return content.getvalue()
