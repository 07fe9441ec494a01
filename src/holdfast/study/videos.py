"""Short films of a run's policies at work, as they act in the first episodes that they were evaluated on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np

from holdfast.benchmarks.atari.environments import Arcade
from holdfast.benchmarks.panda.arm import ARMS, make_shared
from holdfast.benchmarks.toy.suite import Field
from holdfast.errors import Mistake
from holdfast.evaluation.rollouts import Played, play
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Environments, InTurn, Protocol
from holdfast.tasks.task import Task

ENOUGH, MOST = 48, 150  # frames: another episode follows until there are enough, and one is cut at the most
PAUSE = 6  # frames for which the end of an episode is shown
QUALITY = "36"  # of VP9, 0 the best and 63 the worst
CAMERA = {"target_position": np.array([-0.1, 0.0, 0.15]), "distance": 0.95, "yaw": 45, "pitch": -25}
PIXELS = 160  # across, of a toy's field
SKY, GROUND, GOAL, POINT = (245, 246, 247), (208, 214, 219), (0, 158, 115), (0, 114, 178)

Picture = Callable[[], np.ndarray]  # what the simulator shows now, (H, W, 3) uint8


@dataclass(frozen=True)
class View:
    """A task's simulator with one lane, and a way to look at it."""

    environments: Environments
    picture: Picture
    rate: int  # frames a second


@dataclass(frozen=True)
class Video:
    """One task as a run plays it after its last stage."""

    task: str
    webm: bytes
    poster: bytes  # its first frame, JPEG
    seeds: Sequence[int]  # of the episodes shown
    returns: Sequence[float]  # of those that are shown to their end
    successes: Sequence[bool]
    size: tuple[int, int]  # width, height


def film_task(policy: Policy, task: Task, protocol: Protocol, suite: str) -> Video:
    """Plays a task's first episodes and encodes what is seen."""
    if suite not in VIEWS:
        raise Mistake(f"holdfast cannot draw the suite {suite}")
    view = VIEWS[suite](task, replace(protocol, lanes=1, episodes=1))
    frames: list[np.ndarray] = []
    seeds: list[int] = []
    played: list[Played] = []
    with closing(view.environments):
        while len(frames) < ENOUGH and len(seeds) < protocol.episodes and len(played) == len(seeds):
            seeds.append(protocol.seeds[len(seeds)])
            frames += _episode(policy, task, view, seeds[-1], played)
    returns = [total for totals, *_ in played for total in totals]
    successes = [success for _, _, found, _ in played for success in found]
    height, width, _ = frames[0].shape
    webm, poster = encode(frames, view.rate), jpeg(frames[0])
    return Video(task.name, webm, poster, seeds, returns, successes, (width, height))


def _episode(policy: Policy, task: Task, view: View, seed: int, played: list[Played]) -> Iterator[np.ndarray]:
    """What is seen of one episode; its results are added to `played` if it is shown to its end."""
    playing = play(policy, task, view.environments, [seed])
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


def panda_view(task: Task, protocol: Protocol) -> View:
    """The arm, from a camera beside the table."""
    environments = InTurn(lambda: make_shared(ARMS[task.name].environment), protocol.lanes)
    simulator = environments.environments[0].unwrapped.sim  # type: ignore[attr-defined]
    return View(environments, lambda: simulator.render(320, 240, **CAMERA), rate=8)


def atari_view(task: Task, protocol: Protocol) -> View:
    """The screen as the policy sees it, twice as large, at the speed of the game."""
    environments = task.environments(protocol)
    assert isinstance(environments, Arcade)
    emulator = environments.emulators[0]
    return View(environments, lambda: emulator.frames[-1].repeat(2, 0).repeat(2, 1)[..., None].repeat(3, 2), rate=15)


def toy_view(task: Task, protocol: Protocol) -> View:
    """The field from above, the goal and the point drawn."""
    environments = task.environments(protocol)
    assert isinstance(environments, InTurn)
    field = environments.environments[0]
    assert isinstance(field, Field)
    return View(environments, lambda: draw_field(field), rate=8)


def draw_field(field: Field) -> np.ndarray:
    """The square of a toy task."""
    across = np.linspace(-1.1, 1.1, PIXELS)
    places = np.stack(np.meshgrid(across, -across), axis=-1)  # (H, W, 2), north is up
    picture = np.full((PIXELS, PIXELS, 3), SKY, np.uint8)
    picture[np.abs(places).max(axis=-1) > 1] = GROUND
    for centre, radius, colour in ((field.goal, field.rules.radius, GOAL), (field.position, 0.07, POINT)):
        picture[np.linalg.norm(places - centre, axis=-1) <= radius] = colour
    return picture


VIEWS: dict[str, Callable[[Task, Protocol], View]] = {
    "toy": toy_view,
    "toy-continuous": toy_view,
    "panda3": panda_view,
    "atari5": atari_view,
}
