"""The laws of subnetworks hold for every setting of how a task reuses what others have learned."""

import pytest

from holdfast.agent.progress import FolderRecorder
from holdfast.evaluation.certificates import changed
from holdfast.registry import NETS
from tests.test_learner_contract import fingerprints, same
from tests.test_resume import interruptions, run_tiny, save_and_stop
from tests.test_retention import learn_and_certify
from tests.tiny import SPARSE, contents, pixel_suite, tiny_learner, tiny_suite

VARIANTS = {
    "sources": {"subnets__sources": 2, "subnets__new": 0.2},
    "private": {"subnets__private": 0.1},
    "private-only": {"subnets__private": 0.3, "subnets__new": 0.0},
    "private-and-new": {"subnets__private": 0.1, "subnets__new": "planned"},
    "by-data": {"subnets__new": "auto"},
    "by-gradient": {"subnets__new": 0.2, "subnets__place": "gradient"},
    "deep": {"subnets__new": 0.2, "subnets__place": "deep"},
    "shallow": {"subnets__new": "planned", "subnets__place": "shallow"},
    "weak-start": {"subnets__warm_start": 0.1, "subnets__new": 0.2},
    "copies-from-the-last": {"subnets__new_copy": "last", "subnets__new": "planned", "subnets__tasks": 1},
}
OF_ROUTING = ("subnets__sources", "subnets__new_copy")  # which tsn-core refuses
VARIANT = pytest.mark.parametrize("variant", VARIANTS)
EVERY = pytest.mark.parametrize("name", SPARSE)


def settings_of(variant: str, name: str) -> dict:
    """The settings of a variant; all tasks share one copy unless the learner forbids it or the variant opens more."""
    if name == "tsn-core":
        read = {name: value for name, value in VARIANTS[variant].items() if name not in OF_ROUTING}
        return {"subnets__biases": "outside", **read, "subnets__tasks": None}
    opens = name == "independent" or "subnets__new_copy" in VARIANTS[variant]
    one_copy = {} if opens else {"routing__max_copies": 1}
    return {"preset": "paper", "subnets__biases": "outside", **VARIANTS[variant], **one_copy}


@EVERY
@VARIANT
def test_what_was_learned_is_equal_to_the_bit_after_every_later_task(name, variant, device):
    suite = tiny_suite("toy-continuous")
    learner = tiny_learner(name, suite, device, **settings_of(variant, name))
    assert changed(learn_and_certify(learner, suite)) == []


@VARIANT
def test_retention_holds_for_convolutions_and_quantised_weights(variant):
    suite = pixel_suite()
    learner = tiny_learner("affinity-l", suite, subnets__quantise_bits=3, **settings_of(variant, "affinity-l"))
    assert changed(learn_and_certify(learner, suite)) == []


@pytest.mark.parametrize(
    ("name", "backbone"), [*((name, "dt") for name in SPARSE), *(("affinity-l", net) for net in NETS if net != "dt")]
)
@VARIANT
def test_restoring_a_snapshot_is_the_identity_at_every_moment(name, variant, backbone, device):
    suite, settings = tiny_suite(), {"backbone": backbone, **settings_of(variant, name)}
    learner = tiny_learner(name, suite, device, **settings)
    for task in [*suite.tasks, None]:
        snapshot, fresh = learner.snapshot(), tiny_learner(name, suite, device, **settings)
        fresh.restore(snapshot)
        assert same(fresh.snapshot(), snapshot)
        assert fingerprints(fresh) == fingerprints(learner)
        if task:
            learner.learn(task)
            fresh.learn(task)
            assert same(fresh.snapshot(), learner.snapshot())


@VARIANT
def test_interrupted_at_every_save_and_resumed_gives_the_same_bits(variant, tmp_path, monkeypatch):
    settings = settings_of(variant, "affinity-l")
    run_tiny("affinity-l", tmp_path / "whole", **settings)
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    assert interruptions("affinity-l", tmp_path / "broken", **settings) == 9
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")
