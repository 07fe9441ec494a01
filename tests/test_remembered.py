"""An evaluation that was done before is recalled, and no other."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.evaluation.remembered import evaluate_once, key, packed, unpacked
from holdfast.evaluation.rollouts import Evaluation, evaluate
from holdfast.nets.policy import Policy
from holdfast.runs.folder import RunFolder
from holdfast.runs.memo import DiskMemo
from holdfast.runs.run import run
from holdfast.suites.environments import Protocol
from holdfast.suites.task import Task
from tests.tiny import QUIET, SPARSE, contents, tiny_learner, tiny_suite

remembered = import_module("holdfast.evaluation.remembered")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were really played."""
    play, seen = remembered.evaluate_together, []

    def counted(players: Sequence[tuple[Policy, Task]], protocol: Protocol) -> list[Evaluation]:
        seen.extend(task.name for _, task in players)
        return play(players, protocol)

    monkeypatch.setattr(remembered, "evaluate_together", counted)
    return seen


def run_tiny(name: str, path: Path, **options: Any) -> None:
    found = tiny_suite()
    run(found, tiny_learner(name, found), path, replace(QUIET, **options))


@pytest.mark.parametrize("name", ["naive", "single", "affinity-l"])
def test_a_run_with_recalled_results_equals_one_that_was_played(name, tmp_path, played):
    run_tiny(name, tmp_path / "plain")
    count = len(played)
    run_tiny(name, tmp_path / "first", memo=tmp_path / "memo")
    assert len(played) == 2 * count
    run_tiny(name, tmp_path / "second", memo=tmp_path / "memo")
    assert len(played) == 2 * count
    assert contents(tmp_path / "plain") == contents(tmp_path / "first") == contents(tmp_path / "second")


def test_the_first_task_of_all_sparse_learners_is_played_once(tmp_path, played):
    for name in SPARSE:
        run_tiny(name, tmp_path / name, memo=tmp_path / "memo")
    assert played.count(tiny_suite().names[0]) == 1


def test_asked_to_play_again_it_does(tmp_path, played):
    run_tiny("single", tmp_path / "run", memo=tmp_path / "memo")
    count = len(played)
    found = tiny_suite()
    again = replace(QUIET, memo=tmp_path / "memo", re_evaluate=True)
    run(found, tiny_learner("single", found), tmp_path / "other", again)
    assert len(played) >= 2 * count


def test_the_command_evaluates_with_a_memo(tmp_path, played, capsys):
    words = ["run", "--suite", "toy", "--budget", "smoke", "--no-evaluate", "--no-tensorboard"]
    for name in ("a", "b"):
        main([*words, "--memo", str(tmp_path / "memo"), "--out", str(tmp_path / name)])
        main(["evaluate", str(tmp_path / name), "--memo", str(tmp_path / "memo")])
    assert len(played) == len(set(played)) == 4
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert RunFolder(tmp_path / "b").read_matrix() is not None


def policy_and_task() -> tuple[Policy, Task]:
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    return learner.policy(found.names[0]), found.tasks[0]


def test_whatever_decides_an_evaluation_is_in_its_key():
    policy, task = policy_and_task()
    protocol = Protocol(episodes=3)
    keys = [key(policy, task, protocol), key(policy, task, replace(protocol, first_seed=7))]
    keys.append(key(policy, tiny_suite(tasks=2).tasks[1], protocol))
    policy.target += 1
    keys.append(key(policy, task, protocol))
    policy.return_scale *= 2
    keys.append(key(policy, task, protocol))
    next(iter(policy.net.parameters())).data.view(-1)[0] += 1
    keys.append(key(policy, task, protocol))
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_environments_that_cannot_be_known_are_played(tmp_path, played):
    policy, task = policy_and_task()
    own = replace(task, environments=lambda protocol: task.environments(protocol))
    memo, protocol = DiskMemo(tmp_path), Protocol(episodes=3)
    first, second = (evaluate_once([(policy, own)], protocol, memo) for _ in range(2))
    assert first == second == [evaluate(policy, task, protocol)]
    assert len(played) == 2
    assert key(policy, own, protocol) is None


def test_results_come_back_in_the_order_of_the_players(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("single", found)
    for task in found.tasks:
        learner.learn(task)
    players = [(learner.policy(task.name), task) for task in found.tasks]
    memo, protocol = DiskMemo(tmp_path), Protocol(episodes=3)
    alone = [evaluate(*player, protocol) for player in players]
    assert evaluate_once(players[1:2], protocol, memo) == alone[1:2]
    assert evaluate_once(players, protocol, memo) == alone
    assert evaluate_once(players[::-1], protocol, memo) == alone[::-1]


def test_a_kept_result_is_the_result():
    result = Evaluation([0.1, -2.5], [3, 27_000], [True, False], 1)
    assert unpacked(packed(result)) == result
    assert unpacked(None) is None
