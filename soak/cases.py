"""What a fuzz test tries: a command, what it may change, and where it happens."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from soak.commands import Outcome


def nothing_more(outcome: Outcome) -> Iterator[str]:
    """No further check."""
    yield from ()


@dataclass(frozen=True)
class Case:
    """One input: what is wrong with it, and the words after `holdfast`."""

    kind: str  # what is damaged
    about: str  # how
    words: list[str]
    may_change: Callable[[str, Outcome], bool]  # whether the command has a reason to change a file, by its path
    check: Callable[[Outcome], Iterator[str]] = nothing_more  # what else is wrong with how it ended
    action: Callable[[], object] | None = None  # is called instead of the command


@dataclass(frozen=True)
class Workspace:
    """Where everything happens: undamaged folders, a victim, and the working directory of the commands."""

    path: Path
    expected: dict[str, dict[str, bytes]] = field(default_factory=dict)  # by agent: what its tasks do

    @property
    def runs(self) -> list[Path]:
        """The undamaged run folders."""
        return sorted((self.path / "runs").iterdir())

    @property
    def agents(self) -> list[Path]:
        """The undamaged agents."""
        return sorted((self.path / "agents").iterdir())

    @property
    def data(self) -> list[Path]:
        """The undamaged datasets."""
        return sorted((self.path / "data").iterdir())

    @property
    def exported(self) -> list[Path]:
        """The undamaged exported policies."""
        return sorted((self.path / "exported").iterdir())

    @property
    def packs(self) -> list[Path]:
        """The undamaged packs."""
        return sorted((self.path / "packs").iterdir())

    @property
    def cache(self) -> Path:
        """An undamaged cache of runs."""
        return self.path / "cache"

    @property
    def victim(self) -> Path:
        """A folder that no command has to do with."""
        return self.path / "victim"

    @property
    def here(self) -> Path:
        """The working directory."""
        return self.path / "here"

    def clear(self) -> None:
        """Makes the working directory anew."""
        shutil.rmtree(self.here, ignore_errors=True)
        (self.here / "empty").mkdir(parents=True)
        (self.here / "file").write_text("something")
        (self.here / "loop").symlink_to("loop")
        (self.here / "zeros").symlink_to("/dev/zero")
        os.mkfifo(self.here / "pipe")
