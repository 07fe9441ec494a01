"""Short videos of a run's policies in the first episodes of their evaluation."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.rollouts import Rollouts, rollout
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import SuiteSpec
from holdfast.tasks.task import Task
from holdfast.tasks.view import View

ENOUGH, MOST = 48, 150  # frames: another episode follows until there are enough, and one is cut at the most
PAUSE = 6  # frames for which the end of an episode is shown
QUALITY = "36"  # of VP9, 0 the best and 63 the worst


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
    frames: list[np.ndarray] = []
    seeds: list[int] = []
    played: list[Rollouts] = []
    with closing(view.environments):
        while len(frames) < ENOUGH and len(seeds) < protocol.episodes and len(played) == len(seeds):
            seeds.append(protocol.seeds[len(seeds)])
            frames += _episode(policy, task, view, seeds[-1], played)
    returns = [total for totals, *_ in played for total in totals]
    successes = [success for _, _, found, _ in played for success in found]
    height, width, _ = frames[0].shape
    webm, poster = encode(frames, view.rate), jpeg(frames[0])
    return Video(task.name, webm, poster, seeds, returns, successes, (width, height))


def _episode(policy: Policy, task: Task, view: View, seed: int, played: list[Rollouts]) -> Iterator[np.ndarray]:
    """The frames of one episode; its results are added to `played` if it is shown to its end."""
    playing = rollout(policy, task, view.environments, [seed])
    for _ in range(MOST):
        try:
            next(playing)
        except StopIteration as end:
            played.append(end.value)
            yield from [view.picture()] * PAUSE
            return
        yield view.picture()


def encode(frames: Sequence[np.ndarray], rate: int) -> bytes:
    """Frames as WebM with VP9, which browsers play."""
    try:
        import av
    except ImportError:
        raise Mistake("videos need PyAV: pip install 'holdfast[report]'") from None
    content = BytesIO()
    height, width, _ = frames[0].shape
    with av.open(content, "w", format="webm") as container:
        stream = container.add_stream("libvpx-vp9", rate=rate, options={"crf": QUALITY, "b:v": "0", "cpu-used": "5"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return content.getvalue()


def jpeg(frame: np.ndarray) -> bytes:
    """One frame as a picture."""
    from PIL import Image

    content = BytesIO()
    Image.fromarray(frame).save(content, "JPEG", quality=70)
    return content.getvalue()
