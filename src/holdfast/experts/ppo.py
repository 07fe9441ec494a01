"""PPO for one Atari game under a wall-clock budget (Schulman et al., 2017)."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.data.traces import Origin, Recording, Trace, emulators
from holdfast.data.traces import save as save_recording
from holdfast.experts.collect import Take, first_steps, play
from holdfast.experts.player import STACK, Decision, Player, Sampler, captured, load, save

log = logging.getLogger(__name__)

VECTORS = 2  # one vector of emulators steps while the GPU decides for the other


@dataclass(frozen=True)
class Config:
    """How an expert is trained and recorded. The defaults serve every game of the suite."""

    game: str
    """ROM name in snake case, such as `breakout`."""
    out: Path
    """Folder for the checkpoint, the two recordings and the report."""
    seconds: float = 540.0
    """Wall-clock budget of everything: building, training, evaluation, recording."""
    reserve: float = 90.0
    """Seconds of the budget that are kept for the trial and the recordings. Episodes of 27,000 steps (Atlantis) need
    150; where they are short, 60 will do."""
    init: Path | None = None
    """Checkpoint to continue from."""
    enough: float | None = None
    """Training stops early when the mean clipped return of the last 100 episodes reaches this."""
    seed: int = 0
    """Seed of weights, actions and emulators."""
    graphs: bool = True
    """Capture acting and learning as CUDA graphs where there is a GPU."""
    envs: int = 64
    """Emulators in each of the two vectors."""
    steps: int = 32
    """Steps of every emulator between two rounds of learning. Short, so that the data is fresh."""
    minibatch: int = 256
    """Steps in one gradient. Together with `epochs`: 16 gradients for 1024 steps, as in the paper."""
    epochs: int = 4
    """Passes over the data in one round of learning."""
    rate: float = 3e-4
    """Adam's learning rate; it falls linearly to a twentieth at the end of the budget."""
    gamma: float = 0.99
    """Discount."""
    smoothing: float = 0.95
    """Lambda of the generalised advantage estimate."""
    clip: float = 0.1
    """How far the ratio of new to old policy may leave 1 with profit."""
    entropy: float = 0.01
    """Weight of the policy's entropy in the objective."""
    value: float = 0.25
    """Weight of the squared error of the value."""
    norm: float = 0.5
    """The gradient's norm is clipped to this."""
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.25)
    """The expert is recorded with the best of these. Not greedily: ten greedy episodes from one start are one."""
    trial: int = 4_000
    """Steps after which an episode is cut when temperatures are compared."""
    lanes: int = 48
    """Emulators in lock-step in the trial and the recordings. Atlantis: 12, for no more of its episodes are kept."""

    def __post_init__(self) -> None:
        if (VECTORS * self.envs * self.steps) % self.minibatch:
            raise ValueError(f"{VECTORS} x {self.envs} x {self.steps} steps are no whole number of minibatches")
        if self.reserve >= self.seconds:
            raise ValueError(f"a reserve of {self.reserve} s leaves nothing of a budget of {self.seconds} s")


def advantages(rewards: Tensor, ends: Tensor, values: Tensor, gamma: float, smoothing: float) -> Tensor:
    """Generalised advantage estimates (T, ...) from rewards and ends (T, ...) and values (T + 1, ...)."""
    estimates = torch.zeros_like(rewards)
    ahead = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        alive = 1 - ends[t]
        surprise = rewards[t] + gamma * alive * values[t + 1] - values[t]
        ahead = surprise + gamma * smoothing * alive * ahead
        estimates[t] = ahead
    return estimates


