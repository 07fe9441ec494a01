"""The difference between two learners: pairs of seeds and starts, their interval, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.rollouts import Evaluation
from holdfast.study.paired import paired_difference
from holdfast.study.tables import compared, make_table, read_records
from tests.test_mistakes import command as mistake
from tests.test_tables import RETURNS, a_run

TASKS = ["A", "B"]


def played(
    seed: int, successes: list[list[bool]], returns: list[list[float]] | None = None, first_seed: int = 7
) -> Matrix:
    """A finished run of two tasks; every episode differs."""
    protocol = {"name": "fixed-seeds", "episodes": len(successes[0]), "first_seed": first_seed}
    matrix = Matrix("toy", "naive", "paper", seed, "full", protocol, TASKS, [1.0, 1.0])
    values = returns or [[0.0] * len(task) for task in successes]
    for stage in range(2):
        for task in range(stage + 1):
            count = len(successes[task])
            matrix.record(stage, task, Evaluation(values[task], [1] * count, successes[task], count))
    return matrix


YES, NO = True, False


def test_a_difference_is_the_mean_over_seeds_and_tasks_in_points_of_success():
    better = [played(0, [[YES, YES], [YES, NO]]), played(1, [[YES, NO], [YES, YES]])]
    worse = [played(1, [[NO, NO], [YES, YES]]), played(0, [[YES, NO], [YES, NO]])]  # in another order
    found = paired_difference(better, worse)
    assert found is not None
    assert found.value == pytest.approx(100 * np.mean([1 / 2, 0, 1 / 2, 0]))
    opposite = paired_difference(worse, better)
    assert opposite is not None
    assert opposite.value == pytest.approx(-found.value)


def test_what_both_have_in_common_does_not_widen_the_interval():
    rng = np.random.default_rng(0)
    hard = rng.random((2, 40)) < 0.5  # starts that nobody succeeds from
    ours = [played(seed, [list(map(bool, ~task)) for task in hard]) for seed in range(3)]
    same = paired_difference(ours, ours)
    assert same is not None
    assert (same.value, same.interval) == (0.0, (0.0, 0.0))


def test_without_success_the_difference_is_of_returns():
    none = [[NO, NO], [NO, NO]]
    ours, theirs = played(0, none, [[3.0, 5.0], [1.0, 1.0]]), played(0, none, [[1.0, 1.0], [1.0, 0.0]])
    found = paired_difference([ours], [theirs])
    assert found is not None
    assert found.value == pytest.approx(np.mean([3.0, 0.5]))


def test_only_seeds_that_both_have_are_pairs_and_other_starts_are_none():
    one, two = played(0, [[YES, YES], [YES, YES]]), played(1, [[NO, NO], [NO, NO]])
    found = paired_difference([one, two], [one])
    assert found is not None
    assert found.value == 0
    assert paired_difference([one], [two]) is None
    assert paired_difference([one], [played(0, [[YES, YES], [YES, YES]], first_seed=8)]) is None


def test_a_table_compares_every_row_with_the_runs_that_are_named(tmp_path):
    alone = a_run(tmp_path, "alone", "single", 0, RETURNS)
    a_run(tmp_path, "other", "naive", 0, RETURNS)
    found = compared(read_records(tmp_path), read_records(alone))
    table = make_table("main", found)
    shown = {line.label: line.values.get("difference") for line in table.lines if not line.missing}
    assert {shown["naive"].value, shown["single"].value} == {0.0}
    assert any("difference: to single" in note for note in table.notes)
    assert "difference" not in make_table("main", read_records(tmp_path)).columns


def test_what_cannot_be_compared_with_is_one_sentence(tmp_path, capsys):
    one, two = (a_run(tmp_path, name, name, 0, RETURNS) for name in ("single", "naive"))
    begun = a_run(tmp_path, "begun", "si", 0, None)
    words = ("table", str(tmp_path), "--against")
    assert "differ in their seed alone" in mistake(capsys, *words, str(one), str(two))
    assert "needs complete runs of panda3" in mistake(capsys, *words, str(begun))
    assert "--against needs run folders" in mistake(capsys, *words)  # as of a pattern that no folder has
    assert "--against needs run folders" in mistake(capsys, "table", "--against", "--stages", "1", str(tmp_path))
    assert "the table tasks has no column for --against" in mistake(capsys, *words, str(one), "--table", "tasks")
    main([*words, str(one), "--out", str(Path(tmp_path) / "table.md")])
    assert "| difference |" in (tmp_path / "table.md").read_text()
