"""Whether plain data has the shape of a record: a folder may be another tool's, or damaged."""

from typing import Any

LARGEST = 1e30  # what is larger is no return, and would overflow in a mean or a figure


def fits(value: Any, shape: Any) -> bool:
    """Whether plain data has a shape.

    A type stands for itself, float for any finite number, None for nothing, a tuple for one of several shapes, [shape]
    for a list of such, {name: shape} for an object with at least these names, {str: shape} for one with any names.
    """
    if shape is None:
        return value is None
    if shape is float:
        return type(value) in (int, float) and abs(value) <= LARGEST
    if isinstance(shape, type):
        return type(value) is shape
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    if not isinstance(value, dict):
        return False
    if str in shape:
        return all(fits(item, shape[str]) for item in value.values())
    return all(name in value and fits(value[name], inner) for name, inner in shape.items())
