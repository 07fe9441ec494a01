"""Layouts of random spaces: what is encoded decodes to itself, and records read back."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.data.action_layouts import action_layout
from holdfast.data.layout import Layout
from holdfast.data.observation_parts import observation_parts
from holdfast.data.spaces import from_gymnasium, from_json
from holdfast.errors import Mistake
from tests.recorded_data import stack

QUICK = settings(max_examples=60, deadline=None)
DTYPES = ("float32", "float64", "int32", "uint8")


@st.composite
def boxes(draw: st.DrawFn, axes: int = 2) -> spaces.Box:
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=axes)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    least = 0 if dtype == np.uint8 else draw(st.integers(-100, 100))
    low = np.full(shape, least, dtype)
    return spaces.Box(low, low + dtype.type(draw(st.integers(0, 100))), dtype=dtype.type)


@st.composite
def discretes(draw: st.DrawFn) -> spaces.Discrete:
    return spaces.Discrete(draw(st.integers(1, 9)), start=draw(st.integers(-5, 5)))


@st.composite
def multidiscretes(draw: st.DrawFn) -> spaces.MultiDiscrete:
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    starts = draw(st.lists(st.integers(-3, 3), min_size=len(counts), max_size=len(counts)))
    return spaces.MultiDiscrete(counts, start=starts)


multibinaries = st.integers(1, 5).map(spaces.MultiBinary)
leaf_spaces = st.one_of(boxes(), discretes(), multidiscretes(), multibinaries)
keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
observation_spaces = st.recursive(
    leaf_spaces,
    lambda inner: st.one_of(
        st.dictionaries(keys, inner, min_size=1, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: spaces.Tuple(tuple(parts))),
    ),
    max_leaves=6,
)
action_spaces = st.one_of(boxes(), discretes(), multidiscretes(), multibinaries)


def layout_of(observation: spaces.Space, action: spaces.Space, actions: np.ndarray) -> Layout:
    parts = observation_parts(from_gymnasium(observation), [])
    return Layout(parts, action_layout(from_gymnasium(action), actions, []))


def sampled(space: spaces.Space, seed: int, count: int) -> list[Any]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def raw_numbers(layout: Layout, vector: np.ndarray) -> list[np.ndarray]:
    """The numbers of each part, read back from its columns; one-hot ones by the place of the one."""
    found = []
    for part in layout.parts:
        columns, vector = vector[: part.width], vector[part.width :]
        if hasattr(part, "counts"):
            ends = np.cumsum(part.counts)
            digits = [columns[end - count : end] for count, end in zip(part.counts, ends, strict=True)]
            assert all(digit.sum() == 1 for digit in digits)
            columns = np.array([digit.argmax() for digit in digits]) + part.starts
        found.append(columns.reshape(part.shape))
    return found


@QUICK
@given(observation_spaces, st.integers(0, 2**31))
def test_an_observation_can_be_read_back_from_its_columns(space: spaces.Space, seed: int) -> None:
    rows = sampled(space, seed, 3)
    layout = layout_of(space, spaces.Discrete(2), np.zeros(3, int))
    encoded = layout.encode_observations(stack(rows))
    assert encoded.shape == (3, *layout.observation)
    for row, vector in zip(rows, encoded, strict=True):
        np.testing.assert_array_equal(layout.encode_observation(row), vector)
        for part, numbers in zip(layout.parts, raw_numbers(layout, vector), strict=True):
            value = row
            for key in part.path:
                value = value[key]
            np.testing.assert_array_equal(numbers, np.asarray(value).astype(np.float32))


@QUICK
@given(action_spaces, st.integers(0, 2**31))
def test_an_action_decodes_to_itself(space: spaces.Space, seed: int) -> None:
    rows = stack(sampled(space, seed, 4))
    layout = layout_of(spaces.Box(0, 1, (2,)), space, rows)
    decoded = layout.decode_actions(layout.encode_actions(rows))
    assert decoded.shape == rows.shape
    np.testing.assert_allclose(decoded, rows, atol=2e-5)
    if rows.dtype.kind in "iu":
        np.testing.assert_array_equal(decoded, rows)
    for row in rows:
        assert space.contains(np.asarray(layout.decode_action(layout.encode_action(row)), space.dtype))


@QUICK
@given(observation_spaces, action_spaces)
def test_a_layout_is_plain_data_that_reads_back(observation: spaces.Space, action: spaces.Space) -> None:
    layout = layout_of(observation, action, stack(sampled(action, 0, 2)))
    assert Layout.read(json.loads(json.dumps(layout.record()))) == layout


@QUICK
@given(observation_spaces)
def test_minaris_description_of_a_space_gives_the_same_layout(space: spaces.Space) -> None:
    from minari.serialization import serialize_space

    described = json.loads(serialize_space(space))
    assert observation_parts(from_json(described), []) == observation_parts(from_gymnasium(space), [])


@QUICK
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "shape", "n"]), inner),
        max_leaves=8,
    )
)
def test_any_description_of_a_space_is_read_or_refused_in_one_sentence(record: Any) -> None:
    for read in (from_json, Layout.read):
        said = refusal(read, record)
        assert said is None or len(said.splitlines()) == 1


def refusal(read: Callable[[Any], Any], record: Any) -> str | None:
    try:
        read(record)
    except Mistake as mistake:
        return str(mistake)
    return None
