"""Multitask: all tasks in one call, in equal shares, with as many steps as others take for all tasks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.agent.progress import FolderRecorder
from holdfast.data.windows import EqualShares
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners import multitask
from holdfast.registry import NETS
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.runs.state import state_of
from tests.test_learner_contract import fingerprints, same
from tests.test_resume import OFTEN, Interruption, run_tiny, save_and_stop
from tests.tiny import QUIET, pixel_suite, tiny_learner, tiny_suite, windows_in


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 64, 65])
def test_every_batch_has_the_same_number_of_windows_of_each_task_but_for_a_rest_of_one(batch):
    suite = tiny_suite()
    windows = EqualShares([windows_in(tiny_learner("naive", suite), task) for task in suite.tasks])
    totals = np.zeros(3, int)
    for seed in range(60):
        counts = windows.counts(batch, np.random.default_rng(seed))
        assert sum(counts) == batch
        assert max(counts) - min(counts) <= 1
        totals += counts
        first, _ = windows.draw(batch, np.random.default_rng(seed))
        assert np.histogram(first, windows.before)[0].tolist() == counts
    assert totals / totals.sum() == pytest.approx(np.full(3, 1 / 3), abs=0.15)  # the rest goes to each in turn


def test_the_mixture_of_other_tasks_is_another_one_to_the_cache():
    suite = tiny_suite()
    windows = [windows_in(tiny_learner("naive", suite), task) for task in suite.tasks]
    assert EqualShares(windows).fingerprint != EqualShares(windows[:2]).fingerprint


def test_it_takes_the_steps_of_every_task_and_is_evaluated_after_the_last_alone(tmp_path: Path) -> None:
    suite = tiny_suite()
    matrix = run(suite, tiny_learner("multitask", suite), tmp_path, QUIET)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert max(event["step"] for event in events if event["kind"] == "train") == 3 * 12
    assert matrix.returns[:2] == [[None] * 3] * 2
    assert all(matrix.returns[2])


def test_an_interrupted_run_says_how_many_of_all_steps_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    with pytest.raises(Interruption):
        run_tiny("multitask", tmp_path, OFTEN)
    assert "learning all tasks: step 4 of 36" in state_of(RunFolder(tmp_path)).known()


@pytest.mark.parametrize("backbone", NETS)
def test_restoring_a_snapshot_is_the_identity_and_a_policy_never_changes(backbone):
    suite = tiny_suite()
    learner, fresh = (tiny_learner("multitask", suite, backbone=backbone) for _ in range(2))
    fresh.restore(learner.snapshot())
    assert same(fresh.snapshot(), learner.snapshot())
    learner.learn_all(suite.tasks)
    policy = learner.policy(suite.names[1])
    before = fingerprint(policy)
    fresh.restore(learner.snapshot())
    learner.restore(learner.snapshot())
    assert same(fresh.snapshot(), learner.snapshot())
    assert fingerprints(fresh) == fingerprints(learner)
    assert fingerprint(policy) == before


def test_a_second_call_is_refused():
    suite = tiny_suite()
    learner = tiny_learner("multitask", suite)
    learner.learn_all(suite.tasks[:2])
    before = learner.snapshot()
    with pytest.raises(Mistake, match="learns all tasks in one call: make a new learner for all of them"):
        learner.learn(suite.tasks[2])
    assert same(learner.snapshot(), before)


def test_tasks_of_different_shapes_are_refused_before_anything_is_learned():
    suite = tiny_suite()
    learner = tiny_learner("multitask", suite)
    with pytest.raises(Mistake, match=f"Other differs from {suite.names[0]} in observations or actions"):
        learner.learn_all([*suite.tasks, replace(pixel_suite().tasks[0], name="Other")])
    assert learner.learned == []


def test_if_learning_fails_the_learner_is_as_it_was(monkeypatch):
    suite = tiny_suite()
    learner = tiny_learner("multitask", suite)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(multitask, "fit", fail)
        with pytest.raises(KeyboardInterrupt):
            learner.learn_all(suite.tasks)
    assert (learner.learned, learner.normalisers) == ([], {})
    learner.learn_all(suite.tasks)
    whole = tiny_learner("multitask", suite)
    whole.learn_all(suite.tasks)
    assert same(learner.snapshot(), whole.snapshot())
