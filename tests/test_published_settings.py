"""A note beside a published row names every way in which our runs differ from the published ones."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.settings import flattened
from holdfast.registry import LEARNERS
from holdfast.runs.configure import configure
from holdfast.study.groups import group_runs, read_runs
from holdfast.study.published import all_rows, differences
from holdfast.study.published_settings import BESIDE_SETTINGS, PUBLISHED, UNCOMPARED, published_settings
from holdfast.study.table_formats import markdown
from holdfast.study.table_lines import differing
from holdfast.study.tables import make_table, read_records
from tests.test_results import SUITES, TASKS, a_run

RESULTS = Path(__file__).parent.parent / "results"
ASIDE = {"suite", "learner", "seed", "threads"}  # what they are called, and what no number is about


def settings_of(suite: str, learner: str, budget: str = "quick") -> dict[str, Any]:
    """The settings of a learner on a suite, as its record has them."""
    record = json.loads(json.dumps(asdict(configure(suite, learner, budget=budget))))
    return {name.removeprefix("config."): value for name, value in flattened(record) if name not in ASIDE}


IN_TABLES = {suite: {row["method"].split()[0] for row in all_rows(suite)} for suite in PUBLISHED}
ALL = [(suite, learner) for suite in PUBLISHED for learner in LEARNERS if learner in IN_TABLES[suite]]


@pytest.mark.parametrize(("suite", "learner"), ALL)
def test_every_setting_is_compared_with_the_published_or_there_is_a_reason(suite, learner):
    known = {*published_settings(suite, learner), *UNCOMPARED}
    routing = {"routing"} if learner == "tsn-core" else set()  # it has none
    assert set(settings_of(suite, learner)) - routing <= known


@pytest.mark.parametrize("suite", PUBLISHED)
def test_every_published_setting_is_one_that_a_learner_has(suite):
    had = {name for learner in LEARNERS for name in settings_of(suite, learner)}
    for name in PUBLISHED[suite]:
        learner, _, path = name.rpartition(":")
        assert path in (settings_of(suite, learner) if learner else had), name


@pytest.mark.parametrize(("suite", "learner"), ALL)
def test_a_run_that_differs_in_one_setting_is_said_to_differ_in_it(suite, learner):
    own, published = settings_of(suite, learner), published_settings(suite, learner)
    same = {name: published[name] for name in own if name in published}
    always = [BESIDE_SETTINGS[suite, learner]] if (suite, learner) in BESIDE_SETTINGS else []
    assert list(differences(suite, learner, same)) == always
    for name in same:
        found = differences(suite, learner, {**same, name: "another"})
        assert [words.startswith(f"{name} another (published: ") for words in found if words not in always] == [True]


@pytest.mark.parametrize(("suite", "learner"), ALL)
def test_the_budget_published_differs_from_the_publication_in_its_data_and_in_what_the_preset_repairs(suite, learner):
    found = differences(suite, learner, settings_of(suite, learner, "published"))
    assert {words.split()[0] for words in found} <= {"data", "treatment", "subnets.outside", "frozen"}


def differences_in(folder: str, learner: str) -> str:
    """In what the kept runs of a learner in this folder, all of one row, differ from the published ones."""
    (found,) = group_runs(read_runs(*(RESULTS / folder).glob(f"{learner}-s?")))
    return "; ".join(differing(found))


def test_the_treatment_of_dense_learners_and_what_lies_outside_the_masks_are_among_the_differences():
    for learner in ("naive", "cumulative", "single"):
        assert "treatment equal (published: paper)" in differences_in("panda3", learner)
        assert "treatment" not in differences_in("panda3/treatment-paper", learner)
        assert "treatment" not in differences_in("atari5/paper", learner)
    assert "subnets.outside private (published: shared)" in differences_in("panda3", "affinity-l")
    assert "subnets.outside private (published: frozen)" in differences_in("atari5/paper", "tsn-core")
    assert "subnets.outside" not in differences_in("atari5/frozen", "tsn-core")


def test_other_target_returns_are_a_difference():
    assert "target returns 119, 82, 1512, 96, 166 (published: 114, 86, 1556, 97, 135)" in (
        differences_in("atari5/paper", "naive")
    )
    assert "target returns" not in differences_in("panda3", "naive")
    targets = dict(zip(*SUITES["panda3"], strict=True))
    assert differences("panda3", "naive", {}, targets) == ()
    assert differences("panda3", "naive", {}, {**targets, TASKS[1]: -1.0}) == (
        "target returns -0.00032, -1, -0.001 (published: -0.00032, -0.436, -0.001)",
    )


def test_a_row_says_the_budget_and_the_protocol_that_it_was_made_with(tmp_path):
    made = {"budget": "full", "protocol": {"name": "noop"}}
    a_run(tmp_path, "one", "naive", 0, [-1.0, -2.0], plan=made)
    for kind in ("main", "tasks"):
        table = make_table(kind, read_records(tmp_path), paper=True)
        assert table.columns[-2:] == ("budget", "protocol")
        ours = [line for line in table.lines if line.runs]
        assert ours
        assert {(line.values["budget"], line.values["protocol"]) for line in ours} == {("full", "noop")}
        assert "| full | noop |" in markdown(table)
