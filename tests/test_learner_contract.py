"""What holds for every registered learner, whatever the backbone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.dense import DenseLearner
from holdfast.learners.learner import Learner
from holdfast.learners.subnetworks import SubnetworkLearner
from holdfast.registry import LEARNERS, NETS
from holdfast.runs.run import datasets_of
from holdfast.tasks.interface import Discrete, Interface
from tests.tiny import IN_TURN, RETAINING, pixel_suite, tiny_learner, tiny_suite

EVERY = pytest.mark.parametrize(("name", "backbone"), [(name, net) for name in LEARNERS for net in NETS])
EVERY_IN_TURN = pytest.mark.parametrize(("name", "backbone"), [(name, net) for name in IN_TURN for net in NETS])
DENSE = [name for name in LEARNERS if isinstance(tiny_learner(name), DenseLearner)]
SPARSE = [name for name in LEARNERS if isinstance(tiny_learner(name), SubnetworkLearner)]


def fingerprints(learner: Learner) -> dict[str, str]:
    return {name: fingerprint(learner.policy(name)) for name in learner.learned}


def same(one, other) -> bool:
    """Whether two snapshots are equal to the bit."""
    weights = one.weights.keys() == other.weights.keys() and all(
        tensors.keys() == other.weights[name].keys()
        and all(torch.equal(tensor, other.weights[name][key]) for key, tensor in tensors.items())
        for name, tensors in one.weights.items()
    )
    memory = one.memory.keys() == other.memory.keys() and all(
        torch.equal(tensor, other.memory[name]) for name, tensor in one.memory.items()
    )
    return weights and memory and one.notes == other.notes


@EVERY_IN_TURN
def test_restoring_a_snapshot_is_the_identity_at_every_moment(name, backbone):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, backbone=backbone)
    for task in [*suite.tasks[:2], None]:
        snapshot, fresh = learner.snapshot(), tiny_learner(name, suite, backbone=backbone)
        fresh.restore(snapshot)
        assert same(fresh.snapshot(), snapshot)
        assert fingerprints(fresh) == fingerprints(learner)
        learner.restore(snapshot)
        assert same(learner.snapshot(), snapshot)
        if task:
            learner.learn(task, datasets_of(suite.tasks))


@EVERY_IN_TURN
def test_a_policy_that_was_handed_out_never_changes(name, backbone):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, backbone=backbone)
    learner.learn(suite.tasks[0])
    policy = learner.policy(suite.names[0])
    before = fingerprint(policy)
    observations = suite.tasks[0].dataset.observations[:4]
    policy.reset(4)
    first = policy.act(observations)
    learner.learn(suite.tasks[1], datasets_of(suite.tasks))
    learner.restore(learner.snapshot())
    assert fingerprint(policy) == before
    policy.reset(4)
    assert np.array_equal(policy.act(observations), first)


@pytest.mark.parametrize("name", RETAINING)
def test_retention_holds_for_every_backbone(name):
    suite = tiny_suite("toy-continuous")
    for backbone in NETS:
        learner = tiny_learner(name, suite, backbone=backbone)
        seen: dict[str, str] = {}
        for task in suite.tasks:
            learner.learn(task)
            seen = {**fingerprints(learner), **seen}
            assert fingerprints(learner) == seen


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_learned_is_not_learned_again(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite)
    learner.learn(suite.tasks[0])
    with pytest.raises(Mistake, match="already learned"):
        learner.learn(suite.tasks[0])


@pytest.mark.parametrize("name", LEARNERS)
def test_there_is_no_policy_before_a_task_is_learned(name):
    suite = tiny_suite()
    with pytest.raises(Mistake, match=f"no policy for {suite.names[0]}: nothing is learned yet"):
        tiny_learner(name, suite).policy(suite.names[0])


@pytest.mark.parametrize("name", DENSE)
def test_a_learner_with_one_network_refuses_a_task_of_another_shape_and_stays_as_it_was(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite)
    learner.learn(suite.tasks[0])
    before = learner.snapshot()
    longer = replace(suite.tasks[1], interface=replace(suite.tasks[1].interface, horizon=21))
    for other in (tiny_suite("toy-continuous").tasks[0], pixel_suite().tasks[0], longer):
        other = replace(other, name="Other")
        with pytest.raises(Mistake, match=f"Other differs from {suite.names[0]} in observations or actions"):
            learner.learn(other)
    assert same(learner.snapshot(), before)


@pytest.mark.parametrize("name", SPARSE)
def test_a_task_of_another_shape_opens_a_copy_of_its_own_and_earlier_tasks_keep_their_bits(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, subnets__tasks=9)
    few = Interface((4,), Discrete(3, 3), 20)
    tasks = [
        suite.tasks[0],
        replace(tiny_suite("toy-continuous").tasks[0], name="Gliding"),
        pixel_suite().tasks[0],
        replace(suite.tasks[1], name="Again"),
        replace(tiny_suite("toy-continuous").tasks[1], name="GlidingAgain"),
    ]
    seen: dict[str, str] = {}
    for task in tasks:
        learner.learn(task)
        seen = {**fingerprints(learner), **seen}
        assert fingerprints(learner) == seen
    kinds = [learner.shapes[learner.task_copy(task.name)].observation for task in tasks]
    assert kinds == [task.interface.observation for task in tasks]
    assert all(learner.shapes[learner.task_copy(task.name)].fits(task.interface) for task in tasks)
    assert not learner.shapes[0].fits(few)
    fresh = tiny_learner(name, suite, subnets__tasks=9)
    fresh.restore(learner.snapshot())
    assert fingerprints(fresh) == seen


@pytest.mark.parametrize("name", SPARSE)
def test_a_shorter_task_shares_a_copy_with_a_longer_one(name):
    suite = tiny_suite()
    learner = tiny_learner(name, suite, **({} if name in ("tsn-core", "packnet") else {"routing__max_copies": 1}))
    learner.learn(suite.tasks[0])
    data = suite.tasks[1].dataset.take(range(2))
    short = replace(suite.tasks[1], interface=replace(suite.tasks[1].interface, horizon=20), load=lambda: data)
    learner.learn(short)
    assert learner.copies == 1
    policy = learner.policy(short.name)
    policy.reset(2)
    assert len(policy.act(data.observations[:2])) == 2


def test_a_learner_that_replays_data_says_in_one_sentence_that_it_is_not_at_hand():
    suite = tiny_suite()
    learner = tiny_learner("cumulative", suite)
    learner.learn(suite.tasks[0])
    before = learner.snapshot()
    with pytest.raises(Mistake, match=f"needs the data of {suite.names[0]}"):
        learner.learn(suite.tasks[1])
    assert same(learner.snapshot(), before)


@EVERY
def test_a_policy_acts_in_another_task_that_it_is_given(name, backbone):
    suite = tiny_suite(tasks=4)
    learner = tiny_learner(name, suite, backbone=backbone)
    learner.learn(suite.tasks[0])
    other = suite.tasks[3]  # which has more actions
    policy = learner.policy(suite.names[0], other)
    assert (policy.interface.actions, policy.target) == (other.interface.actions, other.target)
    policy.reset(2)
    assert len(policy.act(other.dataset.observations[:2])) == 2
