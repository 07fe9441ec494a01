"""Damaged and forged datasets, and the commands that read them."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.recorded_data import ENVIRONMENTS, Played, play, write_d4rl, write_lerobot, write_minari, write_npz

from holdfast.data.minari import PLACE
from soak.agent_cases import OnAgent
from soak.cases import Case, Workspace
from soak.damages import EDITS, INSTEAD, Damage, Target, edited, mutated, replaced
from soak.forged import METADATA, forgeries, minari_metadata

FORGERIES = forgeries()
VECTORS, ANY = ("pendulum", "cartpole"), ("pendulum", "cartpole", "dict", "tuple", "multi", "images")
MINARI = ("hdf5", "arrow", "parquet")
WRITERS: dict[str, Callable[[list[Played], Path], Path]] = {
    "npz": write_npz,
    "d4rl": write_d4rl,
    "lerobot2": partial(write_lerobot, version=2),
    "lerobot3": partial(write_lerobot, version=3),
}
DAMAGES: tuple[Damage, ...] = (*3 * (mutated,), *map(edited, EDITS), *map(replaced, INSTEAD))
PLACES = (
    *(
        "pipe",
        "zeros",
        "loop",
        "loop/x",
        "file",
        "empty",
        "",
        ".",
        "..",
        "/",
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
    ),
    *("run", "run/config.json", "run/weights", "../victim", "../victim/thesis.txt", "x" * 300, "x/" * 3_000, "\x00"),
    *("own/hdf5-v0", "../own/hdf5-v0", "own/../../x", "\x1b[31m", "\udcff", "a\nb", "http://localhost/x.npz", "~", "-"),
    *("file:///etc/passwd", "D4RL/door/human-v2", "[red]x", "data/pendulum-npz/data.npz/x", "🤖"),
)


def make_data(workspace: Workspace) -> None:
    """Writes recordings of several environments in every format that can be read."""
    for kind in ANY:
        played = play(ENVIRONMENTS[kind])
        for name, write in WRITERS.items():
            flat = kind in VECTORS if name.startswith("lerobot") else kind not in ("tuple",)
            if flat:
                write(played, _new(workspace.path / "data" / f"{kind}-{name}"))
        for name in MINARI:
            folder = _new(workspace.path / "data" / f"{kind}-{name}")
            os.environ[PLACE] = str(folder)
            write_minari(played, folder, ENVIRONMENTS[kind](), name)
    os.environ[PLACE] = str(workspace.here / "data")


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def location(folder: Path) -> Path:
    """What is given as --data, of a folder with one dataset."""
    files = [*folder.glob("data.*"), *folder.glob("lerobot*"), *folder.glob("own/*")]
    return files[0] if files else folder / "data.npz"


def damaged_data(workspace: Workspace, rng: Random) -> Case:
    """A command that reads a dataset in which one thing is damaged."""
    base = rng.choice(workspace.data)
    folder = shutil.copytree(base, workspace.here / "data")
    where = location(folder).relative_to(workspace.here)
    damage = rng.choice(DAMAGES)
    target = Target(folder, workspace.victim, [other for other in workspace.data if other != base], rng)
    if damage.__name__ in {edit.__name__ for edit in EDITS} and not target.files(".json", ".jsonl"):
        damage = mutated
    name = damage(target)
    return reading(workspace, where, f"{damage.__name__}: {name} of {base.name}", rng)


def forged_data(workspace: Workspace, rng: Random, name: str) -> Case:
    """A command that reads data that claims what is not so."""
    (workspace.here / "data").mkdir()
    where = FORGERIES[name](workspace.here / "data").relative_to(workspace.here)
    return reading(workspace, where, name, rng)


def forged_metadata(workspace: Workspace, rng: Random, name: str) -> Case:
    """A command that reads a Minari dataset that says nonsense about itself."""
    base = workspace.path / "data" / f"pendulum-{rng.choice(MINARI)}"
    shutil.copytree(base, workspace.here / "data")
    where = minari_metadata(location(workspace.here / "data"), METADATA[name]).relative_to(workspace.here)
    return reading(workspace, where, f"{name} of {base.name}", rng)


def odd_place(workspace: Workspace, rng: Random, place: str) -> Case:
    """A command that is told to read data where there is none."""
    return reading(workspace, place, f"--data {place[:40]!r}", rng)


def reading(workspace: Workspace, where: str | Path, about: str, rng: Random) -> Case:
    """A command that reads data: it looks at it, or learns it into an agent."""
    base = workspace.agents[0]
    shutil.copytree(base, workspace.here / "run")
    data = ["--data", str(where)]
    smoke = ["--budget", "smoke", "--quiet", "--device", "cpu"]
    words = rng.choice(
        [
            *3 * [["doctor", *data]],
            ["doctor", *data, "--json"],
            ["identify", "run", *data],
            *2 * [["preview", "run", "new", *data]],
            ["preview", "none", "new", *data, "--json"],
            *3 * [["learn", "run", "new", *data, *smoke]],
            ["learn", "none", "new", *data, *smoke, "--backbone", "mlp"],
        ]
    )
    return OnAgent(workspace, ["agent", *words], base).case("datasets", about)
