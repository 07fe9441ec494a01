"""The table of routes: one line for each compared task, and what seeds decide differently is said."""

import json
from pathlib import Path

import pytest

from holdfast.errors import Mistake
from holdfast.study.tables import make_table, read_records
from tests.test_tables import RETURNS, a_run


def route(task: str, distance: float | None, source: str | None, copy: int = 0) -> dict:
    candidates = [{"task": "PandaReach", "copy": 0, "distance": distance, "parts": {}}] if task != "PandaReach" else []
    opened = source is None
    return {
        "task": task,
        "candidates": candidates,
        "threshold": 1.0,
        "source": source,
        "copy": copy,
        "opened": opened,
        "reason": "so",
    }


def routed_run(root: Path, seed: int, push: dict, pick: dict) -> None:
    a_run(root, f"run-{seed}", "affinity-l", seed, RETURNS, threshold=1.0)
    routes = [route("PandaReach", None, None), push, pick]
    (root / f"run-{seed}" / "routes.json").write_text(json.dumps(routes))


def test_a_line_says_how_far_the_nearest_task_was_and_where_the_task_went(tmp_path):
    routed_run(tmp_path, 0, route("PandaPush", 0.25, "PandaReach"), route("PandaPickAndPlace", 3.0, "PandaReach"))
    routed_run(tmp_path, 1, route("PandaPush", 0.5, "PandaReach"), route("PandaPickAndPlace", None, None, copy=1))
    lines = make_table("routes", read_records(tmp_path)).lines
    shown = [
        [line.values[name] for name in ("task", "nearest task", "distance", "allowed", "decision")] for line in lines
    ]
    assert shown == [
        ["PandaPush", "PandaReach", "0.25 to 0.5", "1", "copy 0, from PandaReach"],
        [
            "PandaPickAndPlace",
            "PandaReach",
            "3 to ∞",
            "1",
            "copy 0, from PandaReach (seed 0); a copy of its own (seed 1)",
        ],
    ]


def test_a_run_without_routes_says_so(tmp_path):
    a_run(tmp_path, "one", "affinity-l", 0, RETURNS, threshold=1.0)
    (line,) = make_table("routes", read_records(tmp_path)).lines
    assert line.values["task"] == "no comparison is recorded"


def test_learners_that_compare_no_tasks_have_no_routes(tmp_path):
    a_run(tmp_path, "one", "naive", 0, RETURNS)
    with pytest.raises(Mistake, match="none of these runs is one for the table routes"):
        make_table("routes", read_records(tmp_path))
