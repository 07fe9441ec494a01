"""Sources of recorded Atari episodes: shipped with the package, or imported from Minari."""

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
    """One kind of data, with recordings of some or all games."""

    episodes: int  # approximate number per game
    maxpool: bool = True  # whether a frame is the maximum of the emulator's last two

    @abstractmethod
    def has(self, game: str) -> bool:
        """Whether a game has a recording."""

    @abstractmethod
    def recording(self, game: str) -> Recording:
        """A game's recording."""

    @abstractmethod
    def target(self, origin: Origin) -> int | None:
        """The largest return in a game's recording, cut at the horizon, or None if it is not known."""

    def fetch(self, origin: Origin) -> None:  # noqa: B027  shipped recordings need nothing
        """Imports the recording if necessary."""


@dataclass(frozen=True)
class Shipped(Source):
    """Traces that come with the package."""

    name: str = ""

    def path(self, game: str) -> Path:
        """The file of a game."""
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
    """Episodes that are imported from Minari."""

    maxpool: bool = False

    def name(self, game: str) -> str:
        """The name of the Minari dataset."""
        return f"atari/{game}/expert-v0"

    def path(self, game: str) -> Path:
        """The file of the imported traces; its name contains a hash of the dataset."""
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
    """Reads a recording, at most once."""
    return load_traces(path)


SOURCES: dict[str, Source] = {
    "expert-10": Shipped(10, name="expert-10"),
    "expert-100": Shipped(100, name="expert-100"),
    "minari": Imported(10),
}
