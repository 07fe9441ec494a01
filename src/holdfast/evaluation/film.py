"""Films: episodes of a policy as a video."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.rollouts import Rollouts, rollout
from holdfast.nets.policy import Policy
from holdfast.tasks.task import Task
from holdfast.tasks.view import View

PAUSE = 6  # frames for which the end of an episode is shown


class Encoding(NamedTuple):
    """How frames are encoded in a kind of file."""

    codec: str
    pixels: str
    options: dict[str, str]


ENCODINGS = {  # by a file's suffix; the quality (crf) of VP9 is 0 to 63 and that of H.264 0 to 51, 0 the best
    ".mp4": Encoding("libx264", "yuv420p", {"crf": "23"}),
    ".webm": Encoding("libvpx-vp9", "yuv420p", {"crf": "36", "b:v": "0", "cpu-used": "5"}),
    ".gif": Encoding("gif", "rgb8", {}),
}


@dataclass
class Film:
    """A policy that plays episodes of a task in front of a camera."""

    policy: Policy
    task: Task
    view: View
    most: int
    """Frames after which an episode is cut."""
    seeds: list[int] = field(default_factory=list)
    """Of the episodes filmed so far."""
    played: list[Rollouts] = field(default_factory=list)
    """The results of those that were filmed to their end."""

    def frames(self, seeds: Sequence[int], enough: int = 1) -> Iterator[np.ndarray]:
        """The frames of the first seed's episode; another one follows until there are enough, or one was cut."""
        count = 0
        for seed in seeds:
            self.seeds.append(seed)
            for frame in self._episode(seed):
                count += 1
                yield frame
            if count >= enough or len(self.played) < len(self.seeds):
                return

    def _episode(self, seed: int) -> Iterator[np.ndarray]:
        playing = rollout(self.policy, self.task, self.view.environments, [seed])
        for _ in range(self.most):
            try:
                next(playing)
            except StopIteration as end:
                self.played.append(end.value)
                yield from [self.view.picture()] * PAUSE
                return
            yield self.view.picture()


def check_video(path: Path) -> None:
    """Raises unless a video can be written to a file of this name."""
    if path.suffix.lower() not in ENCODINGS:
        raise Mistake(f"a video is {', '.join(ENCODINGS)}, and not {path.name}: give it one of these endings")
    _av()


def encode(frames: Iterable[np.ndarray], rate: int, suffix: str = ".webm") -> bytes:
    """Frames of one size, (H, W, 3) uint8, as the content of a video file."""
    encoding, content, stream = ENCODINGS[suffix], BytesIO(), None
    av = _av()
    with av.open(content, "w", format=suffix[1:]) as container:
        for frame in frames:
            height, width = (size - size % 2 for size in frame.shape[:2])  # codecs take even sizes
            if stream is None:
                stream = container.add_stream(encoding.codec, rate=rate, options=encoding.options)
                stream.width, stream.height, stream.pix_fmt = width, height, encoding.pixels
            cropped = np.ascontiguousarray(frame[:height, :width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(cropped, format="rgb24")))
        assert stream, "a video has frames"
        container.mux(stream.encode())
    return content.getvalue()


def _av():  # type: ignore[no-untyped-def]
    """PyAV, which is optional."""
    try:
        import av
    except ImportError:
        raise Mistake("videos need PyAV: pip install 'holdfast[report]'") from None
    return av
