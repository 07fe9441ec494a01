"""With task_id a network is told which task it is, in training, in replay and when it acts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.agent.progress import FolderRecorder
from holdfast.data.episodes import Dataset, Episode
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.learners.dense import DenseConfig, OneNetworkLearner
from holdfast.learners.learner import Learner
from holdfast.learners.naive import Naive
from holdfast.nets.backbone import call
from holdfast.nets.mlp import MlpConfig
from holdfast.registry import LEARNERS, NETS
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import datasets_of, reopen
from holdfast.tasks.suite import Suite
from holdfast.training.config import FitConfig
from tests.test_resume import interruptions, run_tiny, save_and_stop
from tests.tiny import contents, pixel_suite, tiny_learner, tiny_suite

SHARING = [name for name in LEARNERS if isinstance(tiny_learner(name), OneNetworkLearner)]
REPLAYING = ["cumulative", "er"]


def told(name: str, suite: Suite, **settings: Any) -> Learner:
    """A learner that has learned the suite's tasks, told which is which."""
    learner = tiny_learner(name, suite, task_id=True, **settings)
    if learner.joint:
        learner.learn_all(suite.tasks)
        return learner
    for task in suite.tasks:
        learner.learn(task, datasets_of(suite.tasks))
    return learner


def test_the_learners_with_one_network_are_those_that_share_it_among_tasks():
    assert set(SHARING) == {"naive", "cumulative", "er", "ewc", "si", "l2", "multitask"}


@pytest.mark.parametrize("name", SHARING)
def test_a_run_sets_the_number_of_tasks_and_task_id_is_off_unless_it_is_asked_for(name):
    learner = tiny_learner(name, tiny_suite())
    assert (learner.config.task_id, learner.config.tasks) == (False, 3)
    assert learner.plan.config.tasks is None  # recorded as it was asked for
    assert (learner.codes.count, learner.codes(0)) == (0, None)
    assert learner.codes.widened(tiny_suite().interface) == tiny_suite().interface
    assert tiny_learner(name, tiny_suite(), task_id=True, tasks=7).codes.count == 7


def test_observations_end_with_the_code_of_their_task_which_is_not_normalised():
    suite = tiny_suite("toy-continuous")
    learner, plain = tiny_learner("naive", suite, task_id=True), tiny_learner("naive", suite)
    for place, task in enumerate(suite.tasks):
        coded = learner.begin(task, place).steps.observations
        assert torch.equal(coded[:, :-3], plain.begin(task, place).steps.observations)
        assert coded[:, -3:].tolist() == [[float(place == other) for other in range(3)]] * len(coded)


@pytest.mark.parametrize("name", REPLAYING)
def test_replayed_windows_have_the_code_of_their_own_task(name):
    suite = tiny_suite()
    learner = told(name, suite)
    for place, task in enumerate(suite.tasks):
        steps = learner.replayed(task.name, task.dataset).steps
        assert steps.observations[:, -3:].unique(dim=0).tolist() == [[float(place == other) for other in range(3)]]


def test_windows_of_another_code_have_another_fingerprint():
    suite = tiny_suite()
    learner = tiny_learner("naive", suite, task_id=True)
    assert learner.begin(suite.tasks[0], 0).fingerprint != learner.begin(suite.tasks[0], 1).fingerprint


@pytest.mark.parametrize("backbone", NETS)
@pytest.mark.parametrize("name", SHARING)
def test_a_policy_is_the_one_network_with_its_tasks_code_appended_to_what_it_sees(name, backbone):
    suite = tiny_suite("toy-continuous")
    learner = told(name, suite, backbone=backbone)
    learner.net.eval()
    for place, task in enumerate(suite.tasks):
        policy = learner.policy(task.name)
        assert policy.interface.observation == task.interface.observation
        seen = torch.as_tensor(task.dataset.observations[:5])
        coded = torch.cat([seen, torch.eye(3)[place].expand(5, -1)], dim=1)
        assert torch.equal(policy.net.latents(seen), learner.net.latents(coded))
        state, returns = policy.net.start(5), torch.ones(5)
        actions = call(policy.net, dict(policy.net.named_parameters()), "act", state, seen, returns)[0]
        expected = learner.net.act(learner.net.start(5), coded, returns)[0]
        assert torch.equal(
            actions[:, : task.interface.actions.dimension], expected[:, : task.interface.actions.dimension]
        )


