"""Certificates of format 2 cover all that decides a policy's actions; those of format 1 stay checkable."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holdfast.errors import Mistake
from holdfast.evaluation.certificates import FORMAT, Certificate, changed, checked, fingerprint
from holdfast.nets.policy import Policy
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import reopen, run
from tests.tiny import QUIET, tiny_learner, tiny_suite


def a_policy() -> Policy:
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    return learner.policy(found.names[0])


def other_buffer(policy: Policy) -> None:
    policy.net.register_buffer("another", torch.zeros(1))


def other_settings(policy: Policy) -> None:
    policy.net.config = replace(policy.net.config, heads=1)  # the same tensors, used otherwise


def other_interface(policy: Policy) -> None:
    policy.net.interface = replace(policy.interface, horizon=policy.interface.horizon + 1)


def other_scale(policy: Policy) -> None:
    policy.return_scale *= 2


@pytest.mark.parametrize("change", [other_buffer, other_settings, other_interface, other_scale])
def test_format_2_covers_what_format_1_does_not(change) -> None:
    policy = a_policy()
    first, second = fingerprint(policy, format=1), fingerprint(policy)
    change(policy)
    assert fingerprint(policy, format=1) == first
    assert fingerprint(policy) != second


def test_new_runs_have_the_newest_format_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    found = tiny_suite()
    run(found, tiny_learner("naive", found), tmp_path / "new", QUIET)
    assert {one.format for one in RunFolder(tmp_path / "new").read_certificates()} == {FORMAT}
    _, learner = reopen(tmp_path / "new", "cpu", found)
    last = json.loads((tmp_path / "new" / "certificates.json").read_text())[-1]
    assert last["fingerprint"] == fingerprint(learner.policy(last["task"]))


def test_certificates_of_several_formats_in_one_folder_are_refused() -> None:
    one = Certificate(0, "A", "0" * 64)
    for formats in ([1, 2], [3], [0]):
        found = [replace(one, task=task, stage=1, format=number) for task, number in zip("AB", formats, strict=False)]
        with pytest.raises(Mistake, match="one format"):
            checked(found, ["A", "B"])


def test_certificates_without_a_format_are_of_version_0_1() -> None:
    assert Certificate(0, "A", "0" * 64).format == 1
    assert changed([Certificate(0, "A", "0" * 64), Certificate(1, "A", "1" * 64)]) != []
