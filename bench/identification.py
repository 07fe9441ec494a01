"""Measures which learned task an agent takes an episode for: a confusion matrix from observations, and from actions.

python -m bench.identification panda --agents runs/identification
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from holdfast.agent.agent import Agent
from holdfast.agent.identify import KnownTask, identify
from holdfast.benchmarks.atari.frame_cache import STACK
from holdfast.benchmarks.atari.games import FIVE, STOCHASTICITY, Game
from holdfast.benchmarks.atari.replay import replay
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.benchmarks.atari.traces import cut
from holdfast.benchmarks.panda.arm import ACTION, ARMS, make_environment, quiet, shared
from holdfast.benchmarks.panda.recording import EXPERTS
from holdfast.data.episodes import Dataset
from holdfast.data.frames import stacked
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Settings

LEARNED, FRESH = 500, 200  # episodes
OTHER_SEEDS = 1_000_000  # the first seed of fresh episodes
NONE = "none of these"
UNKNOWN_ARMS = {"PandaSlide": "PandaSlideDense-v3", "PandaStack": "PandaStackDense-v3"}
GAMES = 30  # episodes of each game, if there are as many
UNKNOWN_GAMES = ("Pong", "Freeway", "Seaquest", "Qbert", "Amidar", "Tennis", "Asterix", "Riverraid")
FRAMES, BEGINNING = 100, 16  # steps of each Atari episode that is learned, and that is recognised
SMALL: Settings = {"net.width": 64, "net.layers": 2, "net.context": 10, "fit.batch": 32}
TINY: Settings = {"net.width": 16, "net.layers": 1, "net.context": 4, "fit.batch": 8}  # where actions are not compared
RANDOM = "{}, random actions"
NOT_LEARNED = "{}, not learned"

Act = Callable[[Any], Any]


def say(line: object) -> None:
    """Prints at once, since measuring takes long."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Recorded:
    """One episode, raw."""

    observations: Any  # one row a step in every part
    actions: np.ndarray
    rewards: np.ndarray

    def first(self, count: int) -> "Recorded":
        """Its first steps."""
        seen = self.observations
        early = {key: part[:count] for key, part in seen.items()} if isinstance(seen, dict) else seen[:count]
        return Recorded(early, self.actions[:count], self.rewards[:count])


Sets = dict[str, list[Recorded]]  # episodes by the name of their row


@dataclass(frozen=True)
class Evidence:
    """What an agent is shown of an episode."""

    name: str
    steps: int
    actions: bool = False

    def answer(self, known: Sequence[KnownTask], episode: Recorded) -> str:
        """The task that the agent takes the episode for."""
        if self.actions:
            found = identify(known, episode.observations, episode.actions, episode.rewards)
        else:
            found = identify(known, episode.first(self.steps).observations)
        return found.task or NONE


FIRST, SIXTEEN = Evidence("the first observation", 1), Evidence("the first 16 observations", 16)
ACTIONS = Evidence("observations, actions and rewards", 64, actions=True)


def record(env: gymnasium.Env, act: Act | None, seeds: Sequence[int]) -> list[Recorded]:
    """An episode for each seed; without `act`, of random actions."""
    found = []
    for seed in seeds:
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed)
        seen, actions, rewards, over = [], [], [], False
        while not over:
            actions.append(act(observation) if act else env.action_space.sample())
            seen.append(observation)
            observation, reward, ended, truncated, _ = env.step(actions[-1])
            rewards.append(float(reward))
            over = ended or truncated
        parts = {key: np.stack([one[key] for one in seen]) for key in seen[0]} if isinstance(seen[0], dict) else None
        found.append(Recorded(np.stack(seen) if parts is None else parts, np.array(actions), np.array(rewards)))
    env.close()
    return found


