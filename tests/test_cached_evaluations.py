"""An evaluation that was done before is recalled, and no other."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.evaluation.cached import evaluate_once, evaluation_from, evaluation_key, evaluation_tensors
from holdfast.evaluation.rollouts import Evaluation, evaluate
from holdfast.nets.policy import Policy
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.training import cache as caches
from holdfast.training import cache_key
from holdfast.training.cache import DiskCache
from holdfast.training.cache_key import our_code
from tests.tiny import QUIET, SPARSE, contents, tiny_learner, tiny_suite

cached = import_module("holdfast.evaluation.cached")
PROTOCOL = Protocol(episodes=3)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were really played."""
    play, seen = cached.evaluate_together, []

    def counted(players: Sequence[tuple[Policy, Task]], protocol: Protocol) -> Iterator[tuple[str, Evaluation]]:
        seen.extend(task.name for _, task in players)
        return play(players, protocol)

    monkeypatch.setattr(cached, "evaluate_together", counted)
    return seen


def run_tiny(name: str, path: Path, **options: Any) -> None:
    found = tiny_suite()
    run(found, tiny_learner(name, found, preset="paper"), path, replace(QUIET, **options))


@pytest.mark.parametrize("name", ["naive", "single", "affinity-l"])
def test_a_run_with_recalled_results_equals_one_that_was_played(name, tmp_path, played):
    run_tiny(name, tmp_path / "plain")
    count = len(played)
    run_tiny(name, tmp_path / "first", cache=tmp_path / "cache")
    assert len(played) == 2 * count
    run_tiny(name, tmp_path / "second", cache=tmp_path / "cache")
    assert len(played) == 2 * count
    assert contents(tmp_path / "plain") == contents(tmp_path / "first") == contents(tmp_path / "second")


def test_the_first_task_of_all_sparse_learners_is_played_once(tmp_path, played):
    for name in SPARSE:
        run_tiny(name, tmp_path / name, cache=tmp_path / "cache")
    assert played.count(tiny_suite().names[0]) == 1


def test_asked_to_play_again_it_does(tmp_path, played):
    run_tiny("single", tmp_path / "run", cache=tmp_path / "cache")
    count = len(played)
    found = tiny_suite()
    again = replace(QUIET, cache=tmp_path / "cache", re_evaluate=True)
    run(found, tiny_learner("single", found), tmp_path / "other", again)
    assert len(played) >= 2 * count


def test_the_command_evaluates_with_a_cache(tmp_path, played, capsys):
    words = ["run", "--suite", "toy", "--budget", "smoke", "--evaluate", "none", "--no-tensorboard"]
    for name in ("a", "b"):
        main([*words, "--memo", str(tmp_path / "cache"), "--out", str(tmp_path / name)])
        main(["evaluate", str(tmp_path / name), "--memo", str(tmp_path / "cache")])
    assert len(played) == len(set(played)) == 4
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert RunFolder(tmp_path / "b").read_matrix() is not None


def policy_and_task() -> tuple[Policy, Task]:
    found = tiny_suite(tasks=1)
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    return learner.policy(found.names[0]), found.tasks[0]


def other_normaliser(policy: Policy) -> None:
    policy.normaliser = replace(policy.normaliser, shift=policy.normaliser.shift + 1)


def other_interface(policy: Policy) -> None:
    policy.net.interface = replace(policy.interface, horizon=policy.interface.horizon + 1)


def other_target(policy: Policy) -> None:
    policy.target += 1


def other_scale(policy: Policy) -> None:
    policy.return_scale *= 2


def other_weights(policy: Policy) -> None:
    next(iter(policy.net.parameters())).data.view(-1)[0] += 1


OTHER = [other_normaliser, other_interface, other_target, other_scale, other_weights]


@pytest.mark.parametrize("change", OTHER)
def test_another_policy_has_another_key(change):
    policy, task = policy_and_task()
    before = evaluation_key(policy, task, PROTOCOL)
    assert before == evaluation_key(policy, task, PROTOCOL)
    change(policy)
    assert evaluation_key(policy, task, PROTOCOL) not in (before, None)


@pytest.mark.parametrize("name", ["name", "episodes", "lanes", "first_seed"])
def test_another_protocol_has_another_key(name):
    policy, task = policy_and_task()
    old = getattr(PROTOCOL, name)
    other = replace(PROTOCOL, **{name: f"{old}-other" if isinstance(old, str) else old + 1})
    assert evaluation_key(policy, task, PROTOCOL) != evaluation_key(policy, task, other)


