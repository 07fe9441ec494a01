"""Every metric against a matrix solved by hand."""

import pytest

from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix, reference
from holdfast.evaluation.metrics import (
    avg_forgetting,
    avg_gap,
    backward_transfer,
    forgetting,
    forward_transfer,
    norm_avg,
)
from holdfast.evaluation.rollouts import Evaluation

NOTHING = None
P = [
    [10.0, NOTHING, NOTHING],
    [12.0, 20.0, NOTHING],
    [6.0, 15.0, 30.0],
]


def test_forgetting_is_the_best_since_learned_minus_the_last():
    assert forgetting(P) == [6.0, 5.0, 0.0]


def test_average_forgetting_leaves_out_the_last_task():
    assert avg_forgetting(P) == 5.5


def test_average_forgetting_agrees_with_the_published_panda_rows():
    # TSN-ReplayKL r1: Reach was -0.189 when learned and -7.865 in the end, Push was not forgotten: AvgF 3.838.
    published = [[-0.189, None, None], [-0.189, -1.026, None], [-7.865, -1.026, -2.061]]
    assert avg_forgetting(published) == pytest.approx(3.838)


def test_average_gap_agrees_with_the_published_panda_rows():
    assert avg_gap([-0.189, -0.949, -1.308], [-0.00032, -0.436, -0.001]) == pytest.approx(0.670, abs=5e-4)


def test_norm_avg_agrees_with_the_published_atari_rows():
    targets = [114, 86, 1556, 97, 135]
    assert norm_avg([97, 73, 1511, 92, 117], targets) == pytest.approx(89.7, abs=0.05)
    assert norm_avg([0, 27, 10, -10, 92], targets) == pytest.approx(18.0, abs=0.05)


def test_norm_avg_of_targets_that_are_not_positive_is_nothing():
    assert norm_avg([1.0], [0.0]) is None
    assert norm_avg([-1.0], [-0.5]) is None
    assert norm_avg([1.0, -1.0], [1.0, -0.5]) is None  # one is enough


def test_backward_transfer_is_the_last_minus_when_learned():
    assert backward_transfer(P) == (6 - 10 + 15 - 20) / 2


def test_forward_transfer_is_against_learning_alone_and_leaves_out_the_first_task():
    assert forward_transfer(P, [100.0, 18.0, 31.0]) == (20 - 18 + 30 - 31) / 2


def test_entries_above_the_diagonal_are_in_no_metric():
    filled = [[10.0, 99.0, 99.0], [12.0, 20.0, 99.0], [6.0, 15.0, 30.0]]
    assert forgetting(filled) == forgetting(P)
    assert backward_transfer(filled) == backward_transfer(P)


def test_one_task_forgets_nothing():
    assert avg_forgetting([[3.0]]) == backward_transfer([[3.0]]) == forward_transfer([[3.0]], [1.0]) == 0.0


def a_matrix(learner: str = "naive") -> Matrix:
    return Matrix("toy", learner, "paper", 0, "smoke", {"name": "fixed-seeds", "episodes": 2}, ["A", "B"], [10.0, 20.0])


def test_a_matrix_says_what_was_earned_and_survives_json():
    matrix = a_matrix()
    matrix.record(0, 0, Evaluation([8.0, 10.0], [5, 5], [True, False], 2))
    matrix.record(1, 0, Evaluation([4.0, 6.0], [5, 5], [True, False], 2))
    assert (matrix.stages, matrix.metrics()["NormAvg"]) == (1, 90.0)  # the second stage is not complete
    matrix.record(1, 1, Evaluation([20.0, 20.0], [5, 5], [True, True], 1))
    matrix.single, matrix.copies, matrix.bytes = [9.0, 18.0], 1, {"weights": 8, "memory": 0, "total": 8}
    metrics = Matrix.from_json(matrix.to_json()).metrics()
    assert metrics["NormAvg"] == 75.0
    assert metrics["AvgGap"] == 2.5
    assert metrics["F"] == {"A": 4.0, "B": 0.0}
    assert metrics["AvgF"] == 4.0
    assert metrics["BWT"] == -4.0
    assert metrics["FWT"] == 2.0


def test_a_carried_result_says_where_it_comes_from():
    matrix = a_matrix()
    matrix.record(0, 0, Evaluation([8.0], [5], [True], 1))
    matrix.carry(1, 0, 0)
    assert matrix.returns[1][0] == [8.0]
    assert (matrix.carried[0][0], matrix.carried[1][0]) == (None, 0)


def test_a_reference_without_the_task_is_a_mistake():
    with pytest.raises(Mistake, match="no result for B"):
        reference(a_matrix("single"), ["B"])
