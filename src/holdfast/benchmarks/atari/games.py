"""The five games of Atari-5: their emulators and their recorded episodes."""

from dataclasses import dataclass, replace

from holdfast.benchmarks.atari.environments import AtariEnvironments, Stochasticity
from holdfast.benchmarks.atari.frame_cache import FrameCache
from holdfast.benchmarks.atari.sources import SOURCES
from holdfast.benchmarks.atari.traces import BLOCK, Origin, cut
from holdfast.data.episodes import Dataset
from holdfast.errors import Mistake
from holdfast.tasks.environments import Protocol

HORIZON = 27_000
STOCHASTICITY = {"paper": Stochasticity(), "noop": Stochasticity(noops=30), "sticky": Stochasticity(sticky=0.25)}


@dataclass(frozen=True)
class Game:
    """One of the five games, with one kind of data, complete or cut at a horizon."""

    task: str
    actions: int  # size of the minimal action set
    published: float  # R* of the publication, used if there is no data
    data: str = "expert-10"
    horizon: int = HORIZON

    @property
    def rom(self) -> str:
        """The ROM name."""
        return self.task.lower()

    @property
    def origin(self) -> Origin:
        """The settings of the emulator."""
        return Origin(self.rom, "", horizon=self.horizon, maxpool=SOURCES[self.data].maxpool)

    @property
    def target(self) -> float:
        """The largest return in its data."""
        known = SOURCES[self.data].target(self.origin)
        return self.published if known is None else float(known)

    @property
    def frames(self) -> FrameCache:
        """The replayed frames of its data."""
        whole = SOURCES[self.data].recording(self.rom)
        size = "" if self.horizon == HORIZON else f"-{self.horizon}"
        return FrameCache(f"{self.rom}-{self.data}{size}", cut(whole, self.horizon) if size else whole)

    def load(self) -> Dataset:
        """The dataset."""
        return self.frames.read()

    def environments(self, protocol: Protocol) -> AtariEnvironments:
        """Emulators with the randomness of the protocol."""
        if protocol.name not in STOCHASTICITY:
            raise Mistake(f"atari5 has no protocol {protocol.name!r}; it has {', '.join(STOCHASTICITY)}")
        return AtariEnvironments(self.origin, STOCHASTICITY[protocol.name], min(protocol.lanes, protocol.episodes))


FIVE = (
    Game("Breakout", 4, 114),
    Game("Alien", 18, 86),
    Game("Atlantis", 4, 1556),
    Game("Boxing", 18, 97),
    Game("Centipede", 18, 135),
)


def games(data: str | None, transitions: int | None) -> dict[str, Game]:
    """The five games by task name; with fewer transitions, every episode is cut."""
    data = data or "expert-10"
    if data not in SOURCES:
        raise Mistake(f"atari5 has no data {data!r}; it has {', '.join(SOURCES)}")
    each = -(-(transitions or HORIZON * SOURCES[data].episodes) // SOURCES[data].episodes)
    horizon = min(-(-each // BLOCK) * BLOCK, HORIZON)
    return {game.task: replace(game, data=data, horizon=horizon) for game in FIVE}
