"""Success: read under either name that environments use, and measured beside return."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import mean_success, success_forgetting
from holdfast.study.summary import summarise
from holdfast.tasks.environments import InTurn

RATES = [[0.5, None, None], [1.0, 0.75, None], [0.25, 0.5, 1.0]]
OLD = Path(__file__).parent / "fixtures" / "0.1"


class Reports(gymnasium.Env):
    """Ends after one step, and says this of it."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 0.0, True, False, self.info


@pytest.mark.parametrize(
    ("info", "succeeded"),
    [
        ({"is_success": True}, True),
        ({"success": 1.0}, True),
        ({"success": np.float32(0)}, False),
        ({"is_success": np.bool_(False), "success": 0.0}, False),
        ({}, False),
    ],
)
def test_success_is_read_under_both_names(info: dict[str, Any], succeeded: bool) -> None:
    environments = InTurn(partial(Reports, info), 1)
    environments.reset([0])
    assert environments.step(np.zeros(1)).succeeded.tolist() == [succeeded]


def test_mean_success_is_that_of_the_end_and_forgetting_is_since_a_task_was_learned() -> None:
    assert mean_success(RATES) == (0.25 + 0.5 + 1.0) / 3
    assert success_forgetting(RATES) == ((0.5 - 0.25) + (0.75 - 0.5)) / 2  # not since it was at its best
    assert str(success_forgetting([[1.0]])) == "0.0"


def a_matrix(successes: list[list[Any]]) -> Matrix:
    tasks = ["A", "B", "C"]
    matrix = Matrix("toy", "naive", "paper", 0, "smoke", {"name": "p", "episodes": 4}, tasks, [1.0, 1.0, 1.0])
    for stage, row in enumerate(successes):
        for task, rate in enumerate(row[: stage + 1]):
            matrix.successes[stage][task] = [number < 4 * rate for number in range(4)]
            matrix.returns[stage][task], matrix.lengths[stage][task] = [0.0, 1.0, 2.0, 3.0], [1] * 4
            matrix.distinct_episodes[stage][task] = 4
    matrix.copies, matrix.bytes = 1, {"weights": 1, "memory": 0, "total": 1}
    return matrix


def test_a_matrix_and_a_summary_have_the_same_numbers_and_none_where_nothing_ever_succeeds() -> None:
    metrics, summary = a_matrix(RATES).metrics(), summarise([a_matrix(RATES)] * 2)
    assert metrics["Success"] == summary.mean_success.value == mean_success(RATES)  # type: ignore[union-attr]
    assert metrics["SuccessF"] == summary.success_forgetting.value == success_forgetting(RATES)  # type: ignore[union-attr]
    low, high = summary.mean_success.interval or (1.0, 0.0)  # type: ignore[union-attr]
    assert low < metrics["Success"] < high
    game = a_matrix([[0.0] * 3] * 3)
    assert game.metrics()["Success"] is game.metrics()["SuccessF"] is None
    assert summarise([game]).mean_success is None


def test_show_and_tables_say_it_also_of_a_run_of_version_0_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(OLD / "naive", tmp_path / "runs" / "naive")
    assert "Success" not in json.loads((tmp_path / "runs" / "naive" / "matrix.json").read_text())["metrics"]
    main(["show", str(tmp_path / "runs" / "naive")])
    assert "SuccessF" in capsys.readouterr().out
    main(["table", str(tmp_path / "runs")])
    assert "| success % | success F % |" in capsys.readouterr().out
