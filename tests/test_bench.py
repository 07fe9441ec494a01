"""The benchmark measures every part, also of a network that is tiny."""

from dataclasses import replace

import pytest
import torch
from bench import curves, exported, stacked
from bench.bench import Machine, acting, routing, selection, steps
from bench.shapes import PANDA

from holdfast.data.windows import Batch
from holdfast.nets.transformer import DtConfig

TINY = replace(PANDA, net=DtConfig(width=8, layers=2, heads=1, context=4), batch=4)
PLAIN = replace(TINY, net=replace(TINY.net, dropout=0.0))


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine("cpu")


def test_every_part_is_timed_against_another(machine):
    rows = [*steps(TINY, machine, 1), *(measure(TINY, machine, 1) for measure in (selection, acting, routing))]
    assert [row.against for row in rows] == ["dense step", "padded", "torch.topk", "1 episode", "1 candidate"]
    assert all(row.ratio > 0 for row in rows)


def test_a_floor_counts_a_third_of_the_last_block_except_its_keys_and_values():
    wide = replace(TINY, net=replace(TINY.net, layers=1))
    added = TINY.cost("cpu")[0] - wide.cost("cpu")[0]  # a block that is computed at all tokens
    width, length = TINY.net.width, 3 * TINY.net.context
    block = 2 * 12 * width**2 + 4 * length * width
    last = (block - 4 * width**2) / 3 + 4 * width**2
    encoded = 2 * sum(layer.weight.numel() for layer in TINY.dense().encoder.modules() if hasattr(layer, "in_features"))
    assert wide.cost("cpu")[0] == pytest.approx(added / block * (last + encoded / 3))


@pytest.mark.parametrize(("recorded", "parts"), [(1, 1), (3, 3), (5, 5), (40, 5)])
def test_curves_are_shown_in_five_parts_or_in_as_many_as_have_losses(recorded, parts):
    losses = [(50 * number, 0.1) for number in range(1, recorded + 1)]
    rows = [{"suite": "toy", "way": way, "losses": losses} for way in curves.WAYS]
    assert curves.shown(rows).row_count == parts


def test_every_form_of_a_policy_is_timed_and_only_the_folder_of_a_sparse_one_is_smaller():
    rows = list(exported.measure(replace(PANDA, net=DtConfig(width=32, layers=1, heads=1, context=4)), 3))
    assert [row.form for row in rows] == 2 * ["policy", "ONNX", "pt2", "folder"]
    assert all(0 < row.median_ms <= row.p99_ms for row in rows)
    dense, sparse = rows[:4], rows[4:]
    assert [one.bytes == other.bytes for one, other in zip(dense, sparse, strict=True)] == [True, True, True, False]
    assert sparse[3].bytes < 0.6 * dense[3].bytes


def test_stacked_networks_have_the_losses_and_gradients_of_each_alone():
    whole, batch = stacked.stack_of(PLAIN, 3, "cpu"), stacked.stacked_batch(PLAIN, 3, "cpu")
    losses, gradients = differentiated(whole, batch)
    for number in range(3):
        own = {name: getattr(batch, name)[number : number + 1] for name in stacked.TENSORS}
        loss, parts = differentiated(stacked.Stack([stacked.member(PLAIN, number)]), replace(batch, **own))
        torch.testing.assert_close(losses[number : number + 1], loss)
        for together, apart in zip(gradients, parts, strict=True):
            torch.testing.assert_close(together.chunk(3)[number], apart)


def differentiated(stack: stacked.Stack, batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The losses of stacked networks, and the gradients of all that is trained."""
    with stacked.plain_layers():
        losses = stack.losses(batch)
        gradients = torch.autograd.grad(losses.sum(), [stack.all.free, stack.all.scores, *stack.outside])
    return losses, [*gradients]
