"""Nested settings: flattened and compared."""

from collections.abc import Iterator, Mapping
from typing import Any


def flattened(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a nested record, each with its dotted name."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def first_difference(old: Any, new: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first setting in which two configs differ: its name and both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            path = f"{name}.{key}" if name and name != "config" else key
            if found := first_difference(old.get(key), new.get(key), path):
                return found
        return None
    return None if old == new else (name, old, new)