class Rollout:
    """What all emulators did in the last T steps. Slot T holds the decisions that they are just carrying out."""

    def __init__(self, steps: int, envs: int, device: torch.device) -> None:
        slots = (steps + 1, VECTORS, envs)
        self.frames = torch.zeros(*slots, *STACK, dtype=torch.uint8, device=device)
        self.actions = torch.zeros(slots, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(slots, device=device)
        self.values = torch.zeros(slots, device=device)
        self.rewards = np.zeros((steps, VECTORS, envs), np.float32)
        self.ends = np.zeros((steps, VECTORS, envs), np.float32)

    def put(self, slot: int, vector: int, frames: Tensor, decision: Decision) -> None:
        self.frames[slot, vector] = frames
        self.actions[slot, vector] = decision.actions
        self.log_probs[slot, vector] = decision.log_probs
        self.values[slot, vector] = decision.values

    def wrap(self) -> None:
        """The decisions under way become the first of the next round."""
        for slots in (self.frames, self.actions, self.log_probs, self.values):
            slots[0] = slots[-1]


class Learner:
    """Improves a player on rollouts. One gradient step is one CUDA graph over memory that stays where it is."""

    def __init__(self, player: Player, rollout: Rollout, config: Config, generator: torch.Generator) -> None:
        self.player, self.rollout, self.config, self.generator = player, rollout, config, generator
        device = generator.device
        self.parameters = list(player.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters,
            lr=torch.tensor(config.rate, device=device),  # a tensor, so that a graph reads its present value
            eps=1e-5,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.frames = rollout.frames[:-1].view(-1, *STACK)  # (B, 4, 84, 84), B = T x vectors x envs
        self.actions = rollout.actions[:-1].view(-1)
        self.log_probs = rollout.log_probs[:-1].view(-1)
        self.advantages = torch.zeros(len(self.actions), device=device)
        self.targets = torch.zeros(len(self.actions), device=device)
        self.batch = torch.zeros(config.minibatch, dtype=torch.int64, device=device)
        self._descend = self._captured_without_a_trace()

    def learn(self, rate: float) -> Tensor:
        """Some epochs over the rollout; returns the policy's entropy in the last minibatch."""
        rollout, config, device = self.rollout, self.config, self.generator.device
        rewards, ends = (torch.as_tensor(x).to(device) for x in (rollout.rewards, rollout.ends))
        gains = advantages(rewards, ends, rollout.values, config.gamma, config.smoothing)
        self.advantages.copy_(gains.view(-1))
        self.targets.copy_((gains + rollout.values[:-1]).view(-1))
        for group in self.optimiser.param_groups:
            group["lr"].fill_(rate)
        for _ in range(config.epochs):
            order = torch.randperm(len(self.actions), generator=self.generator, device=device)
            for batch in order.split(config.minibatch):
                self.batch.copy_(batch)
                entropy = self._descend()
        return entropy

    def _step(self) -> Tensor:
        batch, config = self.batch, self.config
        logits, values = self.player(self.frames[batch])
        log_probs = logits.log_softmax(-1)
        chosen = log_probs.gather(1, self.actions[batch][:, None]).squeeze(1)
        ratio = (chosen - self.log_probs[batch]).exp()
        gain = self.advantages[batch]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        profit = torch.min(gain * ratio, gain * ratio.clamp(1 - config.clip, 1 + config.clip)).mean()  # eq. 7
        entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
        error = F.mse_loss(values, self.targets[batch])
        loss = config.value * error - profit - config.entropy * entropy  # eq. 9
        # Not accumulated but assigned: nothing to set to zero, and no accumulator bound to the stream of the warm-up.
        for parameter, gradient in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(self.parameters, config.norm)
        self.optimiser.step()
        return entropy.detach()

    def _captured_without_a_trace(self) -> Callable[[], Tensor]:
        """Capturing runs the step on an empty rollout, so weights and moments are put back afterwards."""
        before = {name: weight.clone() for name, weight in self.player.state_dict().items()}
        step = captured(self._step, self.config.graphs)
        self.player.load_state_dict(before)
        for state in self.optimiser.state.values():
            for moment in state.values():
                moment.zero_()
        return step


class Tally:
    """Returns of whole episodes over all lives, although the emulators report an end with every life."""

    def __init__(self, envs: int) -> None:
        self._running = np.zeros((VECTORS, envs))
        self._clock = np.zeros((VECTORS, envs))
        self.returns: deque[float] = deque(maxlen=100)

    def add(self, vector: int, rewards: np.ndarray, clock: np.ndarray) -> None:
        """Takes one step's rewards and the emulators' frame counters, which only a new game sets back."""
        self._running[vector] += rewards
        over = clock < self._clock[vector]
        self._clock[vector] = clock
        self.returns.extend(self._running[vector, over].tolist())
        self._running[vector, over] = 0

    def mean(self) -> float | None:
        return float(np.mean(self.returns)) if self.returns else None

    def reached(self, enough: float | None) -> bool:
        if enough is None or len(self.returns) < 100:
            return False
        return float(np.mean(self.returns)) >= enough


class Workshop:
    """Two vectors of emulators, stepped in turn, and the rollout that they fill."""

    def __init__(self, player: Player, config: Config, generator: torch.Generator) -> None:
        self.vectors = [_vector(config) for _ in range(VECTORS)]
        self.rollout = Rollout(config.steps, config.envs, generator.device)
        self.tally = Tally(config.envs)
        self._sampler = Sampler(player, config.envs, generator, config.graphs)
        for i, vector in enumerate(self.vectors):
            frames, _ = vector.reset(seed=config.seed + 1000 * i)
            self._send(i, frames, slot=-1)

    def fill(self) -> None:
        """Fills the rollout. At return the emulators are already under way again, while the GPU learns."""
        rollout = self.rollout
        rollout.wrap()
        for t in range(len(rollout.rewards)):
            for i, vector in enumerate(self.vectors):
                frames, rewards, terminated, truncated, info = vector.recv()
                rollout.rewards[t, i] = rewards
                rollout.ends[t, i] = terminated | truncated
                self.tally.add(i, rewards, info["episode_frame_number"])
                self._send(i, frames, slot=t + 1)

    def _send(self, vector: int, frames: np.ndarray, slot: int) -> None:
        decision = self._sampler.decide(frames)
        self.rollout.put(slot, vector, self._sampler.frames, decision)
        self.vectors[vector].send(decision.actions.cpu().numpy())

    def close(self) -> None:
        for vector in self.vectors:
            vector.recv()
            vector.close()


def _vector(config: Config) -> Any:
    """Emulators as in recording, but an end is reported with every life, and games start after up to 30 frames.

    No fire button is pressed for the player: it has to learn how a game begins, since recordings begin there.
    """
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        config.game,
        config.envs,
        noop_max=30,
        use_fire_reset=False,
        life_loss_info=True,
        autoreset_mode=AutoresetMode.SAME_STEP,
        num_threads=min(config.envs, (os.cpu_count() or 1) // VECTORS + 2),
    )


@dataclass(frozen=True)
class Progress:
    """Where training stands."""

    seconds: float  # of training
    steps: int  # of training in this run, over all emulators
    mean: float | None  # clipped return of the last 100 episodes, as soon as there is one
    entropy: float

    def __str__(self) -> str:
        mean = "none yet" if self.mean is None else f"{self.mean:.1f}"
        speed = self.steps / self.seconds
        return (
            f"{self.seconds:.0f} s, {self.steps / 1e6:.2f} M steps, {speed:,.0f}/s, "
            f"return {mean}, entropy {self.entropy:.2f}"
        )


def train(player: Player, config: Config, generator: torch.Generator, deadline: float) -> Iterator[Progress]:
    """Trains the player in place until the clock shows `deadline`; says how it goes every 20 seconds and at the end."""
    workshop = Workshop(player, config, generator)
    learner = Learner(player, workshop.rollout, config, generator)
    begin = reported = time.monotonic()
    rounds, going = 0, True
    while going:
        elapsed = time.monotonic() - begin
        workshop.fill()
        entropy = learner.learn(config.rate * _schedule(elapsed / max(deadline - begin, 1e-9)))
        rounds += 1
        now = time.monotonic()
        going = now < deadline and not workshop.tally.reached(config.enough)
        if now - reported > 20 or not going:
            reported = now
            yield Progress(now - begin, rounds * learner.actions.numel(), workshop.tally.mean(), float(entropy))
    workshop.close()


def _schedule(elapsed: float) -> float:
    """Share of the learning rate: up within 1 % of the time, for Adam's moments are new, then linearly down."""
    return min(1.0, elapsed / 0.01) * max(1 - elapsed, 0.05)


@dataclass(frozen=True)
class Series:
    """A set of episodes to record."""

    name: str
    episodes: int
    noops: int  # an episode starts with 0 to this many
    steps: int  # at most, in all episodes together
    share: float  # of the time that is left


SERIES = (
    Series("expert-10", episodes=10, noops=0, steps=270_000, share=0.47),
    Series("expert-100", episodes=100, noops=30, steps=250_000, share=0.92),
)


class Report:
    """What is known so far, on disk at any time."""

    def __init__(self, config: Config) -> None:
        self._game, self._path = config.game, config.out / f"{config.game}.json"
        self._facts: dict[str, Any] = {"config": asdict(config), "curve": []}

    def add(self, name: str, fact: Any) -> None:
        log.info("%s: %s %s", self._game, name, fact)
        self._write({**self._facts, name: fact})

    def progress(self, progress: Progress) -> None:
        log.info("%s: %s", self._game, progress)
        self._write({**self._facts, "curve": [*self._facts["curve"], asdict(progress)]})

    def _write(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._path.write_text(json.dumps(facts, indent=1, default=str))


def summary(takes: Sequence[Take | Trace]) -> dict[str, float]:
    """Returns and lengths in a few numbers."""
    scores = [take.score for take in takes] or [0]
    return {
        "episodes": len(takes),
        "mean": float(np.mean(scores)),
        "std": float(np.std(scores)),
        "min": min(scores),
        "max": max(scores),
        "steps": sum(map(len, takes)),
    }


def compare(
    sampler: Sampler, env: Any, config: Config, rng: np.random.Generator, deadline: float
) -> dict[float, dict[str, float]]:
    """Lets all temperatures play beside each other and returns how each of them did."""
    lanes, choices = config.lanes, config.temperatures
    sampler.temperatures.copy_(torch.tensor([choices[i % len(choices)] for i in range(lanes)]))
    noops = rng.integers(0, 30, size=lanes, endpoint=True).tolist()
    takes = play(sampler.act, env, noops, int(rng.integers(2**31)), deadline, config.trial)
    return {choice: summary(takes[i :: len(choices)]) for i, choice in enumerate(choices)}


def record(sampler: Sampler, env: Any, series: Series, rng: np.random.Generator, deadline: float) -> list[Trace]:
    """Plays a series and returns what was complete in time."""
    noops = rng.integers(0, series.noops, size=series.episodes, endpoint=True).tolist()
    takes = play(sampler.act, env, noops, int(rng.integers(2**31)), deadline)
    return first_steps([take.trace() for take in takes if take.complete], series.steps)


def run(config: Config) -> None:
    """Trains, finds the best temperature, records, and leaves everything in `config.out`."""
    begin = time.monotonic()
    deadline = begin + config.seconds
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(config.seed)
    generator = torch.Generator(device).manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    config.out.mkdir(parents=True, exist_ok=True)
    report = Report(config)

    origin = Origin(config.game, "PPO", emulator=version("ale-py"))
    env = emulators(origin, config.lanes, stack=STACK[0])
    player = Player(int(env.single_action_space.n)).to(device)
    earlier = load(player, config.init) if config.init else 0
    report.add("device", torch.cuda.get_device_name() if device.type == "cuda" else "cpu")
    for progress in train(player, config, generator, deadline - config.reserve):
        report.progress(progress)
        origin = replace(origin, trained=earlier + progress.steps)
        save(player, origin.trained, config.out / f"{config.game}.safetensors")
    report.add("trained", origin.trained)
    report.add("steps per second", progress.steps / progress.seconds)

    def after(share: float) -> float:
        """The clock when this share of the remaining time has passed."""
        return deadline - (1 - share) * (deadline - time.monotonic())

    sampler = Sampler(player, config.lanes, generator, config.graphs)
    trial = compare(sampler, env, config, rng, after(0.25))
    report.add("trial", trial)
    origin = replace(origin, temperature=max(trial, key=lambda choice: trial[choice]["mean"]))
    sampler.temperatures.fill_(origin.temperature)
    for series in SERIES:
        traces = record(sampler, env, series, rng, after(series.share))
        save_recording(Recording(origin, traces), config.out / f"{config.game}-{series.name}.npz.xz")
        report.add(series.name, summary(traces) | {"temperature": origin.temperature})
    env.close()
    report.add("seconds", time.monotonic() - begin)


def main() -> None:
    import tyro

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    run(tyro.cli(Config, description=__doc__, config=(tyro.conf.FlagConversionOff,)))


if __name__ == "__main__":
    main()
