"""The page of a dataset shows what the doctor found and how the data looks, whatever the data is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli.main import main
from holdfast.data.doctor import examine
from holdfast.data.raw_episodes import RawEpisodes
from holdfast.data.sources import read_source
from holdfast.study.figures.recorded_data import as_picture, at_bound, bounds_of, columns_of
from holdfast.study.page.data_page import write_data_page
from tests.recorded_data import ENVIRONMENTS, as_dicts, play, write_npz
from tests.test_page import Outline

HOSTILE = "<script>alert(1)</script>"


def episodes(kind: str) -> list[dict[str, Any]]:
    return as_dicts(play(ENVIRONMENTS[kind]))


def filled(value: float) -> list[dict[str, Any]]:
    """Episodes in which all observations and rewards are one number."""
    found = episodes("pendulum")
    return [
        {
            **one,
            "observations": np.full_like(one["observations"], value),
            "rewards": np.full_like(one["rewards"], value),
        }
        for one in found
    ]


DATA = {
    **{kind: lambda kind=kind: episodes(kind) for kind in ENVIRONMENTS},
    "nan": lambda: filled(np.nan),
    "huge": lambda: filled(1e38),
    "one episode": lambda: episodes("pendulum")[:1],
    "no rewards": lambda: [{**one, "rewards": None} for one in episodes("pendulum")],
    "hostile": lambda: [{**one, "observations": {HOSTILE: one["observations"]}} for one in episodes("pendulum")],
}


def write(raw: RawEpisodes, path: Path) -> Path:
    write_data_page(raw, examine(raw), "data.npz", path)
    return path


@pytest.mark.parametrize("kind", DATA)
def test_any_data_that_can_be_read_has_a_page_with_every_finding(kind: str, tmp_path: Path) -> None:
    raw = read_source(DATA[kind]())
    text = " ".join(Outline(write(raw, tmp_path / "page.html")).text.split())
    for finding in examine(raw):
        assert " ".join(finding.means.split()) in text
        assert finding.level == "ok" or finding.advice in text or finding.advice.startswith("Nothing")


@pytest.mark.parametrize(("kind", "width", "scheme"), [("hostile", 320, "light"), ("images", 1280, "dark")])
def test_the_page_loads_nothing_runs_nothing_of_the_datas_and_fits_its_window(
    kind: str, width: int, scheme: str, tmp_path: Path, watch: Any
) -> None:
    page = write(read_source(DATA[kind]()), tmp_path / "page.html")
    seen = watch(page, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert seen.told == []
    assert [place for place in seen.asked if not place.startswith("data:")] == [page.as_uri()]
    assert seen.view.evaluate("document.documentElement.scrollWidth") == width
    assert seen.view.evaluate("[...document.querySelectorAll('svg')].every(one => one.getBBox().width > 50)")


def test_bounds_are_those_of_the_environment_and_what_is_at_them_is_counted() -> None:
    env = ENVIRONMENTS["pendulum"]()
    steps = {"observations": np.zeros((4, 3)), "actions": np.array([[-2.0], [0.0], [2.0], [1.0]], np.float32)}
    raw = read_source([{**steps, "rewards": np.zeros(4)}])
    bounds = bounds_of(raw, env)
    (column,) = columns_of(raw, "actions")
    assert (bounds.low, bounds.high) == ((-2.0,), (2.0,))
    assert at_bound(column, 0, bounds) == 0.5


def test_stacked_frames_are_shown_by_the_last_and_colours_as_they_are() -> None:
    stack = np.arange(4 * 40 * 40, dtype=np.uint8).reshape(4, 40, 40)
    assert (as_picture(stack) == stack[-1]).all()
    colours = np.zeros((3, 40, 50), np.uint8)
    assert as_picture(colours).shape == (40, 50, 3)
    assert as_picture(np.moveaxis(colours, 0, -1)).shape == (40, 50, 3)
    assert as_picture(stack[0]).shape == (40, 40)


def test_the_command_writes_the_page_and_never_over_the_record_of_a_run(tmp_path, capsys):
    data = write_npz(play(ENVIRONMENTS["cartpole"]), tmp_path)
    page = tmp_path / "page.html"
    main(["agent", "doctor", "--data", str(data), "--html", str(page)])
    assert f"wrote {page}" in capsys.readouterr().out
    assert "CartPole" not in page.read_text()
    assert str(tmp_path) in page.read_text()  # where the data was
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit) as stop:
        main(["agent", "doctor", "--data", str(data), "--html", str(tmp_path / "matrix.json")])
    assert stop.value.code == 2
    assert "belongs to the record of the run" in capsys.readouterr().err
