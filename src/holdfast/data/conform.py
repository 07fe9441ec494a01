"""Checks plain data from a file against a type."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from holdfast.data.validation import validated
from holdfast.errors import Mistake

LONGEST = 80  # characters of a name in a message
LARGEST = 2**63  # larger integers do not fit into arrays


@dataclass(frozen=True)
class Conform:
    """`conform(value, type)` returns the value as this type, or raises and names the field that does not fit.

    Lists become tuples where the type is a tuple, and mappings become dataclasses, which check themselves.
    """

    finite: bool = True  # whether numbers must be finite
    partial: bool = False  # whether a dataclass may lack fields or have unknown ones; it then stays a mapping

    def __call__(self, value: Any, kind: Any, where: str = "") -> Any:
        origin, inner = get_origin(kind), get_args(kind)
        if kind is Any:
            return value
        if origin is Annotated:  # ranges are checked by the dataclass itself
            return self(value, inner[0], where)
        if origin in (Union, UnionType):
            return self._one_of(value, inner, where)
        if origin is Literal:
            return validated(where, value, kind)
        if origin in (list, tuple):
            _require(isinstance(value, list | tuple), where, "a list", value)
            if self._all_fit(value, inner[0]):
                return origin(value)
            return origin(self(item, inner[0], f"{where}[{place}]") for place, item in enumerate(value))
        if origin is not None and issubclass(origin, Mapping):
            _require(isinstance(value, Mapping), where, "an object", value)
            return {name: self(item, inner[1], _inside(where, name)) for name, item in value.items()}
        if is_dataclass(kind):
            return self._record(value, kind, where)
        return self._plain(value, kind, where)

    def _plain(self, value: Any, kind: type, where: str) -> Any:
        if type(value) is not kind or (self.finite and type(value) is float and not isfinite(value)):
            validated(where or "it", value, kind)
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise Mistake(f"{where or 'it'} is too large a number")
        return value

    def _all_fit(self, values: Collection[Any], kind: Any) -> bool:
        """Whether all values are plain ones of this type; thousands of numbers are soon checked like this."""
        if set(map(type, values)) != {kind}:
            return False
        if kind is float:
            return not self.finite or all(map(isfinite, values))
        if kind is int:
            return -LARGEST <= min(values) <= max(values) < LARGEST
        return kind in (bool, str)

    def _one_of(self, value: Any, kinds: tuple[Any, ...], where: str) -> Any:
        """The value as the first of these types that fits; if none does, the error of the last one."""
        if value is None and NoneType in kinds:
            return None
        *others, last = [kind for kind in kinds if kind is not NoneType]
        for kind in others:
            try:
                return self(value, kind, where)
            except Mistake:
                continue
        return self(value, last, where)

    def _record(self, value: Any, kind: Any, where: str) -> Any:
        _require(isinstance(value, Mapping), where, "an object", value)
        hints, known = _field_types(kind), {field.name: field for field in fields(kind)}
        missing = [name for name, field in known.items() if name not in value and _is_required(field)]
        unknown = [name for name in value if name not in known]
        if missing and not self.partial:
            raise Mistake(f"{_inside(where, missing[0])} is missing")
        if unknown and not self.partial:
            raise Mistake(f"{_inside(where, unknown[0][:LONGEST])} is not a known field")
        values = {name: self(value[name], hints[name], _inside(where, name)) for name in known if name in value}
        return value if self.partial else kind(**values)


conform = Conform()


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_required(field: Field) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _require(right: bool, where: str, wanted: str, value: Any) -> None:
    if not right:
        raise Mistake(f"{where or 'it'} must be {wanted}, got {shortened(value)}")
