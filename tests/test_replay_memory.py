"""ER: its memory never has more bytes than it may have, is shared equally among tasks, and is all that it needs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.data.episodes import Dataset
from holdfast.data.windows import Mixture
from holdfast.errors import Mistake
from holdfast.learners import er
from holdfast.learners.er import Er
from holdfast.learners.learner import no_datasets
from holdfast.runs.more import learn_more
from holdfast.runs.run import run
from holdfast.tasks.suite import Suite
from tests.test_learner_contract import same
from tests.tiny import QUIET, contents, pixel_suite, tiny_learner, tiny_suite

LENGTH = 8  # bytes


def learned(memory_bytes: int, suite: Suite, **settings: Any) -> Er:
    learner = tiny_learner("er", suite, memory_bytes=memory_bytes, **settings)
    for task in suite.tasks:
        learner.learn(task)
    assert isinstance(learner, Er)
    return learner


def as_bytes(dataset: Dataset) -> list[bytes]:
    """Each episode's content."""
    return [b"".join(array.tobytes() for array in vars(episode).values()) for episode in dataset]


def sizes(dataset: Dataset) -> list[int]:
    """The bytes that each episode takes in the memory."""
    return [episode.nbytes + LENGTH for episode in dataset]


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
@pytest.mark.parametrize("memory_bytes", [5_000, 7_001, 12_345, 10**6])
def test_the_memory_has_never_more_bytes_than_its_bound_and_each_task_no_more_than_its_share(memory_bytes, tasks):
    suite = tiny_suite(tasks=tasks)
    learner = learned(memory_bytes, suite)
    memory = learner.snapshot().memory
    assert sum(tensor.nbytes for tensor in memory.values()) <= memory_bytes
    for name in suite.names:
        stored = learner.episodes(name)
        assert sum(sizes(stored)) == sum(memory[f"{kind}/{name}"].nbytes for kind in er.STORED)
        assert sum(sizes(stored)) <= memory_bytes // tasks


def test_the_newest_task_leaves_no_room_for_another_of_its_episodes():
    suite = tiny_suite(tasks=2)
    learner = learned(5_000, suite)
    stored, recorded = (as_bytes(each) for each in (learner.episodes(suite.names[1]), suite.tasks[1].dataset))
    free = 5_000 // 2 - sum(len(episode) + LENGTH for episode in stored)
    assert min(len(episode) + LENGTH for episode in set(recorded) - set(stored)) > free


def test_what_is_stored_are_whole_episodes_of_the_tasks_own_data_each_once():
    suite = tiny_suite()
    learner = learned(5_000, suite)
    for task in suite.tasks:
        stored = as_bytes(learner.episodes(task.name))
        assert len(set(stored)) == len(stored)
        assert set(stored) <= set(as_bytes(task.dataset))
        assert len(stored) < len(task.dataset)


def test_with_room_for_all_everything_is_stored_and_counted_once():
    suite = tiny_suite()
    learner = learned(10**6, suite)
    recorded = sum(sum(sizes(task.dataset)) for task in suite.tasks)
    snapshot = learner.snapshot()
    assert snapshot.bytes()["memory"] == recorded
    assert snapshot.rehearsed == 0
    for task in suite.tasks:
        assert sorted(as_bytes(learner.episodes(task.name))) == sorted(as_bytes(task.dataset))


def test_an_earlier_task_gives_up_episodes_for_a_new_one_and_gets_no_others():
    suite = tiny_suite(tasks=4)
    learner = tiny_learner("er", suite, memory_bytes=6_000)
    before: dict[str, list[bytes]] = {}
    for task in suite.tasks:
        learner.learn(task)
        for name, content in before.items():
            kept = as_bytes(learner.episodes(name))
            assert kept == [episode for episode in content if episode in kept]  # in the same order
            assert len(kept) < len(content)
        before = {name: as_bytes(learner.episodes(name)) for name in learner.learned}


def test_which_episodes_are_stored_depends_on_the_seed_alone():
    suite = tiny_suite(tasks=2)
    first, again, other = (learned(5_000, suite, seed=seed) for seed in (0, 0, 1))
    assert same(first.snapshot(), again.snapshot())
    assert as_bytes(first.episodes(suite.names[0])) != as_bytes(other.episodes(suite.names[0]))


