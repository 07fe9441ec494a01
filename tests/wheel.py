"""Builds a wheel, installs it into an empty environment outside the repository, and uses it: `make wheel`."""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
WALK = (  # what a newcomer types
    ["--version"],
    ["run", "--suite", "toy", "--learner", "affinity-l", "--budget", "smoke", "--out", "runs/toy"],
    ["run", "--suite", "panda3", "--learner", "affinity-l", "--budget", "smoke", "--out", "runs/panda"],
    ["report", "runs/panda", "--out", "report.html"],
)


def build(folder: Path, *flags: str) -> Path:
    """The wheel of this checkout, built from its source distribution, so that nothing is left over from before."""
    call([sys.executable, "-m", "build", *flags, "--outdir", str(folder), str(ROOT)], ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with this wheel and what it needs for the walk; returns its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    pip = [
        str(programs / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        str(ROOT / "constraints.txt"),
    ]
    call([*pip, "torch"], folder)
    call([*pip, f"{wheel}[panda,report]"], folder)
    return programs


def call(words: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """What a command prints; raises if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | dict(variables or {})
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Walks from a checkout to a report made by an installed wheel."""
    with TemporaryDirectory() as name:
        place = Path(name)
        wheel = build(place / "dist")
        programs = install(wheel, place / "environment")
        home = place / "home"
        home.mkdir()
        for words in WALK:
            print(f"holdfast {' '.join(words)}", flush=True)
            call([str(programs / "holdfast"), *words], home, {"MINARI_DATASETS_PATH": str(home / "data")})
        page = home / "report.html"
        print(f"{wheel.name} works: the report has {page.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
