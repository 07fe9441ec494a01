"""Atari-5: five games from pixels (ale-py)."""

from dataclasses import dataclass, replace
from typing import Any

from holdfast.benchmarks.atari.cache import STACK, Cached
from holdfast.benchmarks.atari.environments import Arcade, Start
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.benchmarks.atari.traces import BLOCK, SCREEN, Origin, cut
from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.tasks.environments import Protocol
from holdfast.tasks.interface import Discrete, Interface
from holdfast.tasks.task import Suite, Task

HORIZON, VOCABULARY = 27_000, 18
STARTS = {"paper": Start(), "noop": Start(noops=30), "sticky": Start(sticky=0.25)}


@dataclass(frozen=True)
class Game:
    """One of the five, with data of some kind, over its whole length or its first steps."""

    task: str
    actions: int  # of its minimal set
    published: float  # the publication's R*, which stands in where there is no data
    data: str = "expert-10"
    horizon: int = HORIZON

    @property
    def rom(self) -> str:
        """What the emulator calls it."""
        return self.task.lower()

    @property
    def origin(self) -> Origin:
        """The emulator that it is played in."""
        return Origin(self.rom, "", horizon=self.horizon, maxpool=SOURCES[self.data].maxpool)

    @property
    def target(self) -> float:
        """The largest return in its data."""
        known = SOURCES[self.data].target(self.origin)
        return self.published if known is None else float(known)

    @property
    def frames(self) -> Cached:
        """Its data, replayed."""
        whole = SOURCES[self.data].recording(self.rom)
        size = "" if self.horizon == HORIZON else f"-{self.horizon}"
        return Cached(f"{self.rom}-{self.data}{size}", cut(whole, self.horizon) if size else whole)

    def load(self) -> Dataset:
        """Its episodes."""
        return self.frames.read()

    def environments(self, protocol: Protocol) -> Arcade:
        """Emulators that start as the protocol says."""
        if protocol.name not in STARTS:
            raise Mistake(f"atari5 has no protocol {protocol.name!r}; there are {', '.join(STARTS)}")
        return Arcade(self.origin, STARTS[protocol.name], min(protocol.lanes, protocol.episodes))


FIVE = (
    Game("Breakout", 4, 114),
    Game("Alien", 18, 86),
    Game("Atlantis", 4, 1556),
    Game("Boxing", 18, 97),
    Game("Centipede", 18, 135),
)


def games(data: str | None, transitions: int | None) -> dict[str, Game]:
    """The five by task; fewer transitions are those of each episode's first steps."""
    data = data or "expert-10"
    if data not in SOURCES:
        raise Mistake(f"atari5 has no data {data!r}; there are {', '.join(SOURCES)}")
    each = -(-(transitions or HORIZON * SOURCES[data].episodes) // SOURCES[data].episodes)
    horizon = min(-(-each // BLOCK) * BLOCK, HORIZON)
    return {game.task: replace(game, data=data, horizon=horizon) for game in FIVE}


RATE: dict[str, Any] = {"fit.batch": 64, "fit.learning_rate": 3e-4, "fit.schedule": "constant"}
PAPER: dict[str, Any] = {
    "net.heads": 4,
    **RATE,
    "fit.clip": 1.0,
    "fit.return_scale": 1556.0,
    "subnets.keep": 0.5,
    "ewc:over": "all",
    "si:strength": 1.0,
    "affinity-a:routing.threshold": 10.0,  # published: 10, 12, 14, 16
    "affinity-l:routing.threshold": 35.0,  # published: 35, 45, 55, 75
    "affinity-h:routing.threshold": 0.5,  # published with alpha 0.7 and 0.5, and 0.55 with 0.8
    "affinity-h:routing.action_threshold": 10.0,
    "affinity-h:routing.latent_threshold": 35.0,
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"protocol.episodes": 1},  # deterministic: all episodes are one
    "noop": {"protocol.episodes": 20},
    "sticky": {"protocol.episodes": 20},
}
DETERMINISTIC: dict[str, Any] = {"protocol.name": "paper", **PROTOCOLS["paper"]}
# Published: 20,000 steps at a constant 3e-4. With fewer steps at a higher rate scores can move about as far
# (0.5 x 1e-3 x 8,000 = 4, against 6), which decides how much of a warm-started mask a task can exchange.
CONVERGED: dict[str, Any] = {"fit.steps": 8_000, "fit.learning_rate": 1e-3, "fit.schedule": "one-cycle"}
BUDGETS: dict[str, dict[str, Any]] = {
    "smoke": {
        **DETERMINISTIC,
        "transitions": 1_000,
        "fit.steps": 4,
        "fit.batch": 2,
        "net.context": 4,
        "ewc:fisher_batches": 2,
        "affinity-a:routing.windows": 4,
        "affinity-h:routing.windows": 4,
        "fit.return_scale": 10.0,
    },
    "quick": {
        **DETERMINISTIC,
        "transitions": 2_000,
        "fit.steps": 1_500,
        "fit.batch": 16,
        "fit.learning_rate": 1e-3,
        "fit.schedule": "one-cycle",
        "fit.return_scale": 20.0,
        "net.context": 4,
        "net.dropout": 0.0,
    },
    "full": {"data": "expert-100", **CONVERGED, "protocol.name": "noop", **PROTOCOLS["noop"]},
    # Twenty episodes, as published, though they are one; the publication has Minari's data (`--data minari`).
    "published": {"data": "expert-10", **RATE, "fit.steps": 20_000, "protocol.name": "paper", "protocol.episodes": 20},
}
FORMER_BUDGETS = {"paper": "--budget full --protocol.name paper --data expert-10"}


def task(game: Game) -> Task:
    """One game as a task."""
    interface = Interface((STACK, *SCREEN), Discrete(game.actions, VOCABULARY), game.horizon, normalised=False)
    return Task(game.task, interface, game.target, game.load, game.environments)


def atari5(transitions: int | None = None, data: str | None = None) -> Suite:
    """Five Atari games from pixels, discrete actions, recorded experts."""
    found = games(data, transitions)
    tasks = tuple(task(game) for game in found.values())
    return Suite(
        "atari5", tasks, {"paper": PAPER}, BUDGETS, transitions, data or "expert-10", PROTOCOLS, FORMER_BUDGETS
    )
