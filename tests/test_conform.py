"""Plain data from a file fits its type, or the place that does not fit is named."""

from math import inf, isnan, nan
from typing import Any

import pytest

from holdfast.data.conform import Conform, conform
from holdfast.errors import Mistake

BAD = {
    "text among numbers": (["1", 1.5], list[float], "[0]"),
    "a truth among integers": ([1, True], list[int], "[1]"),
    "an integer among truths": ([True, 1], list[bool], "[1]"),
    "a number among texts": (["a", 1], list[str], "[1]"),
    "not a number": ([0.5, nan], list[float], "[1]"),
    "an infinite number": ([-inf, 0.5], list[float], "[0]"),
    "too large": ([1, 2**63], list[int], "[1]"),
    "too small": ([-(2**63) - 1, 1], list[int], "[0]"),
    "inside another list": ([[0.5], [0.5, None]], list[list[float]], "[1][1]"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_place_that_does_not_fit_is_named(case: str) -> None:
    value, kind, place = BAD[case]
    with pytest.raises(Mistake) as told:
        conform(value, kind, "numbers")
    assert f"numbers{place} " in str(told.value)


@pytest.mark.parametrize("kind", [float, int, bool, str])
def test_lists_that_fit_become_what_the_type_says(kind: Any) -> None:
    values = [kind(number) for number in range(3)]
    assert conform(values, list[kind]) == values
    assert conform(values, tuple[kind, ...]) == tuple(values)
    assert conform([], list[kind]) == []
    assert conform(values, list[kind]) is not values


def test_integers_are_numbers_and_numbers_need_not_be_finite_where_that_is_said() -> None:
    assert conform([1, 0.5], list[float]) == [1, 0.5]
    first, second = Conform(finite=False)([inf, nan], list[float])
    assert first == inf
    assert isnan(second)
