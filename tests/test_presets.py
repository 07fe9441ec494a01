"""The preset `holdfast` is the default: how affinity learners reuse what they learned, and a suite's own settings."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holdfast.agent.configure import REUSE, apply
from holdfast.agent.new_agent import plan_of
from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.registry import LEARNERS, SUITES
from holdfast.runs.configure import configure
from holdfast.runs.folder import RunFolder
from holdfast.tasks.suite import suite_spec
from tests.tiny import tiny_learner, tiny_suite

ROOT = Path(__file__).parent.parent
AFFINITY = ("affinity-a", "affinity-h", "affinity-l")


@pytest.mark.parametrize("suite", SUITES)
def test_it_is_the_preset_paper_but_for_the_suites_settings_and_the_reuse_of_affinity_learners(suite):
    own = suite_spec(suite).presets.get("holdfast", {})
    for learner in LEARNERS:
        bare = replace(suite_spec(suite), budgets={"full": {}}).suite()
        paper, ours = (configure(suite, learner, preset, "full", suite=bare) for preset in ("paper", "holdfast"))
        reuse = REUSE if learner in AFFINITY else {}
        assert replace(apply(paper, {**own, **reuse}), preset="holdfast") == ours


@pytest.mark.parametrize("suite", SUITES)
def test_it_is_the_default_but_with_the_publications_budget(suite):
    assert configure(suite, "affinity-l") == configure(suite, "affinity-l", "holdfast")
    if "published" in suite_spec(suite).budgets:
        usual, paper = (configure(suite, "affinity-l", preset, "published") for preset in (None, "paper"))
        assert usual == paper


@pytest.mark.parametrize("learner", AFFINITY)
def test_an_agent_reuses_as_the_preset_does(learner):
    plan = plan_of(learner, "dt", 0, {})
    assert apply(plan, REUSE) == plan


def test_the_page_says_what_the_preset_is():
    page = (ROOT / "docs/methods/subnetworks.md").read_text(encoding="utf-8")
    for name, value in REUSE.items():
        told = f"{value:g}" if isinstance(value, float) else value
        assert f"--{name.replace('_', '-')} {told}" in page
    assert f"{REUSE['subnets.private']:.0%}".replace("%", " %") in page


def test_settings_that_have_no_effect_with_it_are_refused():
    plan = configure("toy", "affinity-l")
    for settings in ({"subnets.place": "deep"}, {"subnets.sources": 2}):
        with pytest.raises(Mistake, match=next(iter(settings))):
            apply(plan, settings)
        assert apply(plan, {**settings, "subnets.new": 0.2}).config.subnets.new == 0.2  # all at once, in any order


def test_with_it_a_warm_start_changes_nothing():
    suite = tiny_suite(tasks=3)
    learners = [tiny_learner("affinity-l", suite, subnets__warm_start=factor) for factor in (0.1, 2.0)]
    for learner in learners:
        for task in suite.tasks:
            learner.learn(task)
    one, other = (learner.snapshot().weights for learner in learners)
    assert all(torch.equal(one[name][key], other[name][key]) for name in one for key in one[name])


@pytest.mark.parametrize("learner", AFFINITY)
def test_all_tasks_of_a_suite_share_one_copy_and_later_ones_own_only_their_change(learner, tmp_path):
    words = ("--suite", "toy", "--learner", learner, "--budget", "smoke", "--no-tensorboard")
    main(["run", *words, "--out", str(tmp_path / "run")])
    (account,) = RunFolder(tmp_path / "run").read_matrix().accounts
    first, *later = account["tasks"].values()
    assert [task["new"] for task in later] == [0, 0, 0]
    assert all(task["reused"] == first["new"] for task in later)
    assert account["more"] == "any number"


@pytest.mark.parametrize("learner", AFFINITY)
def test_a_task_that_is_near_nothing_starts_from_the_one_before_it(learner):
    suite = tiny_suite(tasks=4)
    found = tiny_learner(learner, suite)
    for task in suite.tasks:
        found.learn(task)
    far = [route for route in found.routes()[1:] if min(one["distance"] for one in route["candidates"]) > 1]
    assert far
    before = dict(zip(suite.names[1:], suite.names, strict=False))
    assert all(route["source"] == before[route["task"]] for route in far)
