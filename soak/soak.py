"""Tasks of random interfaces are learned, replaced, removed, rolled back, packed, installed and pruned, with kills.

python -m soak.soak --tasks 50 --seed 0
"""

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tyro
from gymnasium import spaces
from tests.recorded_data import Spaces, flat, play, row

from holdfast.agent.agent import Agent
from holdfast.errors import BUSY
from soak.agent_cases import STEPS, TINY
from soak.commands import in_process
from soak.fuzz import say

LONGEST = 0.4  # seconds until a process is killed
PROBES = 3


@dataclass(frozen=True)
class Soak:
    """Change an agent at random, and verify it after every change."""

    tasks: int = 50
    """Tasks that are learned."""
    seed: int = 0
    """Seed of the interfaces, of the order and of the kills."""


@dataclass
class Known:
    """What the agent must be: what each of its tasks does, now and after each change."""

    now: dict[str, bytes] = field(default_factory=dict)
    states: dict[int, dict[str, bytes]] = field(default_factory=lambda: {0: {}})
    probes: dict[str, list[Any]] = field(default_factory=dict)


def random_box(rng: Random) -> spaces.Space:
    """Numbers with odd bounds."""
    low = rng.choice([-1.0, -7.5, 0.0])
    return spaces.Box(low, low + rng.choice([1.0, 12.5, 300.0]), (rng.randint(1, 40),), np.float32)


def random_environment(rng: Random) -> Spaces:
    """An environment of random spaces."""
    observation = rng.choice(
        [
            random_box(rng),
            random_box(rng),
            spaces.Discrete(rng.randint(2, 30)),
            spaces.Box(0, 255, (36, 36, 3), np.uint8),
            spaces.Dict({"a": random_box(rng), "b": spaces.Dict({"c": spaces.Discrete(4)})}),
        ]
    )
    low = rng.uniform(-9, 0)
    action = rng.choice(
        [
            spaces.Discrete(rng.randint(2, 9)),
            spaces.MultiDiscrete([2, rng.randint(2, 5)]),
            spaces.Box(low, low + rng.uniform(0.1, 20), (rng.randint(1, 5),), np.float32),
        ]
    )
    return Spaces(observation, action, steps=6)


