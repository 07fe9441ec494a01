"""PackNet: what a task trains, keeps and sees."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.agent.configure import apply
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import changed
from holdfast.learners.packnet import prune
from holdfast.registry import SUITES
from holdfast.runs.configure import GENERAL, PRESETS, configure, read_plan
from holdfast.runs.run import run
from holdfast.subnets.copies import effective
from holdfast.subnets.masked import FixedMask, Masked, Unmasked
from holdfast.training.fit import fit
from tests.test_retention import learn_and_certify
from tests.tiny import QUIET, tiny_learner, tiny_suite

RESULTS = Path(__file__).parents[1] / "results"


def learned(tasks: int = 3):
    suite = tiny_suite(tasks=tasks)
    learner = tiny_learner("packnet", suite)
    for task in suite.tasks:
        learner.learn(task)
    return suite, learner


def test_a_task_sees_all_that_earlier_tasks_kept_and_adds_an_equal_share_of_what_was_free():
    suite, learner = learned()
    layout, before = learner.layout(suite.interface), torch.zeros(learner.layout(suite.interface).total, dtype=bool)
    for place, name in enumerate(suite.names):
        mask = learner.subnetworks[name].mask
        assert mask[before].all()
        for earlier, now in layout.pieces(before, mask):
            free, left = int((~earlier).sum()), len(suite.names) - place
            assert int((now & ~earlier).sum()) == -(-free // left)
        before = mask
    assert before.all()  # the last task has the rest


def test_what_has_no_masks_is_trained_before_and_after_pruning(monkeypatch):
    ends = []

    def noted(model: Masked, *rest: Any) -> None:
        fit(model, *rest)
        ends.append(model.unmasked())

    monkeypatch.setattr("holdfast.learners.packnet.fit", noted)
    learned(tasks=1)
    trained, retrained = ends
    assert any(not torch.equal(trained[name], retrained[name]) for name in trained)


def test_what_a_later_task_adds_is_nothing_to_an_earlier_one():
    suite, learner = learned()
    layout, copy = learner.layout(suite.interface), learner.model_copies[0]
    first = learner.subnetworks[suite.names[0]]
    tensors = layout.join(effective(copy, first, layout))
    assert (tensors[~first.mask] == 0).all()
    assert (tensors[first.mask] != 0).any()


def test_pruning_keeps_the_largest_free_weights_and_sets_the_others_to_zero():
    suite = tiny_suite()
    learner = tiny_learner("packnet", suite)
    room, net = learner.room(0, suite.interface), learner.fresh_net(0, suite.interface)
    outside = Unmasked(room.layout.outside(dict(net.named_parameters())), trained=True)
    trained = Masked(net, room.layout, room.copy, FixedMask(torch.ones_like(room.copy.occupied)), outside)
    counts = [1] * len(room.layout.sizes)
    mask, pruned = prune(trained, room, counts)
    for values, kept, left in room.layout.pieces(room.copy.weights, mask, pruned.weights):
        assert kept.sum() == 1
        assert values[kept].abs() == values.abs().max()
        assert torch.equal(left, torch.where(kept, values, torch.zeros(())))


def test_a_fixed_mask_trains_what_it_covers_and_nothing_else():
    suite = tiny_suite()
    learner = tiny_learner("packnet", suite)
    room, net = learner.room(0, suite.interface), learner.fresh_net(0, suite.interface)
    mask = torch.arange(room.layout.total) % 2 == 0
    outside = Unmasked(room.layout.outside(dict(net.named_parameters())), trained=False)
    masked = Masked(net, room.layout, room.copy, FixedMask(mask), outside)
    assert torch.equal(masked.mask(), mask)
    masked.weights().sum().backward()
    assert torch.equal(masked.free.grad, mask.float())
    assert not any(parameter.requires_grad for parameter in masked.outside)


def test_the_steps_of_a_task_are_shared_between_training_and_retraining(tmp_path):
    suite = tiny_suite(tasks=2)
    run(suite, tiny_learner("packnet", suite, retrain=0.25), tmp_path, QUIET)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    last = {(event["stage"], event["phase"]): event["step"] for event in events if event["kind"] == "train"}
    assert last == {(0, "train"): 9, (0, "retrain"): 3, (1, "train"): 9, (1, "retrain"): 3}


def test_a_task_for_which_no_weight_is_left_is_refused_in_one_sentence():
    suite = tiny_suite(tasks=3)
    learner = tiny_learner("packnet", suite, subnets__tasks=2)
    for task in suite.tasks[:2]:
        learner.learn(task)
    with pytest.raises(Mistake, match=f"no weights are left for {suite.names[2]}: subnets.tasks"):
        learner.learn(suite.tasks[2])
    assert learner.learned == suite.names[:2]


@pytest.mark.parametrize("outside", ["private", "frozen"])
def test_what_was_learned_stays_whatever_happens_to_parameters_without_masks(outside, tmp_path):
    suite = tiny_suite(tasks=2)
    assert changed(learn_and_certify(tiny_learner("packnet", suite, subnets__outside=outside), suite)) == []
    matrix = run(suite, tiny_learner("packnet", suite, subnets__outside=outside), tmp_path, QUIET)
    assert matrix.stages == 2


def test_frozen_parameters_without_masks_are_trained_by_the_first_task_alone():
    suite = tiny_suite(tasks=2)
    learner = tiny_learner("packnet", suite, subnets__outside="frozen")
    drawn = learner.layout(suite.interface).outside(dict(learner.fresh_net(0, suite.interface).named_parameters()))
    learner.learn(suite.tasks[0])
    first = learner.model_copies[0].outside
    learner.learn(suite.tasks[1])
    second = learner.model_copies[0].outside
    assert any(not torch.equal(first[name], drawn[name]) for name in drawn)
    assert all(torch.equal(first[name], second[name]) for name in drawn)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("new", 0.2),
        ("place", "deep"),
        ("private", 0.3),
        ("sources", 2),
        ("far_source", "last"),
        ("new_copy", "last"),
        ("noise", 0.1),
    ],
)
def test_a_setting_that_it_does_not_read_is_refused(name, value):
    plan = configure("toy", "packnet")
    with pytest.raises(Mistake, match=f"^packnet does not read subnets.{name}: leave it out$"):
        apply(plan, {f"subnets.{name}": value})


@pytest.mark.parametrize("suite", SUITES)
def test_it_takes_every_preset_and_budget_of_every_suite(suite):
    for preset in PRESETS:
        for budget in {**GENERAL, **SUITES[suite].budgets}:
            assert configure(suite, "packnet", preset, budget).learner == "packnet"


def test_its_recorded_runs_can_be_read():
    records = [json.loads(path.read_text())["config"] for path in RESULTS.rglob("packnet*/config.json")]
    assert records
    assert {read_plan(record).learner for record in records} == {"packnet"}
