"""Where the recorded episodes of an Atari game are found."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.benchmarks.atari.frame_cache import root
from holdfast.benchmarks.atari.minari_episodes import RecordedPlay, import_episodes
from holdfast.benchmarks.atari.traces import Origin, Recording, cut, load_traces, save_traces
from holdfast.data.minari import exists
from holdfast.errors import MissingData, Mistake

SHIPPED = Path(__file__).parent / "recordings"


@dataclass(frozen=True)
class Source(ABC):
    """One kind of data, of which every game has a recording or not."""

    episodes: int  # of a game, about
    maxpool: bool = True  # whether its frames are the maximum of the last two that the emulator drew

    @abstractmethod
    def has(self, game: str) -> bool:
        """Whether a game has a recording."""

    @abstractmethod
    def recording(self, game: str) -> Recording:
        """A game's recording."""

    @abstractmethod
    def target(self, origin: Origin) -> int | None:
        """The largest return in a game's recording, cut at a horizon; none where that is not known."""

    def fetch(self, origin: Origin) -> None:  # noqa: B027  what is shipped is there
        """Makes the recording, where that takes long."""


@dataclass(frozen=True)
class Shipped(Source):
    """Traces that come with the package."""

    name: str = ""

    def path(self, game: str) -> Path:
        """Its file."""
        return SHIPPED / f"{game}-{self.name}.npz.xz"

    def has(self, game: str) -> bool:
        return self.path(game).exists()

    def recording(self, game: str) -> Recording:
        if not self.has(game):
            raise Mistake(f"no {self.name} episodes of {game} are recorded yet: choose other games with --order")
        return loaded(self.path(game))

    def target(self, origin: Origin) -> int | None:
        if not self.has(origin.game):
            return None
        whole = self.recording(origin.game)
        known = all(trace.progress is not None or len(trace) <= origin.horizon for trace in whole.traces)
        return max(trace.score for trace in cut(whole, origin.horizon).traces) if known else None


@dataclass(frozen=True)
class Imported(Source):
    """Minari's own episodes, once imported."""

    maxpool: bool = False

    def name(self, game: str) -> str:
        """What Minari calls the dataset."""
        return f"atari/{game}/expert-v0"

    def path(self, game: str) -> Path:
        """Where the imported traces are kept; those of other data are elsewhere."""
        return root() / f"minari-{game}-{RecordedPlay.of(self.name(game)).digest[:12]}.npz.xz"

    def has(self, game: str) -> bool:
        return exists(self.name(game))

    def recording(self, game: str) -> Recording:
        if not self.has(game):
            name = self.name(game)
            raise Mistake(f"there is no Minari dataset {name} on this machine: minari download {name}")
        if not self.path(game).exists():
            raise MissingData(f"{self.name(game)} is not imported yet")
        return loaded(self.path(game))

    def target(self, origin: Origin) -> int | None:
        return max(RecordedPlay.of(self.name(origin.game)).returns(origin.horizon)) if self.has(origin.game) else None

    def fetch(self, origin: Origin) -> None:
        if self.has(origin.game) and not (path := self.path(origin.game)).exists():
            root().mkdir(parents=True, exist_ok=True)
            save_traces(import_episodes(self.name(origin.game), origin), path)


@cache
def loaded(path: Path) -> Recording:
    """A recording that is read once."""
    return load_traces(path)


SOURCES: dict[str, Source] = {
    "expert-10": Shipped(10, name="expert-10"),
    "expert-100": Shipped(100, name="expert-100"),
    "minari": Imported(10),
}
