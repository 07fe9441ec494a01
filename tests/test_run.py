"""A run leaves the record that tables and checks read."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.evaluation.cached import evaluate_once
from holdfast.evaluation.rollouts import count_distinct, evaluate, evaluate_together, rollout, side_by_side
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import reopen, run
from holdfast.tasks.environments import Environments, Protocol, Step
from tests.tiny import ALL, IN_TURN, QUIET, RETAINING, SPARSE, tiny_learner, tiny_suite

KEYS = (
    "suite learner preset seed budget protocol tasks targets "
    "returns mean distinct_episodes metrics copies task_copy bytes"
)


@pytest.mark.parametrize("name", ALL)
def test_every_learner_leaves_a_complete_record(name, tmp_path):
    found = tiny_suite()
    run(found, tiny_learner(name, found), tmp_path, QUIET)
    matrix = json.loads((tmp_path / "matrix.json").read_text())
    assert set(KEYS.split()) <= set(matrix)
    assert (matrix["suite"], matrix["learner"], matrix["tasks"]) == ("toy", name, found.names)
    stages = range(3) if name in IN_TURN else [2]  # after which there are results
    for i in range(3):
        for j in range(3):
            cell, played = matrix["returns"][i][j], i in stages and j <= i
            assert len(cell) == 3 if played else cell is None
            assert matrix["mean"][i][j] == (pytest.approx(sum(cell) / 3) if played else None)
    assert matrix["distinct_episodes"][2] == [3, 3, 3]
    assert set(matrix["metrics"]) >= {"NormAvg", "AvgGap", "AvgF", "F", "BWT", "FWT"}
    assert matrix["bytes"]["total"] == matrix["bytes"]["weights"] + matrix["bytes"]["memory"]
    assert set(matrix["task_copy"]) == set(found.names)
    if name in RETAINING:
        assert matrix["metrics"]["AvgF"] == 0.0
    certificates = json.loads((tmp_path / "certificates.json").read_text())
    assert [(found["stage"], found["task"]) for found in certificates] == [
        (stage, task) for stage in stages for task in found.names[: stage + 1]
    ]
    routes = json.loads((tmp_path / "routes.json").read_text())
    assert [route["task"] for route in routes] == (found.names if name in SPARSE else [])
    config = json.loads((tmp_path / "config.json").read_text())
    assert set(config) >= {"config", "versions", "hardware", "datasets", "command"}
    assert config["datasets"] == {task.name: task.dataset.fingerprint for task in found.tasks}
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert set(kinds) >= {"learn", "train", "certify", "evaluate"}
    assert {path.suffix for path in (tmp_path / "weights").iterdir()} == {".safetensors", ".json"}


@pytest.mark.parametrize("name", ALL)
def test_every_learner_runs_from_the_command_line(name, tmp_path, capsys):
    main(
        [
            "run",
            "--suite",
            "toy",
            "--learner",
            name,
            "--order",
            "NorthEast",
            "SouthWest",
            "--budget",
            "smoke",
            "--out",
            str(tmp_path / "run"),
            "--no-tensorboard",
        ]
    )
    printed = capsys.readouterr().out
    for word in ("NorthEast", "certificate:", "folder:"):
        assert word in printed
    assert ("AvgF" in printed) == (name in IN_TURN)  # who learns all tasks at once can forget none


def test_a_task_costs_its_mask_its_new_weights_and_what_is_its_own(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("tsn-core", found)
    run(found, learner, tmp_path, QUIET)
    total = learner.layout(found.interface).total
    for name, account in learner.accounts()[0]["tasks"].items():
        subnetwork, tensors = learner.subnetworks[name], learner.snapshot().weights[f"task-{name}"]
        mask = tensors["mask" if "mask" in tensors else "mask-deflated"].nbytes
        own = sum(tensor.nbytes for tensor in subnetwork.private.values())
        normaliser = subnetwork.normaliser.shift.nbytes + subnetwork.normaliser.scale.nbytes
        assert mask <= math.ceil(total / 8)
        assert account["bytes"] == mask + 4 * account["new"] + own + normaliser


def test_forward_transfer_is_measured_against_a_run_of_single(tmp_path):
    found = tiny_suite()
    run(found, tiny_learner("single", found), tmp_path / "single", QUIET)
    matrix = run(found, tiny_learner("naive", found), tmp_path / "naive", replace(QUIET, reference=tmp_path / "single"))
    alone = json.loads((tmp_path / "single" / "matrix.json").read_text())["mean"]
    gains = [matrix.mean[j][j] - alone[j][j] for j in (1, 2)]
    assert matrix.metrics()["FWT"] == pytest.approx(sum(gains) / 2)
    run(found, tiny_learner("ewc", found), tmp_path / "ewc", QUIET)
    later = run(found, tiny_learner("ewc", found), tmp_path / "ewc", replace(QUIET, reference=tmp_path / "single"))
    assert json.loads((tmp_path / "ewc" / "matrix.json").read_text())["metrics"]["FWT"] == later.metrics()["FWT"]
    with pytest.raises(holdfast.Mistake, match="not an evaluated run of the learner single"):
        run(found, tiny_learner("naive", found), tmp_path / "other", replace(QUIET, reference=tmp_path / "naive"))
    whole = {name: json.loads((tmp_path / "single" / name).read_text()) for name in ("config.json", "matrix.json")}
    sticky = {"protocol": {**whole["matrix.json"]["protocol"], "name": "sticky"}}
    for other, of_plan in (({"suite": "atari5"}, True), (sticky, True), ({"targets": [1, 2, 3]}, False)):
        config = {**whole["config.json"], "config": whole["config.json"]["config"] | (other if of_plan else {})}
        (tmp_path / "single" / "config.json").write_text(json.dumps(config))
        (tmp_path / "single" / "matrix.json").write_text(json.dumps(whole["matrix.json"] | other))
        with pytest.raises(
            holdfast.Mistake, match="cannot be the reference of this run: its suite, protocol or targets"
        ):
            run(found, tiny_learner("naive", found), tmp_path / "other", replace(QUIET, reference=tmp_path / "single"))


def test_a_reopened_run_acts_as_it_did(tmp_path):
    found = tiny_suite()
    learner = tiny_learner("affinity-l", found)
    run(found, learner, tmp_path, QUIET)
    again, restored = reopen(tmp_path)
    assert again.names == found.names
    protocol = Protocol(episodes=3)
    for task in found.tasks:
        assert evaluate(restored.policy(task.name), task, protocol) == evaluate(
            learner.policy(task.name), task, protocol
        )


@pytest.mark.parametrize(("lanes", "episodes"), [(4, 10), (20, 7), (1, 3)])
def test_two_groups_in_turn_play_the_episodes_that_one_plays(lanes, episodes):
    found = tiny_suite()
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    policy, protocol = learner.policy(found.names[0]), Protocol(episodes=episodes, lanes=lanes)
    together = evaluate(policy, found.tasks[0], protocol)
    assert len(together.returns) == episodes
    for groups in (2, 3):
        assert list(evaluate_together([(policy, found.tasks[0])], protocol, groups)) == [(found.names[0], together)]


def test_tasks_played_together_are_played_as_each_alone():
    found = tiny_suite()
    learner = tiny_learner("single", found)
    for task in found.tasks:
        learner.learn(task)
    players, protocol = [(learner.policy(task.name), task) for task in found.tasks], Protocol(episodes=5, lanes=2)
    alone = {task.name: evaluate(policy, task, protocol) for policy, task in players}
    assert dict(evaluate_together(players, protocol)) == alone


def test_a_run_has_the_same_results_however_many_tasks_are_played_at_once(tmp_path, monkeypatch):
    found = tiny_suite()
    whole = run(found, tiny_learner("naive", found), tmp_path / "all", QUIET)
    monkeypatch.setattr("holdfast.runs.results.TOGETHER", 2)
    assert run(found, tiny_learner("naive", found), tmp_path / "few", QUIET).returns == whole.returns


def test_an_interrupted_evaluation_keeps_each_task_that_it_had_played(tmp_path, monkeypatch):
    def one_then_interrupted(*asked):
        yield next(evaluate_once(*asked))
        raise KeyboardInterrupt

    found = tiny_suite()
    whole = run(found, tiny_learner("naive", found), tmp_path / "whole", QUIET)
    monkeypatch.setattr("holdfast.runs.results.evaluate_once", one_then_interrupted)
    for played in range(1, 7):  # 1 + 2 + 3 tasks
        with pytest.raises(KeyboardInterrupt):
            run(found, tiny_learner("naive", found), tmp_path / "part", QUIET)
        cells = [cell for row in RunFolder(tmp_path / "part").read_matrix().returns for cell in row]
        assert sum(cell is not None for cell in cells) == played
    assert run(found, tiny_learner("naive", found), tmp_path / "part", QUIET).returns == whole.returns


class Countdown(Environments):
    """Episode i ends after i + 1 steps that earn 1 each, or is cut; what it gives from then on means nothing."""

    def __init__(self, cut=False):
        self.cut = cut

    def reset(self, seeds):
        self.steps, self.count = 0, len(seeds)
        return np.zeros((self.count, 2))

    def begin(self, actions):
        self.steps += 1

    def finish(self):
        over = np.arange(self.count) < self.steps - 1
        last = np.arange(self.count) == self.steps - 1
        return Step(np.zeros((self.count, 2)), np.where(over, 99.0, 1.0), last, over, last & self.cut)


@pytest.mark.parametrize(("cut", "distinct"), [(False, 3), (True, 1)])
def test_what_simulators_give_after_an_episode_has_ended_means_nothing(cut, distinct):
    told = []
    policy = SimpleNamespace(
        reset=lambda count: None, act=lambda observations, rewards: (told.append(rewards.copy()), np.zeros(3))[1]
    )
    task = SimpleNamespace(name="Countdown", interface=SimpleNamespace(horizon=3))
    ((_, (returns, lengths, successes, stories)),) = side_by_side({0: rollout(policy, task, Countdown(cut), range(3))})
    assert (returns, lengths, successes) == ([1.0, 2.0, 3.0], [1, 2, 3], [False] * 3)
    assert count_distinct(stories) == distinct  # the shorter ones are beginnings of the longest
    assert np.array_equal(told, [[0, 0, 0], [1, 1, 1], [0, 1, 1]])


class Endless(Countdown):
    """Never ends, and gives what it is told to."""

    def __init__(self, observation=0.0, reward=0.0):
        self.observation, self.reward = observation, reward

    def finish(self):
        none = np.zeros(self.count, bool)
        return Step(np.full((self.count, 2), self.observation), np.full(self.count, self.reward), none, none, none)


@pytest.mark.parametrize(
    ("simulator", "said"),
    [
        (Endless(), "an episode of Endless continues after its horizon of 4 steps"),
        (Endless(observation=math.nan), "the simulator of Endless gave .* not finite, at step 1"),
        (Endless(reward=math.inf), "the simulator of Endless gave .* not finite, at step 1"),
    ],
)
def test_what_is_no_episode_is_said_so(simulator, said):
    policy = SimpleNamespace(reset=lambda count: None, act=lambda observations, rewards: np.zeros(3))
    task = SimpleNamespace(name="Endless", interface=SimpleNamespace(horizon=4))
    with pytest.raises(Mistake, match=said):
        list(side_by_side({0: rollout(policy, task, simulator, range(3))}))


@pytest.mark.parametrize(
    ("stories", "count"), [("ab", 2), ("aa", 1), (["a", "ab", "abc", "ac"], 2), (["ab", "a", "b", "ab", "ba"], 2)]
)
def test_an_episode_that_is_the_beginning_of_another_is_not_counted(stories, count):
    assert count_distinct([story.encode() for story in stories]) == count


def test_identical_episodes_are_counted_once():
    found = tiny_suite()
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])

    class SameStart(Protocol):
        @property
        def seeds(self):
            return [7] * self.episodes

    result = evaluate(learner.policy(found.names[0]), found.tasks[0], SameStart(episodes=5))
    assert (result.distinct, len(result.returns)) == (1, 5)


def test_episodes_do_not_depend_on_how_many_are_stepped_together():
    found = tiny_suite("toy-continuous")
    learner = tiny_learner("naive", found)
    learner.learn(found.tasks[0])
    policy = learner.policy(found.names[0])
    together, apart = (evaluate(policy, found.tasks[0], Protocol(episodes=7, lanes=lanes)) for lanes in (7, 3))
    assert together.lengths == apart.lengths
    assert together.returns == pytest.approx(apart.returns, abs=1e-4)


def test_an_order_is_part_of_a_plan(tmp_path):
    main(
        [
            "run",
            "--learner",
            "naive",
            "--budget",
            "smoke",
            "--order",
            "SouthEast",
            "NorthEast",
            "--out",
            str(tmp_path / "run"),
            "--fit.steps",
            "5",
            "--no-tensorboard",
        ]
    )
    assert json.loads((tmp_path / "run" / "matrix.json").read_text())["tasks"] == ["SouthEast", "NorthEast"]


def test_the_command_line_lists_what_there_is(capsys):
    main(["suites"])
    main(["learners"])
    main([])
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*holdfast.SUITES, *holdfast.LEARNERS))


def test_tensorboard_files_hold_the_loss(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = tiny_suite(tasks=1)
    run(found, tiny_learner("naive", found), tmp_path, replace(QUIET, tensorboard=True))
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [point.step for point in board.Scalars(f"loss/{found.names[0]}")] == [4, 8, 12]
