"""Trains and records an Atari expert within a wall-clock budget."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from holdfast.benchmarks.atari.actor import STACK, ActionSampler, ActorCritic, load_actor, save_actor
from holdfast.benchmarks.atari.ppo import Ppo, PpoUpdater
from holdfast.benchmarks.atari.recording import RecordingConfig, compare_experts, record_expert, score_summary
from holdfast.benchmarks.atari.rollout_collector import RolloutCollector
from holdfast.benchmarks.atari.traces import Origin, Recording, emulators
from holdfast.benchmarks.atari.traces import save_traces as save_recording
from holdfast.benchmarks.atari.train import TrainingProgress, train_expert
from holdfast.data.validation import validate
from holdfast.errors import Mistake
from holdfast.tasks.experts import Say

SAVING = 1.0  # seconds reserved for saving after the last step


@dataclass(frozen=True)
class AtariExpertConfig:
    """How an expert is trained and recorded."""

    game: str
    """ROM name in snake case, such as `breakout`."""
    out: Path = Path("runs/experts")
    """Folder for the checkpoint, the two recordings and the report."""
    seconds: float = 540.0
    """Wall-clock seconds for everything: building, training and recording."""
    reserve: float = 60.0
    """Part of these seconds that is reserved for recording: 0 only trains, all of them only record."""
    init: Path | None = None
    """Checkpoint to continue from."""
    enough: float | None = None
    """Mean clipped return of the last 100 games at which training stops early."""
    seed: int = 0
    """Seed of weights, actions and emulators."""
    graphs: bool = True
    """Capture acting and learning as CUDA graphs if there is a GPU."""
    ppo: Annotated[Ppo, tyro.conf.arg(name="")] = field(default_factory=Ppo)
    recorder: Annotated[RecordingConfig, tyro.conf.arg(name="")] = field(default_factory=RecordingConfig)

    def __post_init__(self) -> None:
        validate(self)
        if not 0 <= self.reserve <= self.seconds:
            raise Mistake(f"--reserve must be between 0 and --seconds ({self.seconds}), got {self.reserve}")
        if self.reserve == self.seconds and self.init is None:
            raise Mistake("--reserve equal to --seconds only records, which needs a checkpoint: give --init")


class ExpertReport:
    """The report file, which is written after every addition."""

    def __init__(self, config: AtariExpertConfig, say: Say) -> None:
        self._game, self._path, self._say = config.game, config.out / f"{config.game}.json", say
        self._facts: dict[str, Any] = {"before": before(config), "config": asdict(config), "curve": []}

    def add(self, name: str, fact: Any) -> None:
        self._say(f"{self._game}: {name} {fact}")
        self._write({**self._facts, name: fact})

    def progress(self, progress: TrainingProgress) -> None:
        self._say(f"{self._game}: {progress}")
        self._write({**self._facts, "curve": [*self._facts["curve"], asdict(progress)]})

    def _write(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        aside = self._path.with_suffix(".part")
        aside.write_text(json.dumps(facts, indent=1, default=str))
        aside.replace(self._path)


def before(config: AtariExpertConfig) -> Any:
    """The report of the checkpoint to continue from, if any, which is kept inside the new report."""
    path = config.init.with_suffix(".json") if config.init else None
    try:
        return json.loads(path.read_text()) if path and path.exists() else None
    except ValueError:
        raise Mistake(f"{path} is damaged: restore it, or delete it to continue without the earlier report") from None


class ExpertBuilder:
    """Trains and records one expert; the results so far are always in `config.out`."""

    def __init__(self, config: AtariExpertConfig, say: Say) -> None:
        self.config, self.begin = config, time.monotonic()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(config.seed)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.origin = Origin(config.game, "PPO")
        self.network = ActorCritic(actions_of(self.origin)).to(self.device)
        self.origin = replace(self.origin, emulator=version("ale-py"))
        if config.init is not None:
            self.origin = replace(self.origin, trained=load_actor(self.network, config.init))
        try:
            config.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Mistake(f"{config.out} cannot be used as a folder: {error.strerror}") from None
        self.report = ExpertReport(config, say)
        self.report.add("device", torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu")

    def train(self, deadline: float) -> None:
        """Trains until `time.monotonic()` reaches `deadline`."""
        config, earlier = self.config, self.origin.trained
        sampler = ActionSampler(self.network, config.ppo.envs, self.generator, config.graphs)
        collector = RolloutCollector(config.game, sampler, config.ppo, config.seed)
        updater = PpoUpdater(self.network, collector.rollout, config.ppo, self.generator, config.graphs)
        for progress in train_expert(updater, collector, deadline, config.enough):
            self.report.progress(progress)
            self.origin = replace(self.origin, trained=earlier + progress.steps)
            save_actor(self.network, self.origin.trained, config.out / f"{config.game}.safetensors")
        collector.close()
        self.report.add("trained", self.origin.trained)
        self.report.add("steps per second", progress.steps / progress.seconds)

    def record(self, deadline: float) -> None:
        """Finds the best temperature, then records until `time.monotonic()` reaches `deadline`."""
        config = self.config
        rng = np.random.default_rng(config.seed)
        env = emulators(self.origin, config.recorder.lanes, stack=STACK[0])
        sampler = ActionSampler(self.network, config.recorder.lanes, self.generator, config.graphs)
        rest = deadline - time.monotonic()
        best, *others = config.recorder.temperatures
        if others:
            trial = compare_experts(sampler, env, config.recorder, rng, deadline - 0.75 * rest)
            self.report.add("trial", trial)
            best = max(trial, key=lambda choice: trial[choice]["mean"])
        origin = replace(self.origin, temperature=best)
        sampler.temperatures.fill_(origin.temperature)
        for name, takes in record_expert(sampler, env, rng, deadline - max(0.05 * rest, SAVING)).items():
            complete = [take for take in takes if take.complete]
            traces = [take.trace() for take in complete]
            save_recording(Recording(origin, traces), config.out / f"{config.game}-{name}.npz.xz")
            self.report.add(name, score_summary(complete) | {"temperature": origin.temperature})
            if len(complete) < len(takes):
                missing = f"{len(takes) - len(complete)} episodes were not finished in time and are missing"
                self.report.add(f"{name} problem", f"{missing}: record again with a greater --reserve")
        env.close()


def actions_of(origin: Origin) -> int:
    """The number of actions of the game."""
    try:
        from ale_py import roms
    except ImportError:
        raise Mistake("ale-py is not installed: pip install 'holdfast[atari]'") from None
    if origin.game not in roms.get_all_rom_ids():
        raise Mistake(f"there is no Atari game {origin.game!r}; names are in snake case, such as space_invaders")
    env = emulators(origin, 1)
    env.close()
    return int(env.single_action_space.n)


def make_atari_expert(config: AtariExpertConfig, say: Say = lambda line: None) -> None:
    """Trains and records an expert within the budget, and writes everything to `config.out`."""
    maker = ExpertBuilder(config, say)
    deadline = maker.begin + config.seconds
    if config.reserve < config.seconds:
        maker.train(deadline - config.reserve)
    if config.reserve:
        maker.record(deadline)
    maker.report.add("seconds", time.monotonic() - maker.begin)


def say_at_once(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    make_atari_expert(
        tyro.cli(AtariExpertConfig, description=__doc__, config=(tyro.conf.FlagConversionOff,)), say_at_once
    )