def test_another_task_other_libraries_and_other_code_have_other_keys(monkeypatch):
    policy, task = policy_and_task()
    keys = [evaluation_key(policy, task, PROTOCOL), evaluation_key(policy, tiny_suite(tasks=2).tasks[1], PROTOCOL)]
    monkeypatch.setattr(cached, "versions", lambda: {"ale-py": "0"})
    keys.append(evaluation_key(policy, task, PROTOCOL))
    monkeypatch.setattr(cache_key, "our_code", lambda *folders: str(folders))
    keys.append(evaluation_key(policy, task, PROTOCOL))
    assert len(set(keys)) == 4
    assert our_code(*cached.CODE) != our_code(*cache_key.FIT_CODE)


class Contrary(Policy):
    """Does the opposite."""


def test_a_policy_of_a_class_that_we_do_not_know_is_played():
    policy, task = policy_and_task()
    policy.__class__ = Contrary
    assert evaluation_key(policy, task, PROTOCOL) is None


def test_environments_that_cannot_be_known_are_played(tmp_path, played):
    policy, task = policy_and_task()
    cache, own = DiskCache(tmp_path), replace(task, environments=lambda protocol: task.environments(protocol))
    first, second = (list(evaluate_once([(policy, own)], PROTOCOL, cache)) for _ in range(2))
    assert first == second == [(own.name, evaluate(policy, task, PROTOCOL))]
    assert len(played) == 2
    assert evaluation_key(policy, own, PROTOCOL) is None


def test_a_simulator_without_a_name_is_never_cached_and_another_name_is_another_key():
    policy, task = policy_and_task()
    keys = [evaluation_key(policy, replace(task, simulator=name), PROTOCOL) for name in (None, "toy", "chess")]
    assert keys[0] is None
    assert len({*keys, evaluation_key(policy, task, PROTOCOL)}) == 4


def test_results_come_back_with_the_names_of_the_tasks(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("single", found)
    for task in found.tasks:
        learner.learn(task)
    players = [(learner.policy(task.name), task) for task in found.tasks]
    cache, alone = DiskCache(tmp_path), {task.name: evaluate(policy, task, PROTOCOL) for policy, task in players}
    assert dict(evaluate_once(players[1:2], PROTOCOL, cache)) == {found.names[1]: alone[found.names[1]]}
    assert dict(evaluate_once(players, PROTOCOL, cache)) == alone
    assert dict(evaluate_once(players[::-1], PROTOCOL, cache)) == alone


def test_what_was_played_before_an_interruption_is_known(tmp_path, played):
    found = tiny_suite()
    learner = tiny_learner("single", found)
    for task in found.tasks:
        learner.learn(task)
    players, cache = [(learner.policy(task.name), task) for task in found.tasks], DiskCache(tmp_path)
    interrupted = evaluate_once(players, PROTOCOL, cache)
    name, result = next(interrupted)
    interrupted.close()
    played.clear()
    first, *others = evaluate_once(players, PROTOCOL, cache)
    assert first == (name, result)
    assert first[1].recalled
    assert sorted(played) == sorted(other for other, _ in others)


def test_one_game_under_two_names_does_not_wait_for_itself(tmp_path):
    policy, task = policy_and_task()
    players = [(policy, task), (policy, replace(task, name="Again"))]
    results = dict(evaluate_once(players, PROTOCOL, DiskCache(tmp_path)))
    assert results == dict.fromkeys((task.name, "Again"), evaluate(policy, task, PROTOCOL))


def test_two_that_want_the_same_in_another_order_do_not_wait_for_each_other(tmp_path):
    locks: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "locked", lambda path: locks[-1].append(path.stem) or nullcontext())
        for names in ("abc", "cab"):
            locks.append([])
            with DiskCache(tmp_path).entries([partial(str, name) for name in names]) as entries:
                assert [entry.key for entry in entries] == list(names)
    assert locks == [["a", "b", "c"]] * 2


def test_the_log_says_what_was_played_and_what_recalled(tmp_path):
    for name in ("first", "second"):
        run_tiny("single", tmp_path / name, cache=tmp_path / "cache")
    told = [
        [
            (event["recalled"], event["carried"])
            for event in RunFolder(tmp_path / name).events()
            if event["kind"] == "evaluate"
        ]
        for name in ("first", "second")
    ]
    assert all(not recalled for recalled, _ in told[0])
    assert all(recalled == (carried is None) for recalled, carried in told[1])


def test_a_kept_result_is_the_result():
    result = Evaluation([0.1, -2.5], [3, 27_000], [True, False], 1)
    assert evaluation_from(evaluation_tensors(result)) == result
    assert evaluation_from(None) is None
