"""What was learned is equal to the bit after every later task, however the later task was trained."""

import numpy as np
import pytest
import torch

from holdfast.errors import BrokenRetention
from holdfast.evaluation.certificates import Certificate, changed, fingerprint, verdict
from holdfast.learners.sparse import Sparse
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import datasets_of, run
from tests.tiny import FORGETTING, QUIET, RETAINING, contents, pixel_suite, tiny_learner, tiny_suite


def learn_and_certify(learner, suite):
    certificates = []
    for stage, task in enumerate(suite.tasks):
        learner.learn(task, datasets_of(suite.tasks))
        names = suite.names[: stage + 1]
        certificates += [Certificate(stage, name, fingerprint(learner.policy(name))) for name in names]
    return certificates


@pytest.mark.parametrize("suite", ["toy", "toy-continuous"])
@pytest.mark.parametrize("name", RETAINING)
def test_what_was_learned_is_equal_to_the_bit_after_every_later_task(name, suite):
    suite = tiny_suite(suite)
    assert changed(learn_and_certify(tiny_learner(name, suite), suite)) == []


@pytest.mark.parametrize("outside", ["private", "frozen"])
@pytest.mark.parametrize("bits", [0, 3])
@pytest.mark.parametrize("reuse", [True, False])
def test_retention_holds_with_quantisation_and_without_reuse(reuse, bits, outside):
    settings = {"subnets__reuse": reuse, "subnets__quantise_bits": bits, "subnets__outside": outside}
    suite = tiny_suite()
    assert changed(learn_and_certify(tiny_learner("tsn-core", suite, **settings), suite)) == []


@pytest.mark.parametrize("name", ["tsn-core", "affinity-l"])
def test_retention_holds_for_convolutions(name):
    suite = pixel_suite()
    learner = tiny_learner(name, suite, routing__threshold=1e9)  # reuse is forced
    assert changed(learn_and_certify(learner, suite)) == []
    assert any("convolutions" in masked for masked in learner.layout(suite.interface).names)


def test_retention_holds_for_an_aggressive_optimiser():
    settings = {"fit__learning_rate": 0.1, "fit__weight_decay": 1.0, "fit__steps": 40}
    suite = tiny_suite()
    assert changed(learn_and_certify(tiny_learner("tsn-core", suite, **settings), suite)) == []


def test_shared_parameters_leak_so_the_law_can_fail():
    suite = tiny_suite()
    moved = changed(learn_and_certify(tiny_learner("tsn-core", suite, subnets__outside="shared"), suite))
    assert {found.task for found in moved} == set(suite.names[:-1])


@pytest.mark.parametrize("name", FORGETTING)
def test_a_learner_that_does_not_say_that_it_retains_changes_what_it_learned(name):
    suite = tiny_suite()
    moved = changed(learn_and_certify(tiny_learner(name, suite), suite))
    assert {found.task for found in moved} == set(suite.names[:-1])


def test_a_task_that_changes_an_earlier_one_is_not_kept(tmp_path, monkeypatch):
    def learn_and_spoil(self, task, *rest):
        learn(self, task, *rest)
        if len(self.learned) == 2:
            self.model_copies[0].weights[self.subnetworks[self.learned[0]].mask] += 1.0

    suite, learn = tiny_suite(), Sparse.learn
    run(suite, tiny_learner("tsn-core", suite), tmp_path / "whole", QUIET)
    monkeypatch.setattr(Sparse, "learn", learn_and_spoil)
    with pytest.raises(BrokenRetention, match=f"{suite.names[1]} changed {suite.names[0]}"):
        run(suite, tiny_learner("tsn-core", suite), tmp_path / "run", QUIET)
    monkeypatch.setattr(Sparse, "learn", learn)
    assert RunFolder(tmp_path / "run").learned == 1
    run(suite, tiny_learner("tsn-core", suite), tmp_path / "run", QUIET)
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", ["tsn-core", "single", "naive"])
def test_a_lost_certificate_is_made_again_from_what_the_stage_left_or_not_at_all(name, tmp_path):
    suite = tiny_suite()
    matrix = run(suite, tiny_learner(name, suite), tmp_path, QUIET)
    before = RunFolder(tmp_path).read_certificates()
    (tmp_path / "certificates.json").unlink()
    assert run(suite, tiny_learner(name, suite), tmp_path, QUIET).returns == matrix.returns
    known = {True: [2], False: [0, 1, 2]}[tiny_learner(name, suite).retains]
    assert RunFolder(tmp_path).read_certificates() == [found for found in before if found.stage in known]


