"""LoRA: the first task's network never changes, and each later task has a low-rank change of every matrix of it."""

from math import prod

import pytest
import torch

from holdfast.data.randomness import numpy_stream, torch_stream
from holdfast.errors import Mistake
from holdfast.learners.learner import new_net
from holdfast.learners.lora import Lora
from holdfast.learners.tensors import Tensors
from holdfast.nets.adapted import Adapted
from holdfast.nets.backbone import Backbone
from holdfast.registry import NETS
from holdfast.tasks.suite import Suite
from holdfast.training.step import trainable
from tests.test_learner_contract import same
from tests.tiny import pixel_suite, tiny_learner, tiny_plan, tiny_suite, windows_in


def adapted(backbone: str, suite: Suite, rank: int = 2, scale: float = 0.5, vectors: bool = True) -> Adapted:
    """An adapted network, not trained."""
    net = new_net(tiny_plan(suite, "lora", backbone).config.net, suite.interface, 0)
    return Adapted(net, rank, scale, vectors, torch_stream(0)).eval()


def learned(suite: Suite, **settings: object) -> Lora:
    learner = tiny_learner("lora", suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    assert isinstance(learner, Lora)
    return learner


def matrices(net: Backbone) -> Tensors:
    """The matrices that are adapted."""
    return {name: each for name, each in net.maskable(net.config.unmasked).items() if each.ndim > 1}


@pytest.mark.parametrize("backbone", NETS)
def test_before_training_an_adapted_network_computes_what_the_frozen_one_does(backbone):
    suite = tiny_suite()
    model = adapted(backbone, suite)
    seen, returns = torch.rand(3, *suite.interface.observation), torch.rand(3)
    assert torch.equal(model.latents(seen), model.net.latents(seen))
    assert torch.equal(model.act(model.start(3), seen, returns)[0], model.net.act(model.start(3), seen, returns)[0])
    batch = windows_in(tiny_learner("naive", suite), suite.tasks[0]).sample(4, numpy_stream(0))
    assert torch.equal(model(batch), model.net(batch))


@pytest.mark.parametrize("backbone", NETS)
def test_every_matrix_is_changed_by_scale_times_b_a_and_nothing_else_but_vectors(backbone):
    suite = tiny_suite()
    model = adapted(backbone, suite)
    with torch.no_grad():
        for up in model.up:
            up.normal_()
    frozen, used = dict(model.net.named_parameters()), model.parameters_in_use()
    assert model.matrix_names == list(matrices(model.net))
    for name, down, up in zip(model.matrix_names, model.down, model.up, strict=True):
        assert torch.equal(used[name], frozen[name] + 0.5 * (up @ down).view_as(frozen[name]))
        assert torch.linalg.matrix_rank(up @ down) <= 2
    assert set(used) - set(model.matrix_names) == {name for name, each in frozen.items() if each.ndim == 1}
    other = new_net(model.config, suite.interface, 1).eval()
    other.load_state_dict(frozen | used)
    seen = torch.rand(3, *suite.interface.observation)
    assert torch.equal(model.latents(seen), other.latents(seen))
    assert not torch.equal(model.latents(seen), model.net.latents(seen))


@pytest.mark.parametrize("backbone", NETS)
def test_only_the_adapter_is_trained_and_its_rank_is_never_more_than_a_matrix_has(backbone):
    model = adapted(backbone, tiny_suite(), rank=8)
    assert {name.partition(".")[0] for name in trainable(model)} == {"down", "up", "vectors"}
    for name, down, up in zip(model.matrix_names, model.down, model.up, strict=True):
        rows, columns = len(matrices(model.net)[name]), prod(matrices(model.net)[name].shape[1:])
        assert (up.shape, down.shape) == ((rows, min(8, rows, columns)), (min(8, rows, columns), columns))
    alone = adapted(backbone, tiny_suite(), vectors=False)
    assert {name.partition(".")[0] for name in trainable(alone)} == {"down", "up"}
    assert set(alone.parameters_in_use()) == set(alone.matrix_names)


def test_the_base_and_earlier_adapters_stay_as_they_are_and_the_first_task_has_none():
    suite = tiny_suite()
    learner = tiny_learner("lora", suite)
    learner.learn(suite.tasks[0])
    base, adapters = dict(learner.base), {}
    assert learner.adapters[suite.names[0]] == {}
    for task in suite.tasks[1:]:
        learner.learn(task)
        assert learner.base.keys() == base.keys()
        assert all(torch.equal(learner.base[name], tensor) for name, tensor in base.items())
        for name, adapter in adapters.items():
            assert all(torch.equal(learner.adapters[name][key], tensor) for key, tensor in adapter.items())
        adapters[task.name] = dict(learner.adapters[task.name])
        assert all(tensor.any() for key, tensor in adapters[task.name].items() if key.startswith("up"))  # trained


@pytest.mark.parametrize("vectors", [True, False])
def test_bytes_are_the_base_once_and_an_adapter_for_each_later_task(vectors):
    suite = tiny_suite()
    learner = learned(suite, rank=3, vectors=vectors)
    net = new_net(learner.config.net, suite.interface, 0)
    low = sum(min(3, len(m), prod(m.shape[1:])) * (len(m) + prod(m.shape[1:])) for m in matrices(net).values())
    own = sum(each.numel() for each in net.parameters() if vectors and each.ndim == 1)
    base = sum(each.numel() for each in net.parameters())
    normalisers = 3 * 2 * prod(suite.interface.observation)
    assert learner.snapshot().bytes() == {
        "weights": 4 * (base + 2 * (low + own) + normalisers),
        "memory": 0,
        "total": 4 * (base + 2 * (low + own) + normalisers),
    }


def test_kernels_of_convolutions_are_adapted_and_earlier_tasks_stay_equal_to_the_bit():
    suite = pixel_suite(3)
    learner = tiny_learner("lora", suite)
    learner.learn(suite.tasks[0])
    learner.learn(suite.tasks[1])
    names = learner.policy(suite.names[1]).net.matrix_names
    assert sum("convolutions" in name for name in names) == 3
    before = learner.snapshot()
    learner.learn(suite.tasks[2])
    after = learner.snapshot()
    for name, tensors in before.weights.items():
        assert all(torch.equal(after.weights[name][key], tensor) for key, tensor in tensors.items())


def test_a_task_of_another_shape_is_refused_and_the_learner_stays_as_it_was():
    suite = tiny_suite(tasks=1)
    learner = learned(suite)
    before = learner.snapshot()
    with pytest.raises(Mistake, match="this learner has one network for all tasks"):
        learner.learn(pixel_suite().tasks[0])
    assert same(learner.snapshot(), before)


@pytest.mark.parametrize(("setting", "value"), [("rank", 0), ("rank", 1.5), ("alpha", 0.0), ("alpha", float("nan"))])
def test_settings_out_of_range_are_refused_in_one_sentence(setting, value):
    with pytest.raises(Mistake, match=f"{setting} must be"):
        tiny_learner("lora", tiny_suite(), **{setting: value})