class Soaking:
    """An agent, what it must be, and the commands that change it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.rng, self.known = place, Random(f"soak {seed}"), Known()
        self.folder = place / "agent"
        self.counts: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.bytes: list[int] = []
        assert Agent(self.folder, settings=TINY, device="cpu").folder.store.learned == []  # creates it

    def data(self, name: str) -> str:
        """Records an environment of random spaces, with or without rewards."""
        environment = random_environment(self.rng)
        played = play(lambda: environment, 3)
        arrays: dict[str, Any] = flat(played)
        if self.rng.random() < 0.2:
            del arrays["rewards"]
        np.savez(self.place / f"{name}.npz", **arrays)
        self.known.probes[name] = [row(played[0].observations, step) for step in range(PROBES)]
        return str(self.place / f"{name}.npz")

    def actions(self) -> dict[str, bytes]:
        """What every task does on its stored probes."""
        found = {}
        for task in Agent(self.folder, device="cpu").known_tasks():
            policy = task.raw_policy()
            policy.reset()
            acted = [np.asarray(policy.act(seen, 0.5)).tobytes() for seen in self.known.probes[task.name]]
            found[task.name] = b"".join(acted)
        return found

    def change(self, verb: str, *words: str, gone: Sequence[str] = (), new: Sequence[str] = ()) -> int:
        """Carries out a command, at times killed and repeated, and checks the agent; returns its exit code."""
        line = ["agent", verb, str(self.folder), *words]
        before = self.number()
        if self.rng.random() < 0.3:
            self.kill(line)
            self.check_whole(gone, new)
        code = 0
        if self.number() == before:  # it was not done before it was killed
            outcome = in_process(line)
            code = -1 if outcome.code is None else outcome.code
            if code not in (0, 2):
                raise AssertionError(f"{line}: {outcome.err}")
        self.counts[verb if code == 0 else f"{verb} refused"] += 1
        self.check_whole(gone, new)
        self.known.now = self.actions()
        self.known.states[self.number()] = self.known.now
        return code

    def number(self) -> int:
        """The number of the agent's last change."""
        history = Agent(self.folder, device="cpu").history()
        return history[-1].number if history else 0

    def check_whole(self, gone: Sequence[str], new: Sequence[str]) -> None:
        """Raises unless the agent verifies, and all tasks but these do what they did, to the bit."""
        outcome = in_process(["agent", "verify", str(self.folder)])
        if outcome.code != 0:
            raise AssertionError(f"verify: {outcome.err}")
        found = self.actions()
        kept = {name: value for name, value in self.known.now.items() if name not in gone}
        if {name: found.get(name) for name in kept} != kept or set(found) - set(self.known.now) - set(new):
            raise AssertionError("a task does something else, or is not there")

    def start(self, line: list[str]) -> int:
        """Starts a command in a process of its own."""
        child = os.fork()
        if child == 0:
            outcome = in_process(line)
            os._exit(outcome.code if outcome.code is not None else 1)
        return child

    def kill(self, line: list[str]) -> None:
        """Starts a command and kills it at a random moment."""
        child = self.start(line)
        time.sleep(self.rng.uniform(0, LONGEST))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.counts["kills"] += 1

    # What happens

    def learn(self, name: str) -> None:
        """Learns a new task."""
        begun = time.monotonic()
        code = self.change("learn", name, "--data", self.data(name), *SMOKE, new=[name])
        assert code == 0, name
        self.seconds.append(time.monotonic() - begun)
        self.bytes.append(sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()))

    def preview(self, name: str) -> None:
        """Previews a new task."""
        self.change("preview", f"{name}-seen", "--data", self.data(f"{name}-seen"))

    def replace(self, name: str) -> None:
        """Learns a task again."""
        self.change("learn", name, "--data", str(self.place / f"{name}.npz"), *SMOKE, "--replace", gone=[name])

    def pack_and_return(self, name: str) -> None:
        """Packs a task, removes it, and installs it again."""
        pack, before = str(self.place / f"{self.counts['pack']}.pack"), self.known.now[name]
        whole = ["--whole"] if self.rng.random() < 0.5 else []
        assert self.change("pack", name, "--to", pack, *whole) == 0
        assert self.change("remove", name, gone=[name]) == 0
        if self.change("install", pack, new=[name]) == 0 and self.known.now[name] != before:
            raise AssertionError(f"{name} is another task after it was installed")

    def rollback(self, _: str) -> None:
        """Goes back to a state that is kept."""
        past = Agent(self.folder, device="cpu").folder.store.index.past
        if not past:
            return
        to = self.rng.choice(past).number
        then = self.known.states[to]
        assert self.change("rollback", "--to", str(to), gone=list(self.known.now), new=list(then)) == 0
        if self.known.now != then:
            raise AssertionError(f"the agent is not what it was after change {to}")

    def prune(self, _: str) -> None:
        """Deletes most of the past."""
        self.change("prune", "--keep", str(self.rng.randrange(4)))

    def two_at_once(self, _: str) -> None:
        """Two processes learn into the agent: both are done one after the other, or one is refused."""
        self.counts["two at once"] += 1
        names = [f"pair-{self.counts['two at once']}-{side}" for side in ("left", "right")]
        lines = [["agent", "learn", str(self.folder), one, "--data", self.data(one), *SMOKE] for one in names]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in [self.start(line) for line in lines]]
        if not set(codes) <= {0, BUSY} or 0 not in codes:
            raise AssertionError(f"two processes ended with {codes}")
        self.counts["refused as busy"] += codes.count(BUSY)
        self.check_whole([], names)
        self.known.now = self.actions()
        self.known.states[self.number()] = self.known.now


SMOKE = ["--budget", "smoke", "--quiet", "--device", "cpu"]


def soak(settings: Soak, place: Path) -> Soaking:
    """Learns all tasks, with other changes in between; raises where the agent is not what it must be."""
    soaking = Soaking(place, settings.seed)
    others = (soaking.preview, soaking.replace, soaking.pack_and_return, soaking.rollback, soaking.prune)
    with patch.dict("holdfast.agent.agent.BUDGETS", smoke=STEPS):
        for number in range(settings.tasks):
            soaking.learn(f"task-{number}")
            if soaking.known.now and soaking.rng.random() < 0.6:
                name = soaking.rng.choice(sorted(soaking.known.now))
                soaking.rng.choice([*others, soaking.two_at_once])(name)
    return soaking


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = tyro.cli(Soak)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as path:
        done = soak(chosen, Path(path))
    counted = ", ".join(f"{count} {verb}" for verb, count in sorted(done.counts.items()))
    say(f"soak: seed {chosen.seed}, {chosen.tasks} tasks, {time.monotonic() - begun:.0f} seconds: {counted}")