def test_a_task_that_is_not_learned_is_met_with_the_code_of_the_task_whose_policy_it_is():
    suite = tiny_suite(tasks=4)
    learner = tiny_learner("naive", suite, task_id=True)
    for task in suite.tasks[:2]:
        learner.learn(task)
    first, second, unknown = suite.names[0], suite.tasks[1], suite.tasks[3]
    assert learner.policy(first, unknown).net.code.tolist() == [1, 0, 0, 0]
    assert learner.policy(first, second).net.code.tolist() == [0, 1, 0, 0]


def opposite(number: int) -> Dataset:
    """The same observations as in the other task, and opposite actions."""
    rng = np.random.default_rng(0)
    action = np.full((10, 2), [0.8, -0.8][number], np.float32)
    return Dataset.of(Episode(rng.random((10, 4), np.float32), action, np.zeros(10)) for _ in range(3))


def test_told_apart_two_tasks_that_differ_in_nothing_but_their_actions_are_both_learned():
    like = tiny_suite("toy-continuous", 2)
    tasks = tuple(replace(task, load=lambda n=n: opposite(n)) for n, task in enumerate(like.tasks))
    settings = {"backbone": "mlp", "fit__steps": 150, "fit__learning_rate": 3e-3, "net__dropout": 0.0}
    for task_id in (True, False):
        learner = tiny_learner("multitask", like, task_id=task_id, **settings)
        learner.learn_all(tasks)
        actions = []
        for task in tasks:
            policy = learner.policy(task.name)
            policy.reset(10)
            actions.append(policy.act(opposite(0).observations[:10]).mean())
        assert (actions[0] > 0.5 and actions[1] < -0.5) if task_id else actions[0] == pytest.approx(actions[1])


@pytest.mark.parametrize("name", SHARING)
def test_frames_have_no_room_for_a_code_and_nothing_is_learned(name):
    learner = tiny_learner(name, pixel_suite(), task_id=True)
    with pytest.raises(Mistake, match="Pixel0 has frames, and task_id is only for vector observations"):
        learner.learn(pixel_suite().tasks[0])
    assert learner.learned == []


def test_a_task_more_than_the_network_can_tell_apart_is_refused_and_the_learner_stays_as_it_was():
    suite = tiny_suite()
    learner = tiny_learner("naive", suite, task_id=True, tasks=2)
    for task in suite.tasks[:2]:
        learner.learn(task)
    before = [fingerprint(learner.policy(name)) for name in suite.names[:2]]
    with pytest.raises(Mistake, match=f"{suite.names[2]} is task number 3, but the network was made to tell 2 tasks"):
        learner.learn(suite.tasks[2])
    assert [fingerprint(learner.policy(name)) for name in learner.learned] == before


def test_a_learner_made_by_hand_must_be_told_the_number_of_tasks():
    with pytest.raises(Mistake, match="with task_id, tasks must be set"):
        Naive(DenseConfig(MlpConfig(), FitConfig(), task_id=True))


@pytest.mark.parametrize("name", SHARING)
def test_interrupted_at_every_save_and_resumed_it_ends_at_the_same_bits_and_is_reopened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tiny(name, tmp_path / "whole", task_id=True)
    monkeypatch.setattr(FolderRecorder, "save", save_and_stop)
    assert interruptions(name, tmp_path / "broken", task_id=True) == 9
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    _, learner = reopen(tmp_path / "broken", "cpu", tiny_suite())
    certified = {found.task: found.fingerprint for found in RunFolder(tmp_path / "broken").read_certificates()}
    assert {task: fingerprint(learner.policy(task)) for task in learner.learned} == certified
