"""With `subnets.private`, a later task of a copy adds a change of exactly k entries of each tensor for itself alone."""

import pytest
import torch

from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.study.what_if import what_if
from holdfast.subnets.config import SubnetConfig
from holdfast.subnets.copies import Change, effective
from holdfast.subnets.layout import Layout
from holdfast.subnets.masked import SparseChange
from holdfast.subnets.selection import entries
from holdfast.subnets.stored_changes import read_change, stored_change
from tests.test_selection import three_tasks
from tests.tiny import QUIET, SPARSE, tiny_learner, tiny_suite

ONE_COPY = {"routing__max_copies": 1, "subnets__biases": "outside"}


def learned(name: str = "affinity-l", tasks: int = 3, **settings):
    """A learner that has learned so many tasks."""
    suite = tiny_suite(tasks=tasks)
    learner = tiny_learner(name, suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    return learner


@pytest.mark.parametrize("name", SPARSE)
def test_every_later_task_of_a_copy_changes_exactly_its_share_of_every_tensor(name):
    settings = {} if name in ("tsn-core", "independent") else {"routing__max_copies": 1}
    learner = learned(name, subnets__private=0.1, subnets__keep=0.3, **settings)
    first = {learner.task_copy(name): name for name in reversed(learner.learned)}
    for task, found in learner.subnetworks.items():
        if task in first.values():
            assert found.change is None  # all its entries are its own
            continue
        layout = learner.layout(learner.shapes[found.copy])
        for (chosen,) in layout.pieces(found.change.mask):
            assert int(chosen.sum()) == entries(0.1, entries(0.3, len(chosen)))
        assert len(found.change.values) == int(found.change.mask.sum())
        assert (found.change.values != 0).any()


def test_the_change_is_added_to_the_masked_weights_and_to_nothing_else():
    learner = learned(tasks=2, subnets__private=0.2, **ONE_COPY)
    found, copy = list(learner.subnetworks.values())[1], learner.model_copies[0]
    layout = learner.layout(learner.shapes[0])
    weights = layout.join(effective(copy, found, layout))
    base = torch.where(found.mask, copy.weights, 0.0)
    assert torch.equal(weights[~found.change.mask], base[~found.change.mask])
    assert torch.equal(weights[found.change.mask], (base[found.change.mask] + found.change.values))


def test_what_is_trained_is_what_acts():
    _, _, masked = three_tasks(SubnetConfig(private=0.3))
    masked.change.data = torch.randn(masked.layout.total, generator=torch.Generator().manual_seed(0))
    base, change = masked.masked_weights(torch.float32), masked.sparse_change()
    assert torch.equal(masked.weights(), change.added_to(base))
    assert int(change.mask.sum()) < masked.layout.total / 5


def test_the_gradient_reaches_entries_that_are_not_selected():
    change = torch.tensor([3.0, -1.0, 0.0], requires_grad=True)
    sparse = SparseChange.apply(change, torch.tensor([True, False, False]))
    assert sparse.tolist() == [3.0, 0.0, 0.0]
    sparse.backward(torch.tensor([1.0, 2.0, 3.0]))
    assert change.grad.tolist() == [1.0, 2.0, 3.0]


def test_a_task_starts_with_the_change_of_its_source():
    learner = learned(tasks=3, subnets__private=0.2, fit__steps=1, fit__learning_rate=1e-9, **ONE_COPY)
    first, second, third = learner.subnetworks.values()
    assert first.change is None
    expected = second.change if learner.routes()[2]["source"] == learner.learned[1] else None
    mask = expected.mask if expected else torch.zeros_like(third.mask)
    before = expected.added_to(torch.zeros(len(mask))) if expected else torch.zeros(len(mask))
    after = third.change.added_to(torch.zeros(len(mask)))
    assert float((after - before).abs().max()) < 1e-6


def test_with_a_change_and_no_new_entries_a_copy_is_never_full():
    learner = learned(tasks=3, subnets__private=0.2, subnets__new=0.0, **ONE_COPY)
    (account,) = learner.accounts()
    first, *later = account["tasks"].values()
    assert account["more"] == "any number"
    assert account["occupied"] == first["new"]
    assert [task["new"] for task in later] == [0, 0]


def test_a_change_is_stored_to_the_bit_and_costs_its_values_and_its_mask():
    layout = Layout(("a.weight", "b.weight"), ((300, 100), (20, 10)))
    mask = torch.rand(layout.total, generator=torch.Generator().manual_seed(0)) < 0.02
    change = Change(mask, torch.randn(int(mask.sum()), generator=torch.Generator().manual_seed(1)))
    stored = stored_change(change, layout)
    found = read_change(stored, layout)
    assert torch.equal(found.mask, mask)
    assert torch.equal(found.values.view(torch.int32), change.values.view(torch.int32))
    assert sum(tensor.nbytes for tensor in stored.values()) < change.values.nbytes + 0.25 * layout.total / 8
    assert stored_change(None, layout) == {}
    assert read_change({}, layout) is None


def test_a_change_is_quantised_as_new_weights_are():
    learner = learned(tasks=2, subnets__private=0.5, subnets__quantise_bits=2, **ONE_COPY)
    found, layout = list(learner.subnetworks.values())[1], learner.layout(learner.shapes[0])
    values = found.change.added_to(torch.zeros(layout.total))
    for piece, chosen in layout.pieces(values, found.change.mask):
        assert len(piece[chosen].unique()) <= 4


def test_the_bytes_of_a_change_are_predicted_for_other_thresholds(tmp_path):
    suite, matrices, folders = tiny_suite(), {}, {}
    for name, threshold in (("apart", -1.0), ("together", 1e12)):
        learner = tiny_learner("affinity-l", suite, routing__threshold=threshold, subnets__private=1.0)
        run(suite, learner, tmp_path / name, QUIET)
        folders[name] = RunFolder(tmp_path / name)
        matrices[name] = folders[name].read_matrix()
    for name, other in (("apart", "together"), ("together", "apart")):
        found = what_if(folders[name].read_routes(), matrices[name], folders[name].record["config"])
        (prediction,) = [one for one in found if one.copies == matrices[other].copies]
        assert prediction.bytes == pytest.approx(matrices[other].bytes["total"], rel=0.07)
