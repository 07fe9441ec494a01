"""`--evaluate-at`: the policy that is being trained is played, and nothing else changes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.errors import Mistake
from holdfast.evaluation.curves import CurvePoint
from holdfast.evaluation.matrix import Matrix
from holdfast.evaluation.metrics import area_under, curve_transfer
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import run
from tests.kills import killed_after_every_event
from tests.tiny import QUIET, contents, tiny_learner, tiny_suite

AT = replace(QUIET, evaluate_at=(25, 50, 100), save_every=0.0)
PLAYED = ["naive", "cumulative", "ewc", "single", "tsn-core", "affinity-l"]


def played(name: str, path: Path, options: Options = AT, device: str = "cpu", **settings: object) -> Matrix:
    """A run of two tasks with ten episodes each."""
    found = tiny_suite(tasks=2)
    return run(found, tiny_learner(name, found, device, protocol__episodes=10, **settings), path, options)


def weights(path: Path) -> dict[str, bytes]:
    """What was learned, and its certificates."""
    return {name: content for name, content in contents(path).items() if name != "matrix.json"}


@pytest.mark.parametrize("name", PLAYED)
def test_what_is_learned_is_the_same_to_the_bit_with_and_without(name: str, device: str, tmp_path: Path) -> None:
    curves = replace(AT, evaluate_at=(10, 25, 60, 100))  # steps 1, 3, 7 and 12, where losses are recorded every 4
    with_points = played(name, tmp_path / "with", curves, device)
    without = played(name, tmp_path / "without", QUIET, device)
    assert weights(tmp_path / "with") == weights(tmp_path / "without")
    assert with_points.returns == without.returns
    assert [[point.at for point in points] for points in with_points.curves.values()] == [[10, 25, 60, 100]] * 2
    losses = [
        [event["loss"] for event in RunFolder(tmp_path / run).events() if event["kind"] == "train"]
        for run in ("with", "without")
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", PLAYED)
def test_a_point_is_played_by_the_policy_as_it_is_at_that_moment(name: str, tmp_path: Path) -> None:
    matrix = played(name, tmp_path / "whole")
    shorter = {25: played(name, tmp_path / "3", QUIET, fit__steps=3), 50: played(name, tmp_path / "6", fit__steps=6)}
    for point in matrix.curves["NorthEast"]:
        known = shorter.get(point.at, matrix)  # at a constant rate, the first steps are those of a shorter run
        assert point.returns == known.returns[0][0]
        assert point.successes == known.successes[0][0]


@pytest.mark.parametrize("name", ["ewc", "tsn-core"])
def test_killed_at_any_event_and_resumed_every_point_is_played_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(name, tmp_path / "whole")
    killed_after_every_event(lambda: played(name, tmp_path / "killed"), monkeypatch)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    lines = (tmp_path / "killed" / "events.jsonl").read_text().splitlines()
    points = [event for event in map(json.loads, lines) if event["kind"] == "curve"]
    found = [(event["task"], event["at"], event["step"]) for event in points]
    assert found == [(task, at, at * 12 // 100) for task in ("NorthEast", "SouthWest") for at in (25, 50, 100)]
    assert [event for event in RunFolder(tmp_path / "killed").events() if event["kind"] == "curve"] == points


def test_a_cached_fit_is_trained_again_if_it_is_to_be_played_in_between(tmp_path: Path) -> None:
    first = played("naive", tmp_path / "first", replace(QUIET, cache=tmp_path / "cache"))
    second = played("naive", tmp_path / "second", replace(AT, cache=tmp_path / "cache"))
    assert first.curves == {}
    assert second.curves == played("naive", tmp_path / "uncached").curves
    assert weights(tmp_path / "first") == weights(tmp_path / "second")


def test_a_learner_that_does_not_say_how_it_is_played_has_no_curves(tmp_path: Path) -> None:
    matrix = played("packnet", tmp_path / "run")
    assert matrix.curves == {}
    assert matrix.metrics()["FT"] is None


def test_the_area_is_that_of_trapezoids_from_no_success_at_the_beginning() -> None:
    rates = np.array([0.2, 0.4, 1.0, 1.0])
    by_hand = (0.2 / 2) * 10 + (0.2 + 0.4) / 2 * 15 + (0.4 + 1.0) / 2 * 25 + 1.0 * 50
    assert area_under(rates, [10, 25, 50, 100]) == pytest.approx(by_hand / 100)
    assert area_under(rates[:2], [10, 25]) == pytest.approx(((0.2 / 2) * 10 + (0.2 + 0.4) / 2 * 15) / 25)
    assert curve_transfer(np.array(0.6), np.array(0.5)) == pytest.approx(0.2)
    assert curve_transfer(np.array(0.25), np.array(0.5)) == -0.5


def curve(*rates: float) -> list[CurvePoint]:
    """A curve at 50 and 100 %, of four episodes."""
    flags = [[number < 4 * rate for number in range(4)] for rate in rates]
    return [CurvePoint(at, [0.0] * 4, successes, 4) for at, successes in zip((50, 100), flags, strict=False)]


def test_forward_transfer_is_the_mean_gain_over_learning_alone() -> None:
    matrix = Matrix("toy", "naive", "paper", 0, "smoke", {"name": "p", "episodes": 4}, ["A", "B"], [1.0, 1.0])
    for stage in range(2):
        for task in range(stage + 1):
            matrix.returns[stage][task], matrix.successes[stage][task] = [0.0] * 4, [True] * 4
    matrix.curves = {"A": curve(0.5, 1.0), "B": curve(1.0, 1.0)}  # areas 0.5 and 0.75
    matrix.single_curves = {"A": curve(0.5, 1.0), "B": curve(0.5, 0.5)}  # areas 0.5 and 0.375
    assert matrix.metrics()["FT"] == pytest.approx((0 + (0.75 - 0.375) / (1 - 0.375)) / 2)
    matrix.single_curves["B"] = curve(0.5)
    assert matrix.metrics()["FT"] is None  # other points
    del matrix.single_curves["B"]
    assert matrix.metrics()["FT"] is None


def test_against_a_reference_the_run_itself_knows_its_forward_transfer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = played("single", tmp_path / "single")
    matrix = played("naive", tmp_path / "naive", replace(AT, reference=tmp_path / "single"))
    assert matrix.single_curves == alone.curves
    kept = RunFolder(tmp_path / "naive").read_matrix()
    assert kept == matrix
    assert isinstance(matrix.metrics()["FT"], float)
    main(["show", str(tmp_path / "naive")])
    assert "FT " in capsys.readouterr().out


@pytest.mark.parametrize("at", [(0, 50), (50, 25), (50, 50), (101,)])
def test_moments_that_are_not_rising_per_cents_are_refused(at: tuple[int, ...]) -> None:
    with pytest.raises(Mistake, match="rising per cents from 1 to 100"):
        Options(evaluate_at=at)
