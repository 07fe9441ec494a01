"""An agent's policy is filmed in its environment, or it is said in one sentence why it cannot be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import av
import gymnasium
import numpy as np
import pytest

from holdfast.agent.agent import Agent
from holdfast.cli.main import main
from tests.recorded_data import DICT, STEPS, Spaces
from tests.test_agent import SETTINGS, learn

SIZE = (45, 64)  # height, width; codecs want even sizes
ACTIONS = gymnasium.spaces.Box(np.array([-3.0, 0.0]), np.array([5.0, 0.5]), dtype=np.float64)


class Filmed(Spaces):
    """An environment whose pictures become brighter with every step."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, render_mode: str | None = None, frame: Any = None, problem: str = "") -> None:
        super().__init__(DICT, ACTIONS)
        self.render_mode, self.frame, self.problem = render_mode, frame, problem

    def render(self) -> Any:
        if self.problem:
            raise RuntimeError(self.problem)
        return np.full((*SIZE, 3), 20 * self.taken, np.uint8) if self.frame is None else self.frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An agent that knows a task, and environments for it."""
    path = tmp_path_factory.mktemp("video") / "agent"
    learn(Agent(path, settings=SETTINGS, device="cpu"), "mine", "dict")
    made = {
        "Filmed-v0": Filmed,
        "Unseen-v0": lambda: Spaces(DICT, ACTIONS),
        "Broken-v0": lambda render_mode=None: Filmed(render_mode, problem="no display"),
        "Odd-v0": lambda render_mode=None: Filmed(render_mode, frame="a picture"),
    }
    for name, entry_point in made.items():
        gymnasium.register(name, entry_point=entry_point, disable_env_checker=True)
    yield path
    for name in made:
        gymnasium.registry.pop(name)


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".gif"])
def test_a_video_shows_the_first_episode_and_changes_no_return(folder, tmp_path, suffix):
    agent, video = Agent(folder, device="cpu"), tmp_path / f"mine{suffix}"
    plain = agent.play("mine", "Filmed-v0", 3)
    assert agent.play("mine", "Filmed-v0", 3, video=video).returns == plain.returns
    with av.open(str(video)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert frames[0].shape == (44, 64, 3)
    brightness = [float(frame.mean()) for frame in frames]
    assert min(np.diff(brightness[: STEPS + 1])) > 10  # every step is shown once, in order
    assert len(frames) == STEPS + 6  # the start, a frame a step, and the end for a while
    assert brightness[-1] == pytest.approx(20 * STEPS, abs=25)  # a GIF has 256 colours


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--env", "Unseen-v0", "--video", "a.mp4"], "cannot be filmed: it has no render mode rgb_array"),
        (["--env", "Broken-v0", "--video", "a.mp4"], "'Broken-v0' cannot be filmed here: no display"),
        (["--env", "Odd-v0", "--video", "a.mp4"], "'Odd-v0' cannot be filmed: it renders"),
        (["--env", "Filmed-v0", "--video", "a.avi"], "give it one of these endings"),
        (["--env", "Filmed-v0", "--video", "folder.mp4"], "is a folder"),
    ],
)
def test_what_cannot_be_filmed_is_said_in_one_sentence(folder, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(SystemExit) as stop:
        main(["agent", "play", str(folder), "mine", "--episodes", "1", *words])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert len(told.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder.mp4"]


def test_the_command_says_what_it_wrote(folder, tmp_path, capsys):
    video = tmp_path / "mine.mp4"
    main(["agent", "play", str(folder), "mine", "--env", "Filmed-v0", "--episodes", "1", "--video", str(video)])
    told = capsys.readouterr().out
    assert f"wrote {video}: the first episode" in told
    assert "over 1 episode" in told
