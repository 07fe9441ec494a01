"""Learners that are trained well enough to tell them apart: which of them forget, and what they reach."""

import numpy as np
import pytest

from holdfast.evaluation.rollouts import evaluate
from holdfast.runs.configure import learner
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import suite
from holdfast.training.cache import DiskCache
from holdfast.training.recorder import Silent
from tests.tiny import SPARSE


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, list[list[float]]]:
    """Mean returns on toy, as in matrix.json, of learners trained well enough to tell them apart."""
    found, protocol, recorder = suite("toy"), Protocol(episodes=20), Silent()
    recorder.cache = DiskCache(tmp_path_factory.mktemp("cache"))  # what several learners train alike is trained once
    table: dict[str, list[list[float]]] = {}
    for name in ["single", "naive", *SPARSE]:
        trained = learner(name, found, seed=0, device="cpu")
        table[name] = []
        for stage, task in enumerate(found.tasks):
            trained.learn(task, recorder=recorder)
            table[name].append(
                [evaluate(trained.policy(seen.name), seen, protocol).mean for seen in found.tasks[: stage + 1]]
            )
    return table


def test_naive_forgets(results):
    naive = results["naive"]
    assert all(naive[-1][j] < 0.6 * naive[j][j] for j in range(3))


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_learners_forget_nothing_and_reach_what_a_dense_network_reaches_alone(results, name):
    for j in range(4):
        assert len({results[name][i][j] for i in range(j, 4)}) == 1
    assert np.mean(results[name][-1]) >= 0.95 * np.mean(results["single"][-1])