@pytest.mark.parametrize("part", ["trunk.blocks.0.wide.0.weight", "trunk.last_norm.bias", "shift", "scale"])
def test_a_fingerprint_covers_weights_private_parameters_and_normaliser_to_the_bit(part):
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite)
    learner.learn(suite.tasks[0])
    policy = learner.policy(suite.names[0])
    before = fingerprint(policy)
    tensor = (dict(policy.net.named_parameters()) | vars(policy.normaliser))[part].detach().view(-1)
    tensor[-1] = torch.nextafter(tensor[-1], tensor[-1] + 1)
    assert fingerprint(policy) != before


def test_every_task_and_every_copy_begins_with_numbers_of_its_own():
    suite = tiny_suite()
    learner = tiny_learner("affinity-l", suite, routing__threshold=-1.0, fit__steps=1, fit__learning_rate=1e-9)
    for task in suite.tasks:
        learner.learn(task)
    first, second, _ = learner.model_copies
    assert not torch.allclose(first.weights, second.weights, atol=1e-3)
    masks = [subnetwork.mask for subnetwork in learner.subnetworks.values()]
    assert all(not torch.equal(masks[0], mask) for mask in masks[1:])


def test_equal_fingerprints_mean_equal_actions():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite)
    learner.learn(suite.tasks[0])
    observations = suite.tasks[0].dataset.observations[:5]

    def actions():
        policy = learner.policy(suite.names[0])
        policy.reset(5)
        return np.stack([policy.act(observations) for _ in range(6)])

    before = actions()
    learner.learn(suite.tasks[1])
    assert np.array_equal(before, actions())


def test_every_masked_module_kind_is_covered_and_excluded_modules_are_not():
    names = tiny_learner("tsn-core", pixel_suite()).layout(pixel_suite().interface).names
    for part in (
        "encoder.convolutions.0.weight",
        "encoder.layers.0.bias",
        "head.embed.weight",
        "trunk.blocks.0.wide.0",
    ):
        assert any(name.startswith(part) for name in names), part
    assert not any("norm" in name or name.startswith("timestep") for name in names)
    everything = tiny_learner("tsn-core", pixel_suite(), subnets__exclude=()).layout(pixel_suite().interface).names
    assert any(name.startswith("timestep") for name in everything)


def test_occupancy_never_shrinks_and_owned_weights_never_move():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite)
    assert isinstance(learner, Sparse)
    before = None
    for task in suite.tasks:
        learner.learn(task)
        now = learner.model_copies[0]
        if before is not None:
            assert (now.occupied | ~before.occupied).all()
            assert torch.equal(now.weights[before.occupied], before.weights[before.occupied])
            assert not torch.equal(now.weights[~before.occupied], before.weights[~before.occupied])  # the rest does
        before = now


def test_without_reuse_masks_are_disjoint():
    suite = tiny_suite()
    learner = tiny_learner("tsn-core", suite, subnets__reuse=False)
    for task in suite.tasks:
        learner.learn(task)
    masks = torch.stack([found.mask for found in learner.subnetworks.values()])
    assert masks.sum(dim=0).max() == 1
    assert all(found.new == int(found.mask.sum()) for found in learner.subnetworks.values())


def test_certificates_say_in_words_what_they_prove():
    first, same = Certificate(0, "push", "a"), Certificate(1, "push", "a")
    second, moved = Certificate(1, "lift", "b"), Certificate(2, "lift", "c")
    assert verdict([]) == "none"
    assert verdict([first]) == "every task equal to the bit after each of 1 stage"
    assert verdict([first, same, second]) == "every task equal to the bit after each of 2 stages"
    assert verdict([first, same, second, moved, Certificate(2, "push", "d")]) == "changed by later learning: lift, push"


def test_equal_remaining_gives_equal_shares():
    suite = tiny_suite()
    settings = {"subnets__reuse": False, "subnets__schedule": "equal_remaining"}
    learner = tiny_learner("tsn-core", suite, **settings)
    for task in suite.tasks:
        learner.learn(task)
    masks = [found.mask for found in learner.subnetworks.values()]
    for pieces in zip(*(mask.split(learner.layout(suite.interface).sizes) for mask in masks), strict=True):
        shares = [int(piece.sum()) for piece in pieces]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) == len(pieces[0])
