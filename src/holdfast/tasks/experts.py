"""The experts of a suite, which can be trained or tuned by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.data.validation import validate

Say = Callable[[object], object]  # prints a line


@dataclass(frozen=True)
class Experts:
    """The experts that `holdfast expert FOLDER/NAME` trains or tunes."""

    folder: str
    names: tuple[str, ...]
    """The names that the help text lists."""
    make: Callable[[str, Sequence[str], Say], None]
    """Trains or tunes the expert with this name; takes the remaining words of the command line."""

    def __post_init__(self) -> None:
        validate(self, "experts.")

    @property
    def tasks(self) -> list[str]:
        """The listed names with their folder, such as `panda/push`."""
        return [f"{self.folder}/{name}" for name in self.names]