def learned(folder: Path, tasks: Mapping[str, Sequence[Recorded]], budget: str, settings: Settings = SMALL) -> Agent:
    """The agent in a folder, after it has learned these tasks."""
    agent = Agent(folder, settings=settings, device="cpu")
    for name, episodes in tasks.items():
        if name not in agent.tasks:
            agent.learn(name, [vars(episode) for episode in episodes], budget=budget, quiet=True)
    return agent


def print_matrix(agent: Agent, sets: Sets, evidence: Evidence) -> None:
    """Prints a confusion matrix as a table in Markdown; every task is also shown to an agent without it."""
    known = agent.known_tasks()
    rows = {name: Counter(evidence.answer(known, one) for one in episodes) for name, episodes in sets.items()}
    for task in agent.tasks:
        others = [one for one in known if one.name != task]
        rows[NOT_LEARNED.format(task)] = Counter(evidence.answer(others, one) for one in sets[task])
    columns = [*agent.tasks, NONE]
    say(f"\nFrom {evidence.name}:\n\n| episodes of | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for name, votes in rows.items():
        say(f"| {name} | {' | '.join(str(votes[column] or '') for column in columns)} |")


def print_sketches(agent: Agent) -> None:
    """Prints the size of each task's sketch and of its file."""
    for task in agent.known_tasks():
        assert task.sketch is not None
        sketch = sum(tensor.nbytes for tensor in task.sketch.tensors().values())
        say(f"{task.name}: sketch {sketch:,} bytes, file {agent.bytes_of(task.name):,} bytes")


def panda_sets(count: int) -> Sets:
    """Fresh episodes of the experts, and of random actions, also in environments that nobody learned."""
    with quiet():
        sets = {name: arm_episodes(name, range(OTHER_SEEDS, OTHER_SEEDS + count)) for name in ARMS}
        environments = {RANDOM.format(arm.task): arm.environment for arm in ARMS.values()} | UNKNOWN_ARMS
        for name, environment in environments.items():
            sets[name] = record(gymnasium.make(environment), None, range(count))
    return sets


def arm_episodes(task: str, seeds: Sequence[int]) -> list[Recorded]:
    """Episodes of an expert."""
    return record(make_environment(ARMS[task].environment), EXPERTS[task](), seeds)


def in_shared_interface(episode: Recorded) -> Recorded:
    """The episode as the suite panda3 has it: 26 numbers, 4 actions."""
    steps = np.arange(len(episode.rewards))
    actions = np.pad(episode.actions, ((0, 0), (0, ACTION - episode.actions.shape[1])))
    return replace(episode, observations=shared(episode.observations, steps), actions=actions)


def panda(folder: Path, budget: str) -> None:
    """Panda-3, in the environments' own interfaces, and in the shared one of the suite."""
    with quiet():
        data = {name: arm_episodes(name, range(LEARNED)) for name in ARMS}
    sets = panda_sets(FRESH)
    say(f"# Panda-3 ({LEARNED} learned episodes, {FRESH} fresh ones a row)\n\n## Own interfaces")
    measure(learned(folder / "panda", data, budget), sets, (FIRST, SIXTEEN, ACTIONS))
    del sets["PandaStack"]  # its observations do not fit into 26 numbers
    data, sets = (
        {name: [in_shared_interface(one) for one in found] for name, found in each.items()} for each in (data, sets)
    )
    say("\n## The shared interface")
    measure(learned(folder / "panda-shared", data, budget), sets, (FIRST, SIXTEEN, ACTIONS))


def measure(agent: Agent, sets: Sets, evidence: Sequence[Evidence]) -> None:
    """Prints all that is measured of an agent."""
    print_sketches(agent)
    for each in evidence:
        print_matrix(agent, sets, each)


def poles(folder: Path, budget: str) -> None:
    """Two tasks in one environment: they differ in what is done, and begin alike."""

    def episodes(rule: Act | None, seeds: Sequence[int]) -> list[Recorded]:
        return record(gymnasium.make("CartPole-v1", max_episode_steps=100), rule, seeds)

    rules: dict[str, Act] = {
        "balance": lambda seen: int(seen[2] + 0.5 * seen[3] > 0),
        "topple": lambda seen: int(seen[2] + 0.5 * seen[3] <= 0),
    }
    data = {name: episodes(rule, range(LEARNED)) for name, rule in rules.items()}
    sets = {name: episodes(rule, range(OTHER_SEEDS, OTHER_SEEDS + FRESH)) for name, rule in rules.items()}
    sets[RANDOM.format("CartPole")] = episodes(None, range(FRESH))
    say(f"# Two tasks in CartPole ({LEARNED} learned episodes, {FRESH} fresh ones a row)")
    measure(learned(folder / "poles", data, budget), sets, (FIRST, Evidence("4 observations", 4), SIXTEEN, ACTIONS))


def game_episodes(game: Game, data: str, steps: int = FRAMES) -> list[Recorded]:
    """The beginnings of recorded episodes of a game, as stacks of frames."""
    recording, found = cut(SOURCES[data].recording(game.rom), FRAMES), []
    recording = replace(recording, traces=recording.traces[:GAMES])
    for one in replay(recording):
        trace = recording.traces[one.episode]
        actions = trace.actions[trace.noops :].astype(np.int64)
        episode = Dataset(one.frames, actions, one.rewards, np.array([len(actions)]), STACK)
        found.append(
            Recorded(
                stacked(episode, np.arange(min(steps, len(actions)))),
                actions[:steps],
                one.rewards[:steps].astype(float),
            )
        )
    return found


def random_games(game: Game, protocol: Protocol, steps: int) -> list[Recorded]:
    """The beginnings of episodes of random actions."""
    rng, found = np.random.default_rng(0), []
    arcade = game.environments(protocol)
    for seeds in protocol.rounds:
        seen, actions, rewards = [arcade.reset(seeds)], [], []
        for _ in range(steps):
            actions.append(rng.integers(game.actions, size=len(seeds)))
            step = arcade.step(actions[-1])
            rewards.append(step.rewards)
            seen.append(step.observations)
        for lane in range(len(seeds)):
            stacks = np.stack([each[lane] for each in seen[:-1]])
            found.append(Recorded(stacks, np.stack(actions)[:, lane], np.stack(rewards)[:, lane]))
    arcade.close()
    return found


def atari(folder: Path, _: str) -> None:
    """Atari-5: recorded games, games with random actions and other beginnings, and games that nobody learned."""
    data = {game.task: game_episodes(game, "expert-10") for game in FIVE}
    sets = {game.task: game_episodes(game, "expert-100", BEGINNING) for game in FIVE}
    others = tuple(Game(name, actions=3, published=0.0) for name in UNKNOWN_GAMES)
    for game in (*FIVE, *others):
        for name in ("noop", "sticky"):
            protocol = Protocol(name, episodes=GAMES, lanes=10)
            sets[f"{game.task}, random actions, {name}"] = random_games(game, protocol, steps=BEGINNING)
    say(f"# Atari-5 ({ {name: len(found) for name, found in data.items()} } learned episodes)")
    say({name: len(found) for name, found in sets.items()})
    measure(learned(folder / "atari", data, "smoke", TINY), sets, (FIRST, SIXTEEN))


MEASURED = {"panda": panda, "poles": poles, "atari": atari}


def main() -> None:
    """Measures what is named, with agents that are kept in a folder."""
    assert set(STOCHASTICITY) >= {"noop", "sticky"}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURED)
    parser.add_argument("--agents", type=Path, required=True, help="folder for the agents, which are learned once")
    parser.add_argument("--budget", default="quick", help="how long the agents are trained")
    given = parser.parse_args()
    torch.set_num_threads(1)
    MEASURED[given.what](given.agents, given.budget)


if __name__ == "__main__":
    main()
