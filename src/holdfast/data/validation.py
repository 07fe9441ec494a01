"""Validation of settings: types, ranges, and finite numbers."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from holdfast.errors import Mistake


@dataclass(frozen=True)
class Range:
    """The allowed range of a number, as in `Annotated[float, Range(over=0, most=1)]`."""

    least: float | None = None
    most: float | None = None
    over: float | None = None
    under: float | None = None

    def holds(self, value: float) -> bool:
        """Whether a value lies in the range."""
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.over is None or value > self.over)
            and (self.under is None or value < self.under)
        )

    def __str__(self) -> str:
        bounds = {"at least": self.least, "over": self.over, "at most": self.most, "under": self.under}
        return " and ".join(f"{words} {bound:,}" for words, bound in bounds.items() if bound is not None)


def validate(settings: Any, prefix: str = "") -> None:
    """Raises unless every field of a frozen dataclass has a valid value; to be called in its `__post_init__`.

    Values are also converted to the declared type: numpy numbers become Python numbers, and lists become tuples.
    """
    hints = _settings_types(settings.__class__)
    for field in fields(settings):
        value = validated(prefix + field.name, getattr(settings, field.name), hints[field.name])
        object.__setattr__(settings, field.name, value)


def validated(name: str, value: Any, hint: Any) -> Any:
    """The value converted to the type of a hint such as `Annotated[int, Range(least=1)]`; raises if it does not fit."""
    ranges: list[Range] = []
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        ranges = [note for note in notes if isinstance(note, Range)]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    for kind in kinds:
        try:
            value = _converted(value, kind)
            break
        except (TypeError, OverflowError):
            continue
    else:
        wanted = " or ".join(dict.fromkeys(_in_words(kind) for kind in kinds))
        raise Mistake(f"{name} must be {wanted}, got {shown(value)}")
    for allowed in ranges:
        if not isinstance(value, str) and not allowed.holds(value):  # a word such as "planned" has no range
            raise Mistake(f"{name} must be {allowed}, got {shown(value)}")
    return value


def check_unread(settings: Any, names: Collection[str], prefix: str, reader: str) -> None:
    """Raises if one of these fields of a dataclass, which the reader never reads, differs from its default."""
    for field in fields(settings):
        if field.name in names and getattr(settings, field.name) != field.default:
            raise Mistake(f"{reader} does not read {prefix}{field.name}: leave it out")


def check_paths(settings: Any) -> None:
    """Raises if a path in a dataclass, or in dataclasses inside it, is not valid on this machine."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            check_paths(value)
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                _check_path(path)


def _check_path(path: Path) -> None:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # the user of the path decides whether that is an error
    except (OSError, ValueError) as problem:  # too long, a loop of links, a null character
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise Mistake(f"{shown(str(path))} is not a valid path ({why}): choose another one") from None


def shown(value: Any) -> str:
    """A value as text for a message: one line of at most 80 characters."""
    try:
        text = repr(value)
    except Exception:  # a user's object may raise anything
        text = f"a {type(value).__name__}"
    text = " ".join(line.strip() for line in text.splitlines())  # an array's repr has several
    return text if len(text) <= 80 else f"{text[:77]}..."


def did_you_mean(name: str, known: Any) -> str:
    """The hint `, did you mean ...?` for an unknown name, or an empty string."""
    near = get_close_matches(name, list(known), 1)
    return f", did you mean {near[0]}?" if near else ""


@cache
def _settings_types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _converted(value: Any, kind: Any) -> Any:
    """The value as this type; raises TypeError or OverflowError if it does not fit."""
    if get_origin(kind) is Literal:
        return _accepted(value, isinstance(value, str) and value in get_args(kind))
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        _accepted(value, isinstance(value, list | tuple))
        return tuple(_converted(part, of) for part in value)
    if kind in CONVERSIONS:
        return CONVERSIONS[kind](value)
    plain = get_origin(kind) or kind  # of Mapping[str, int], Mapping
    return _accepted(value, isinstance(value, plain) if isinstance(plain, type) else True)


def _accepted(value: Any, condition: bool) -> Any:
    if not condition:
        raise TypeError
    return value


def _whole(value: Any) -> int:
    return int(_accepted(value, isinstance(value, Integral) and not isinstance(value, bool)))


def _finite(value: Any) -> float:
    return float(_accepted(value, isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)))


def _text(value: Any) -> str:
    return str(_accepted(value, isinstance(value, str)))


def _flag(value: Any) -> bool:
    return bool(_accepted(value, isinstance(value, bool | np.bool_)))


def _path(value: Any) -> Path:
    return Path(_accepted(value, isinstance(value, str | Path)))


CONVERSIONS: dict[Any, Callable[[Any], Any]] = {int: _whole, float: _finite, str: _text, bool: _flag, Path: _path}


PLAIN: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    bool: "True or False",
    Path: "a path",
    Callable: "a function",
    Mapping: "a dictionary",
}


def _in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if get_origin(kind) is tuple:
        return f"a list, each entry {_in_words(get_args(kind)[0])}"
    return PLAIN.get(get_origin(kind) or kind, f"a {getattr(kind, '__name__', kind)}")
