"""The data that the tasks of a suite are built with: how much of it, and of which kind."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from holdfast.data.validation import Range, validate

Transitions = Annotated[int | None, Range(least=1, most=10**9)]  # None: the suite's default
DemonstrationCount = Annotated[int | None, Range(least=1, most=10**5)]  # None: the suite's default


@dataclass(frozen=True, kw_only=True)
class DataChoice:
    """The data of each task; None stands for the suite's default, or for a choice that the suite does not have."""

    transitions: Transitions = None
    """Transitions per task, for a suite that generates its data."""
    demonstrations: DemonstrationCount = None
    """Recorded episodes per task, for a suite that counts its data in demonstrations."""
    data: str | None = None
    """The kind of data, for a suite that has several."""

    def __post_init__(self) -> None:
        validate(self)

    @property
    def given(self) -> dict[str, Any]:
        """The choices that are not left to the default, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def or_else(self, default: "DataChoice") -> "DataChoice":
        """The same choices, with the default where none was given."""
        return replace(default, **self.given)


DEFAULT_DATA = DataChoice()