def test_episodes_that_fit_are_taken_in_order_by_hand():
    suite = tiny_suite(tasks=1)
    data = suite.tasks[0].dataset
    step = data.episode(0).nbytes // len(data.episode(0))
    lengths = np.array([4, 10, 3, 2])
    four = Dataset(data.observations[:19], data.actions[:19], data.rewards[:19], lengths)
    room = 9 * step + 3 * LENGTH  # for lengths 4, 3 and 2, but not for 10
    assert er.first_fitting(four, [0, 1, 2, 3], room) == [0, 2, 3]
    assert er.first_fitting(four, [3, 1, 2, 0], room - 1) == [3, 2]
    assert er.first_fitting(four, [1, 0], room) == [0]


def test_a_memory_too_small_for_an_episode_is_refused_before_anything_is_trained(monkeypatch):
    suite = tiny_suite(tasks=2)
    smallest = min(sizes(suite.tasks[0].dataset))
    learner = tiny_learner("er", suite, memory_bytes=2 * smallest - 1)
    learner.learn(suite.tasks[0])
    before = learner.snapshot()
    monkeypatch.setattr(er, "fit", None)
    with pytest.raises(Mistake, match=f"is too small: task number 2 .* every episode of {suite.names[0]} needs"):
        learner.learn(suite.tasks[1])
    assert same(learner.snapshot(), before)
    with pytest.raises(Mistake, match=f"is too small: task number 1 .* every episode of {suite.names[0]} needs"):
        tiny_learner("er", suite, memory_bytes=smallest - 1).learn(suite.tasks[0])


def test_a_batch_has_its_share_of_stored_windows_with_each_tasks_normaliser(monkeypatch):
    suite = tiny_suite()
    learner = tiny_learner("er", suite, mix=0.25)
    sources = []
    fit = er.fit
    monkeypatch.setattr(er, "fit", lambda net, source, *rest: (sources.append(source), fit(net, source, *rest)))
    for task in suite.tasks:
        learner.learn(task, no_datasets)
    last = sources[-1]
    assert isinstance(last, Mixture)
    assert last.share == 0.25
    for part, name in zip(last.parts[1:], suite.names, strict=False):
        assert torch.equal(part.normaliser.shift, learner.normalisers[name].shift)


def test_one_more_task_is_learned_without_the_data_of_earlier_ones_and_gives_the_planned_bits(tmp_path: Path) -> None:
    suite = tiny_suite()
    first = suite.ordered(suite.names[:2])
    run(suite, tiny_learner("er", suite, memory_bytes=6_000), tmp_path / "whole", QUIET)
    run(first, tiny_learner("er", first, memory_bytes=6_000), tmp_path / "more", QUIET)
    learn_more(tmp_path / "more", suite.tasks[2], "cpu", first, datasets=no_datasets, options=QUIET)
    whole, more = (contents(tmp_path / name) for name in ("whole", "more"))
    assert {path: bits for path, bits in more.items() if path.startswith(("weights", "memory"))} == {
        path: bits for path, bits in whole.items() if path.startswith(("weights", "memory"))
    }


def test_frames_are_stored_as_they_were_recorded():
    suite = pixel_suite()
    learner = learned(10**6, suite)
    for task in suite.tasks:
        stored = learner.episodes(task.name)
        assert stored.observations.dtype == np.uint8
        assert sorted(as_bytes(stored)) == sorted(as_bytes(task.dataset))
    single = Dataset(np.zeros((8, 36, 36), np.uint8), np.zeros(8, int), np.zeros(8, np.float32), [8], stack=4)
    learner.memory |= er.stored_tensors(suite.names[0], single, [0])
    assert learner.episodes(suite.names[0]).observation == (4, 36, 36)


@pytest.mark.parametrize(("setting", "value"), [("memory_bytes", 0), ("memory_bytes", 1.5), ("mix", 0.0), ("mix", 1.0)])
def test_settings_out_of_range_are_refused_in_one_sentence(setting, value):
    with pytest.raises(Mistake, match=f"{setting} must be"):
        tiny_learner("er", tiny_suite(), **{setting: value})
