"""What an agent tells its user: where a task went and why, what it cost, and how well it does beside other policies."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.agent.agent import Agent
from holdfast.agent.routes import why
from holdfast.cli.main import main
from holdfast.evaluation.offline import offline_score
from holdfast.tasks.recorded import held_out, read
from tests.recorded_data import ENVIRONMENTS, play, write_npz
from tests.test_agent import SETTINGS, learn, played


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that knows two tasks of one interface."""
    path = tmp_path_factory.mktemp("output") / "agent"
    agent = Agent(path, settings=SETTINGS, device="cpu")
    learn(agent, "first", "pendulum")
    learn(agent, "second", "pendulum")
    return path


def test_a_task_is_scored_beside_a_constant_policy_and_the_nearest_tasks_policy_on_the_same_episodes(folder):
    agent = Agent(folder, device="cpu")
    record = agent.record("second")
    assert record.nearest == "first"
    assert set(record.score) == {"squared error", "constant squared error", "nearest squared error"}
    found = read([vars(one) for one in played("pendulum")])
    _, kept_back = held_out(found.dataset, agent.plan.seed)
    scaled = kept_back.rewards * np.float32(record.reward_scale)
    kept_back = type(kept_back)(kept_back.observations, kept_back.actions, scaled, kept_back.lengths)
    theirs = offline_score(agent._learner().policy("first"), kept_back)
    assert record.score["nearest squared error"] == pytest.approx(theirs["squared error"], rel=1e-5)


def test_a_task_that_nothing_can_be_compared_with_has_no_nearest_one(folder):
    first = Agent(folder, device="cpu").record("first")
    assert first.nearest is None
    assert set(first.score) == {"squared error", "constant squared error"}


def test_learning_prints_the_route_and_its_reason_the_scores_the_bytes_and_the_certificate(tmp_path, folder, capsys):
    data = write_npz(play(ENVIRONMENTS["cartpole"]), tmp_path)
    words = ["agent", "learn", str(tmp_path / "agent")]
    Agent(tmp_path / "agent", settings=SETTINGS, device="cpu").folder.store.load()
    main([*words, "first", "--data", str(data), "--budget", "smoke", "--quiet"])
    told = capsys.readouterr().out
    assert "route        a new copy: first task" in told
    assert "a constant policy" in told
    main([*words, "second", "--data", str(data), "--budget", "smoke", "--quiet", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["nearest"] == "first"
    assert found["bytes"]["task"] == Agent(tmp_path / "agent", device="cpu").bytes_of("second") > 0
    assert found["bytes"]["weights"] > found["bytes"]["task"]
    assert found["certificate"] == "all 2 tasks equal to the bit"
    main([*words, "third", "--data", str(data), "--budget", "smoke", "--quiet"])
    told = capsys.readouterr().out
    route = Agent(tmp_path / "agent", device="cpu").folder.routes_by(3)[-1]
    assert f"copy {route['copy']}, starting from {route['source']}: {why(route)}" in told
    assert f"the policy of {Agent(tmp_path / 'agent').record('third').nearest}" in told
    assert "MB for this task" in told


def test_the_list_fits_a_terminal_of_80_columns_and_shows_every_score(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["agent", "list", str(folder)])
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert [word in told for word in ("squared error", "constant", "nearest", "\\n")] == [True, True, True, False]
    main(["agent", "list", str(folder), "--json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [row["score"] for row in rows] == [Agent(folder).record(row["task"]).score for row in rows]
