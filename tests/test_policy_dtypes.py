"""Observations of a wrong type are refused on every device, and those of a right one mean the same on all."""

import numpy as np
import pytest

from holdfast.errors import Mistake
from tests.tiny import pixel_suite, tiny_learner, tiny_suite

VALUES = np.array([[0, 1, 0, -1], [1, 1, 0, 0]])


@pytest.mark.parametrize("treatment", ["equal", "paper"])
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.int8, np.uint8, bool])
def test_numbers_of_any_type_are_acted_on_as_the_same_numbers_in_float32(
    dtype: type, treatment: str, device: str
) -> None:
    found = tiny_suite("toy-continuous", 1)
    learner = tiny_learner("naive", found, device, treatment=treatment, fit__steps=2)
    learner.learn(found.tasks[0])
    policy, observations = learner.policy(found.names[0]), np.abs(VALUES).astype(dtype)
    acted = []
    for given in (observations, observations.astype(np.float32)):
        policy.reset(2)
        acted.append([policy.act(given, 0.5) for _ in range(6)])
    assert np.array_equal(*acted)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16, bool])
def test_frames_of_another_type_than_bytes_are_refused(dtype: type, device: str) -> None:
    found = pixel_suite(1)
    learner = tiny_learner("naive", found, device, fit__steps=1)
    learner.learn(found.tasks[0])
    policy = learner.policy(found.names[0])
    policy.reset()
    with pytest.raises(Mistake, match="uint8"):
        policy.act(np.zeros((4, 36, 36), dtype))


@pytest.mark.parametrize("dtype", [complex, object, "U1", "datetime64[s]"])
def test_what_is_no_number_is_refused(dtype: object, device: str) -> None:
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found, device, fit__steps=1)
    learner.learn(found.tasks[0])
    policy = learner.policy(found.names[0])
    policy.reset()
    with pytest.raises(Mistake, match="must be numbers"):
        policy.act(np.zeros(4, dtype))  # type: ignore[call-overload]
