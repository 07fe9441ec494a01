"""The returns of the Panda experts in the episodes that learners are evaluated in.

python -m holdfast.benchmarks.panda.expert_returns --episodes 100 --out results/panda3/expert.json
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from holdfast.benchmarks.panda.arm import ARMS, make_environment
from holdfast.benchmarks.panda.recording import EXPERTS
from holdfast.tasks.environments import Protocol
from holdfast.tasks.recording import play_episode


@dataclass(frozen=True)
class ExpertReturnsConfig:
    """The episodes, and the output file."""

    out: Path
    """JSON file to write every episode's return and success to."""
    episodes: int = 100
    """Number of episodes per task, from the first seed of an evaluation on."""


def main() -> None:
    """Plays all episodes and writes the results."""
    config = tyro.cli(ExpertReturnsConfig, description=__doc__)
    protocol = Protocol(episodes=config.episodes)
    returns, successes = {}, {}
    for arm in ARMS.values():
        environment, expert = make_environment(arm.environment), EXPERTS[arm.task]()
        played = [play_episode(environment, expert, seed) for seed in protocol.seeds]
        returns[arm.task] = [float(recorded.rewards.sum()) for recorded, _ in played]
        successes[arm.task] = [succeeded for _, succeeded in played]
        environment.close()
    config.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"protocol": asdict(protocol), "returns": returns, "successes": successes}
    config.out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
