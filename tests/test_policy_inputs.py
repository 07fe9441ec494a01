"""A policy refuses what it cannot read, in one sentence, and acts on as if it had not been given."""

import math

import numpy as np
import pytest

from holdfast.errors import Mistake
from holdfast.nets.policy import CapturedEpisodes, Policy
from holdfast.tasks.environments import Environments, Step
from holdfast.tasks.suite import Suite
from tests.tiny import pixel_suite, tiny_learner, tiny_suite


def learned(found: Suite) -> Policy:
    learner = tiny_learner("naive", found, fit__steps=2)
    learner.learn(found.tasks[0])
    return learner.policy(found.names[0])


@pytest.fixture(scope="module", params=["toy", "toy-continuous"])
def policy(request) -> Policy:
    return learned(tiny_suite(request.param, 1))


@pytest.fixture(scope="module")
def watching() -> Policy:
    return learned(pixel_suite(1))


@pytest.fixture(params=["growing", "fixed"])
def context(request, monkeypatch):
    """The contexts of a CPU and of a GPU; without its graph, the latter runs here as well."""
    if request.param == "fixed":
        monkeypatch.setattr("holdfast.nets.policy.episodes_of", CapturedEpisodes)


CLEAN = np.array([[0.1, -0.2, 0.0, 0.3], [0.5, 0.5, 0.1, 0.0]], np.float32)
BAD = [
    (np.full((2, 4), math.nan), 0.0),
    (np.array([[0, 0, 0, 0], [0, math.inf, 0, 0]]), 0.0),
    (np.full((2, 4), 1e30), 0.0),
    (np.full((2, 4), -1e300), 0.0),
    (CLEAN, math.nan),
    (CLEAN, [0.0, -math.inf]),
    (CLEAN, [1e30, 0.0]),
    (CLEAN, [0.0, 0.0, 0.0]),
    (CLEAN, "much"),
    (CLEAN, None),
    (CLEAN[:1], 0.0),
    (CLEAN[0], 0.0),
    (np.zeros((3, 4)), 0.0),
    (np.zeros((2, 5)), 0.0),
    ([[0.0], [0.0, 1.0]], 0.0),
    (np.array([["a"] * 4] * 2), 0.0),
    (np.zeros((2, 4), complex), 0.0),
    (None, 0.0),
]


@pytest.mark.usefixtures("context")
def test_a_refused_step_is_one_sentence_and_leaves_no_trace(policy):
    for observations, rewards in BAD:
        policy.episodes = None
        policy.reset(2)
        expected = [policy.act(CLEAN * step, [0.5, 1.0]) for step in range(6)]
        policy.reset(2)
        for step, action in enumerate(expected):
            with pytest.raises(Mistake) as said:
                policy.act(observations, rewards)
            assert "\n" not in str(said.value)
            assert np.array_equal(policy.act(CLEAN * step, [0.5, 1.0]), action)


def test_what_a_policy_accepts_never_makes_it_act_with_nan(policy):
    for size in (0.0, 1e6, 1e10, -1e10):
        policy.episodes = None
        policy.reset(2)
        for _ in range(5):
            actions = policy.act(CLEAN + size, size)
        assert np.isfinite(actions).all()


def test_one_episode_is_checked_alike(policy):
    policy.reset()
    with pytest.raises(Mistake, match="cannot act on the observation nan"):
        policy.act([0.0, math.nan, 0.0, 0.0])
    with pytest.raises(Mistake, match="cannot act on the reward nan"):
        policy.act(CLEAN[0], math.nan)
    with pytest.raises(Mistake, match=r"of shape \(1, 4\), got \(1, 2, 4\)"):
        policy.act(CLEAN)
    assert np.isfinite(policy.act(CLEAN[0].tolist(), 1)).all()


def test_a_policy_is_reset_before_it_acts_for_a_whole_number_of_episodes(policy):
    with pytest.raises(Mistake, match="must be reset"):
        policy.for_other_episodes().act(CLEAN)
    for count in (0, -1, 2.5, "2", True):
        with pytest.raises(Mistake, match="the number of episodes must be"):
            policy.reset(count)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, bool])
def test_frames_of_another_type_are_refused_on_every_device(watching, dtype):
    watching.context = None
    watching.reset(2)
    with pytest.raises(Mistake, match=f"frames must be uint8 from 0 to 255, got {np.dtype(dtype)}"):
        watching.act(np.zeros((2, 4, 36, 36), dtype))
    assert len(watching.act(np.zeros((2, 4, 36, 36), np.uint8))) == 2


class Fading(Environments):
    """Each episode is one step longer than the one before; what is observed of an ended one is no number."""

    def reset(self, seeds):
        self.count, self.time = len(seeds), 0
        return np.zeros((self.count, 4), np.float32)

    def begin(self, actions):
        self.time += 1

    def finish(self):
        over = np.arange(self.count) < self.time
        observations = np.full((self.count, 4), 0.1, np.float32)
        observations[over] = np.nan
        return Step(observations, np.ones(self.count), over, over, np.zeros(self.count, bool))


def test_episodes_that_have_ended_may_leave_anything_behind(policy):
    from holdfast.evaluation.rollouts import rollout, side_by_side

    task = tiny_suite("toy", 1).tasks[0]
    ((_, played),) = side_by_side({0: rollout(policy.for_other_episodes(), task, Fading(), range(4))})
    assert played[1] == [1, 2, 3, 4]
