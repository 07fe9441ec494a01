"""Agents small enough for a law to be checked in a second, and all that they are."""

from pathlib import Path
from typing import Any

import numpy as np

from holdfast.agent.agent import Agent, Learned
from tests.recorded_data import ENVIRONMENTS, as_dicts, play
from tests.tiny import SMALL

SETTINGS = {name: value for name, value in SMALL.items() if name.startswith(("net.", "fit."))}


def new_agent(path: Path, learner: str | None = None, **settings: Any) -> Agent:
    """An agent that has learned nothing yet; settings are dotted names with __ for the dots."""
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return Agent(path, learner, settings={**SETTINGS, **own}, device="cpu")


def learn(agent: Agent, name: str, kind: str, episodes: int = 3, **more: Any) -> Learned:
    """Learns a task from a few episodes of random actions."""
    return agent.learn(name, as_dicts(play(ENVIRONMENTS[kind], episodes)), budget="smoke", quiet=True, **more)


def actions(agent: Agent, name: str, kind: str) -> bytes:
    """What the policy of a task with vector observations does on recorded ones."""
    policy, episode = agent.policy(name), play(ENVIRONMENTS[kind], 1)[0]
    policy.reset()
    acted = [policy.act(episode.observations[step], 1.0) for step in range(len(episode.rewards))]
    return b"".join(np.asarray(action).tobytes() for action in acted)


def state(agent: Agent) -> dict[str, Any]:
    """All that an agent is, by hashes of its tensors; without the names of files and the time of learning."""
    agent.folder.store.load()
    index = agent.folder.store.index
    certificates = [one for one in agent.folder.read_certificates() if one.stage == len(index.stages) - 1]
    record = index.as_past(certificates).to_json()
    for stage in record["stages"]:
        stage["files"] = {name: file["sha256"] for name, file in stage["files"].items()}
    for note in record.get("records", {}).values():
        note["learned_at"] = ""
    return record if index.stages else {}
