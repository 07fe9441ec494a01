"""The preset `holdfast` changes how affinity learners share copies, and nothing else."""

from dataclasses import replace

import pytest

from holdfast.cli.main import main
from holdfast.registry import LEARNERS, SUITES
from holdfast.runs.configure import configure
from holdfast.runs.folder import RunFolder

AFFINITY = ("affinity-a", "affinity-h", "affinity-l")


@pytest.mark.parametrize("suite", SUITES)
def test_it_is_the_preset_paper_but_for_room_and_threshold_of_affinity_learners(suite):
    for learner in LEARNERS:
        paper, ours = (configure(suite, learner, preset) for preset in ("paper", "holdfast"))
        if learner in AFFINITY:
            assert (ours.config.subnets.new, ours.config.routing.threshold) == ("planned", "auto")
            subnets = replace(ours.config.subnets, new=None)
            routing = replace(ours.config.routing, threshold=paper.config.routing.threshold)
            ours = replace(ours, config=replace(ours.config, subnets=subnets, routing=routing))
        assert replace(ours, preset="paper") == paper


@pytest.mark.parametrize("learner", AFFINITY)
def test_all_tasks_of_a_suite_share_one_copy_and_each_has_new_entries(learner, tmp_path):
    words = ("--suite", "toy", "--learner", learner, "--preset", "holdfast", "--budget", "smoke", "--no-tensorboard")
    main(["run", *words, "--out", str(tmp_path / "run")])
    (account,) = RunFolder(tmp_path / "run").read_matrix().accounts
    first, *later = (task["new"] for task in account["tasks"].values())
    assert len(later) == 3
    assert all(0.4 * first <= new <= first / 1.9 for new in later)  # half, rounded up in every tensor
