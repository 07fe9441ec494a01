"""A new copy may begin with the network of the task that was learned last, in its own weights."""

from dataclasses import replace

import torch

from holdfast.agent.routes import route_reason
from holdfast.subnets.copies import effective
from tests.tiny import tiny_learner, tiny_suite

FROM_LAST = {"routing__threshold": 0.0, "subnets__new_copy": "last", "subnets__warm_start": 100.0}


def test_a_new_copy_has_the_network_of_its_source_inside_and_new_weights_around_it():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite, **FROM_LAST, subnets__private=0.2, subnets__new=0.2)
    for task in suite.tasks[:2]:
        learner.learn(task)
    last = learner.subnetworks[suite.names[1]]
    room = learner.room(2, suite.tasks[2].interface, suite.names[1])
    fresh = room.layout.join(dict(learner.fresh_net(2, room.shape).named_parameters()))
    assert torch.equal(room.copy.weights[last.mask], learner.model_copies[1].weights[last.mask])
    assert torch.equal(room.copy.weights[~last.mask], fresh[~last.mask])
    assert not room.copy.occupied.any()  # all of it is trained


def test_the_change_of_the_source_is_in_the_weights_of_the_new_copy():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite, routing__max_copies=1, subnets__private=0.3, subnets__new=0.2)
    for task in suite.tasks[:2]:
        learner.learn(task)
    name = suite.names[1]
    source, copy = learner.subnetworks[name], learner.model_copies[0]
    assert source.change is not None
    used, room = source.mask | source.change.mask, learner.room(1, suite.tasks[2].interface, name)
    tensors = effective(copy, source, room.layout)
    both = source.mask & source.change.mask
    assert torch.equal(room.copy.weights[source.mask], room.layout.join(tensors)[source.mask])
    assert both.any()
    assert not torch.equal(room.copy.weights[both], copy.weights[both])
    assert used.sum() > source.mask.sum()


def test_every_task_begins_with_the_last_and_trains_weights_of_its_own():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite, **FROM_LAST)
    for task in suite.tasks:
        learner.learn(task)
    first, second, third = learner.subnetworks.values()
    assert [one.copy for one in (first, second, third)] == [0, 1, 2]
    assert torch.equal(first.mask, second.mask)  # a strong start: the mask is still the source's
    assert torch.equal(second.mask, third.mask)
    assert [one.new for one in (first, second, third)] == [int(first.mask.sum())] * 3
    values = [copy.weights[first.mask] for copy in learner.model_copies]
    apart, unrelated = (values[1] - values[0]).abs().mean(), (values[1] - values[1].flip(0)).abs().mean()
    assert 0 < apart < unrelated / 2
    assert [route["source"] for route in learner.routes()] == [None, *suite.names[:2]]
    assert f"opened copy 1 with the network of {suite.names[0]}" in route_reason(learner.routes()[1])


def test_without_the_setting_a_new_copy_has_new_weights_alone():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("affinity-l", suite, routing__threshold=0.0)
    for task in suite.tasks:
        learner.learn(task)
    assert [route["source"] for route in learner.routes()] == [None, None]


def test_a_task_with_another_interface_begins_with_new_weights():
    suite = tiny_suite(tasks=2)
    other = tiny_suite("toy-continuous", tasks=1).tasks[0]
    learner = tiny_learner("affinity-l", suite, **FROM_LAST)
    for task in (suite.tasks[0], replace(other, name="Other"), suite.tasks[1]):
        learner.learn(task)
    assert [route["source"] for route in learner.routes()] == [None, None, suite.names[0]]
    assert learner.shapes[2] == learner.shapes[0]


def test_a_task_with_a_shorter_horizon_begins_with_the_whole_network_of_the_last():
    suite = tiny_suite(tasks=2)
    short = replace(suite.tasks[1].interface, horizon=suite.tasks[1].interface.horizon - 1)
    learner = tiny_learner("affinity-l", suite, **FROM_LAST)
    learner.learn(suite.tasks[0])
    room = learner.room(1, short, suite.names[0])
    assert room.shape == learner.shapes[0]
    assert learner.room(1, short).shape == short


def test_what_no_mask_covers_begins_as_in_the_last_copy():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("affinity-l", suite, **FROM_LAST, subnets__outside="frozen")
    learner.learn(suite.tasks[0])
    room, copy = learner.room(1, suite.tasks[1].interface, suite.names[0]), learner.model_copies[0]
    assert copy.outside
    assert all(torch.equal(room.copy.outside[name], value) for name, value in copy.outside.items())
