"""A wheel works without the checkout it was built from; `make wheel` also installs it into an empty environment."""

import sys
from pathlib import Path

from tests.wheel import build, call

SMOKE = ["run", "--suite", "toy", "--learner", "affinity-l", "--budget", "smoke", "--no-tensorboard", "--out", "run"]


def test_a_wheel_alone_runs_a_suite_and_reads_its_own_files(tmp_path: Path) -> None:
    wheel, place, home = build(tmp_path / "dist", "--no-isolation"), tmp_path / "place", tmp_path / "home"
    home.mkdir()
    call([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), str(wheel)], home)
    alone = {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    where = call([sys.executable, "-c", "import holdfast; print(holdfast.__file__)"], home, alone)
    assert Path(where.strip()).is_relative_to(place)
    said = call([sys.executable, "-m", "holdfast", *SMOKE], home, alone)
    assert "every task equal to the bit" in said
    table = call([sys.executable, "-m", "holdfast", "table", "run"], home, alone)
    assert "affinity-l" in table
