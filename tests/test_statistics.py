"""Intervals against textbook values, and against how often they hold what they should."""

import numpy as np
import pytest

from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.rollouts import Evaluation
from holdfast.evaluation.statistics import interquartile_mean, interval, resample, task_mean, wilson
from holdfast.study.run_tables import matrix_table
from holdfast.study.summary import summarise


def mean_interval(returns):
    return interval(resample([[returns]]), task_mean(0))


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_intervals_are_the_published_ones(successes, count, low, high):
    assert wilson(successes, count) == pytest.approx((low, high), abs=5e-5)


def test_the_interquartile_mean_is_that_of_the_middle_half():
    assert interquartile_mean([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -100.0]) == (2 + 3 + 4 + 5) / 4
    assert interquartile_mean([7.0]) == 7.0


def test_the_interquartile_mean_is_over_the_last_axis():
    assert interquartile_mean(np.array([[0.0, 1.0, 2.0, 9.0], [9.0, 4.0, 6.0, 0.0]])).tolist() == [1.5, 5.0]


def test_an_episode_is_drawn_with_what_it_earned_at_every_stage():
    stages = np.array([[0.0, 1.0, 5.0], [1.0, 2.0, 6.0]])  # each episode earned one more at the second
    drawn = resample([[stages]])
    assert drawn.shape == (5_000, 1, 1, 2)
    assert drawn[..., 1] - drawn[..., 0] == pytest.approx(np.ones((5_000, 1, 1)))
    assert (drawn[..., 0] == resample([[stages[0].tolist()]])).all()


def test_an_interval_of_equal_returns_is_a_point():
    assert mean_interval([3.0] * 20) == (3.0, 3.0)


def test_an_interval_of_two_episodes_is_solved_by_hand():
    # The mean of two draws from {0, 1} is 0 and 1 a quarter of the time each: both ends are within the middle 95 %.
    assert mean_interval([0.0, 1.0]) == (0.0, 1.0)


def test_intervals_are_the_same_at_every_call():
    returns = np.random.default_rng(1).normal(size=20).tolist()
    assert mean_interval(returns) == mean_interval(returns)


def test_a_long_interval_is_that_of_the_central_limit():
    returns = np.random.default_rng(0).exponential(size=1_000)
    reach = 1.96 * returns.std() / 1_000**0.5
    expected = (returns.mean() - reach, returns.mean() + reach)
    assert mean_interval(returns.tolist()) == pytest.approx(expected, abs=0.1 * reach)


def test_an_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(200, 25))
    held = sum(low <= 0 <= high for low, high in map(mean_interval, samples.tolist()))
    assert 0.88 <= held / 200 <= 0.98  # percentiles of 25 draws hold some 93 %, and 200 trials scatter by 1.8


def test_runs_are_drawn_before_their_episodes():
    # Two runs without spread within: their mean is 0, 1/2 or 1, a quarter, a half and a quarter of the time.
    runs = [[[0.0] * 5], [[1.0] * 5]]
    values, counts = np.unique(resample(runs).mean(axis=(1, 2)), return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    assert counts / counts.sum() == pytest.approx([0.25, 0.5, 0.25], abs=0.03)


def test_a_seed_is_drawn_with_all_its_tasks():
    runs = [[[0.0], [1.0]], [[1.0], [0.0]]]  # in each run the tasks add up to one
    assert interval(resample(runs), lambda means: means.sum(axis=-1)) == (1.0, 1.0)


def test_runs_that_differ_widen_an_interval():
    rng = np.random.default_rng(0)
    alike = [[rng.normal(0, 1, 50).tolist()] for _ in range(3)]
    apart = [[rng.normal(shift, 1, 50).tolist()] for shift in (-2, 0, 2)]
    low, high = interval(resample(alike), task_mean(0))
    lower, higher = interval(resample(apart), task_mean(0))
    assert higher - lower > 3 * (high - low)


def a_matrix(*results: Evaluation) -> Matrix:
    names = ["A", "B"][: len(results)]
    matrix = Matrix("toy", "single", "paper", 0, "smoke", {"episodes": 2}, names, [1.0, 2.0][: len(results)])
    for stage in range(len(results)):
        for task in range(stage + 1):
            matrix.record(stage, task, results[task])
    return matrix


def test_a_matrix_knows_how_sure_it_is():
    # AvgGap is (|a - 1| + |2 - 2|) / 2 where a, the mean of two draws from {0, 1}, lies anywhere in [0, 1].
    record = a_matrix(Evaluation([0.0, 1.0], [1, 1], [False, True], 2), Evaluation([2.0, 2.0], [1, 1], [True] * 2, 2))
    found = record.to_json()
    assert found["intervals"]["tasks"] == {"A": (0.0, 1.0), "B": (2.0, 2.0)}
    assert found["intervals"]["AvgGap"] == (0.0, 0.5)
    assert found["intervals"]["NormAvg"] == (50.0, 100.0)
    assert found["success"]["A"] == {"rate": 0.5, "interval": wilson(1, 2)}
    assert found["success"]["B"]["rate"] == 1.0


def test_episodes_that_are_all_one_have_no_interval():
    assert a_matrix(Evaluation([5.0, 5.0], [1, 1], [False] * 2, 1)).intervals() == {}


def test_a_task_whose_episodes_differ_has_an_interval_also_beside_one_whose_are_all_one():
    same, other = Evaluation([5.0, 5.0], [1, 1], [False] * 2, 1), Evaluation([0.0, 1.0], [1, 1], [False] * 2, 2)
    matrix = a_matrix(same, other)
    matrix.bytes = {"total": 1}
    assert matrix.intervals() == {"tasks": {"B": (0.0, 1.0)}}
    summary = summarise([matrix])
    assert (summary.returns["A"].interval, summary.returns["B"].interval) == (None, (0.0, 1.0))
    assert (summary.gap.interval, summary.normalised.interval, summary.forgetting.interval) == (None, None, None)
    columns = matrix_table(matrix, {}, None).columns
    assert [str(list(column.cells)[2]) for column in columns] == ["95 %: from", "", "0"]


def test_an_episode_played_again_makes_nothing_surer():
    returns = np.random.default_rng(1).normal(size=30).tolist()
    once, tenfold = (
        a_matrix(Evaluation(returns * times, [1] * 30 * times, [False] * 30 * times, 30)).intervals()["tasks"]["A"]
        for times in (1, 10)
    )
    assert tenfold == pytest.approx(once, abs=0.03)


def test_episodes_that_are_all_one_are_one_success():
    found = a_matrix(Evaluation([5.0] * 20, [1] * 20, [True] * 20, 1)).success()
    assert found == {"A": {"rate": 1.0, "interval": wilson(1, 1)}}


def test_a_game_without_success_has_no_success_rate():
    assert a_matrix(Evaluation([5.0, 6.0], [1, 1], [False] * 2, 2)).success() == {}


def test_a_matrix_that_is_not_complete_keeps_no_intervals():
    matrix = Matrix("toy", "single", "paper", 0, "smoke", {"episodes": 2}, ["A", "B"], [1.0, 2.0])
    matrix.record(0, 0, Evaluation([0.0, 1.0], [1, 1], [True] * 2, 2))
    assert "intervals" not in matrix.to_json()
    assert matrix.intervals()["AvgGap"] == (0.0, 1.0)
