"""Playing a learned task in its environment, with a video if one is wanted."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from holdfast.agent.own_environment import environments_of, longest_episode, view_of
from holdfast.data.episodes import Dataset
from holdfast.data.files import write_bytes
from holdfast.data.layout import Layout
from holdfast.errors import Mistake
from holdfast.evaluation.film import Film, encode
from holdfast.evaluation.rollouts import Evaluation, evaluate
from holdfast.nets.policy import Policy
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task

LANES = 20  # episodes that are played together at most


def played(
    name: str, policy: Policy, layout: Layout, environment: str, *, episodes: int, video: Path | None
) -> Evaluation:
    """Plays episodes of a task in an environment; the first one is played once more for a video."""
    horizon = max(policy.interface.horizon, longest_episode(environment))
    simulators = environments_of(environment, layout, horizon)
    interface = replace(policy.interface, horizon=horizon)
    task = Task(name, interface, policy.target, no_dataset, simulators)
    protocol = Protocol(episodes=episodes, lanes=min(episodes, LANES))
    if video is not None:
        view = view_of(environment, layout, horizon)
        with closing(view.environments):
            frames = Film(policy, task, view, horizon).frames(protocol.seeds)
            write_bytes(video, encode(frames, view.rate, video.suffix.lower()))
    return evaluate(policy, task, protocol)


def no_dataset() -> Dataset:
    """Raises: a task that is only played has no data."""
    raise Mistake("an agent does not keep the data that it learned from")
