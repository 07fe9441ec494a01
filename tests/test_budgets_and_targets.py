"""A budget means one thing wherever it is said, and a policy is asked for the return that the plan says."""

import json
from dataclasses import replace

import pytest

import holdfast
from holdfast.agent.configure import apply
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.evaluation.certificates import fingerprint
from holdfast.registry import SUITES
from holdfast.runs.configure import configure, read_plan
from holdfast.runs.folder import RunFolder
from holdfast.runs.run import run
from holdfast.tasks.suite import Suite
from tests.tiny import QUIET, contents, tiny_learner, tiny_plan, tiny_suite

ORDER = ["NorthEast", "SouthWest"]


@pytest.mark.parametrize(("name", "budget"), [(name, budget) for name in SUITES for budget in SUITES[name].budgets])
def test_a_budget_is_the_same_plan_from_python_and_from_the_command_line(name, budget):
    plan = configure(name, "naive", budget=budget)
    learner = holdfast.learner("naive", holdfast.suite(name, plan.order), budget=budget, device="cpu")
    assert learner.plan == plan


def test_a_suite_that_was_built_keeps_its_tasks_if_the_budget_has_fewer():
    few, all_tasks = configure("cw10", "naive", budget="smoke").order, holdfast.suite("cw10")
    assert 0 < len(few) < len(all_tasks.names)
    learner = holdfast.learner("naive", all_tasks, budget="smoke", device="cpu")
    assert list(learner.plan.order) == all_tasks.names


def test_a_run_is_the_same_to_the_bit_from_python_and_from_the_command_line(tmp_path):
    words = ["--suite", "toy", "--learner", "naive", "--budget", "smoke", "--fit.steps", "5", "--order", *ORDER]
    main(["run", *words, "--no-tensorboard", "--device", "cpu", "--out", str(tmp_path / "said")])
    suite = holdfast.suite("toy", ORDER)
    learner = holdfast.learner("naive", suite, budget="smoke", settings={"fit.steps": 5}, device="cpu")
    holdfast.run(suite, learner, tmp_path / "written", QUIET)
    assert contents(tmp_path / "said") == contents(tmp_path / "written")
    records = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("said", "written")]
    assert records[0]["config"] == records[1]["config"]
    assert records[0]["datasets"] == records[1]["datasets"]
    assert records[0]["config"]["transitions"] == 1_000


def test_an_amount_of_data_that_was_asked_for_holds_whatever_the_budget(tmp_path):
    suite = holdfast.suite("toy", ORDER, transitions=200)
    learner = holdfast.learner("naive", suite, budget="smoke", device="cpu")
    assert learner.plan.transitions == 200
    with pytest.raises(Mistake, match="transitions = 200, not 300"):
        holdfast.learner("naive", suite, settings={"transitions": 300})
    other = holdfast.learner("naive", holdfast.suite("toy", ORDER), settings={"transitions": 300}, device="cpu")
    assert other.plan.transitions == 300
    with pytest.raises(Mistake, match="transitions = 200, not 300"):
        run(suite, other, tmp_path / "run", QUIET)
    assert not (tmp_path / "run").exists()


def test_tasks_of_a_users_own_keep_their_data_whatever_the_budget():
    suite = holdfast.suite("toy", ORDER)
    mine = replace(suite, tasks=(suite.tasks[0], replace(suite.tasks[1], load=lambda: suite.tasks[0].dataset)))
    learner = holdfast.learner("naive", mine, budget="smoke", device="cpu")
    assert learner.plan.transitions == 4_000
    with pytest.raises(Mistake, match="transitions = None, not 300"):
        holdfast.learner("naive", Suite("mine", mine.tasks), settings={"transitions": 300})


def test_every_suite_has_budgets_and_smoke_is_seconds():
    mine = Suite("mine", tiny_suite().tasks)
    plans = {budget: configure("mine", "naive", budget=budget, suite=mine) for budget in ("smoke", "quick", "full")}
    assert plans["smoke"].config.fit.steps < plans["quick"].config.fit.steps < plans["full"].config.fit.steps
    assert plans["smoke"].config.fit.steps <= 60
    assert plans["smoke"].protocol.episodes < plans["full"].protocol.episodes
    assert plans["quick"] == replace(
        plans["smoke"], budget="quick", config=plans["quick"].config, protocol=holdfast.Protocol()
    )
    own = replace(mine, spec=replace(mine.spec, budgets={"smoke": {"fit.steps": 7}}))
    assert configure("mine", "naive", budget="smoke", suite=own).config.fit.steps == 7


def test_a_target_is_asked_for_and_results_are_measured_against_the_suites(tmp_path):
    words = ["--suite", "toy", "--learner", "single", "--budget", "smoke", "--fit.steps", "5", "--order", *ORDER]
    words += ["--no-tensorboard", "--device", "cpu"]
    main(["run", *words, "--out", str(tmp_path / "usual")])
    main(["run", *words, "--target", "SouthWest=12", "--out", str(tmp_path / "asked")])
    _, learner = holdfast.reopen(tmp_path / "asked", "cpu")
    assert [learner.policy(name).target for name in ORDER] == [20.0, 12.0]
    usual, asked = (RunFolder(tmp_path / name) for name in ("usual", "asked"))
    assert usual.read_matrix().targets == asked.read_matrix().targets == [20.0, 20.0]
    assert asked.record["config"]["target"] == ["SouthWest=12.0"]
    assert usual.read_certificates() == asked.read_certificates()  # learning does not depend on it


@pytest.mark.parametrize("name", ["naive", "single", "tsn-core"])
def test_every_kind_of_learner_asks_for_the_target_of_its_plan(name):
    found = tiny_suite(tasks=2)
    usual = tiny_learner(name, found)
    asked = tiny_learner(name, found, target={found.names[1]: -3})
    for learner in (usual, asked):
        learner.learn(found.tasks[0])
        learner.learn(found.tasks[1])
    assert [asked.policy(task).target for task in found.names] == [20.0, -3.0]
    assert [usual.policy(task).target for task in found.names] == [20.0, 20.0]
    assert fingerprint(usual.policy(found.names[1])) == fingerprint(asked.policy(found.names[1]))


def test_targets_said_in_any_order_are_one_plan_and_a_folder_without_them_opens():
    plan = tiny_plan(tiny_suite(), "naive")
    one = apply(plan, {"target": {"SouthWest": 2, "NorthEast": 1.5}})
    assert one == apply(plan, {"target": ["NorthEast=1.5", "SouthWest=2"]})
    assert one.targets == {"NorthEast": 1.5, "SouthWest": 2.0}
    from dataclasses import asdict

    record = json.loads(json.dumps(asdict(one)))
    assert read_plan(record) == one
    del record["target"]
    assert read_plan(record) == plan


@pytest.mark.parametrize("target", [{"Nowhere": 3}, {"NorthEast": float("nan")}, {"NorthEast": "high"}, 3, "NorthEast"])
def test_a_target_that_makes_no_sense_is_refused(target):
    with pytest.raises(Mistake, match=r"target must be|no task 'Nowhere'"):
        holdfast.learner("naive", holdfast.suite("toy"), settings={"target": target})
