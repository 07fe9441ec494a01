"""Inputs for fuzzing: damaged run folders, odd names, and command lines and grids that make no sense."""

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from holdfast.cli import main
from holdfast.commands import SETTINGS
from holdfast.completion import words_of
from holdfast.report.export import export
from tests.damages import DAMAGES, OF_BYTES, OF_WEIGHTS, RAW, Target

OLD = Path(__file__).parent / "fixtures" / "0.1"
TINY = shlex.split(
    "--suite toy --budget smoke --fit.steps 2 --fit.batch 8 --net.width 16 --net.layers 1 --net.context 4 "
    "--protocol.episodes 2 --transitions 200 --no-tensorboard --device cpu"
)
READING = ("show", "table", "report")
NAMES = (
    *("[red]mark[/red]", "[link=file:///x]y", "\x1b[31mred", "\u202etxet", "new\nline", "\udcff\udcfe", "é" * 50),
    *("a b", "it's", '"quoted"', "$(touch x)", "-dash", "--json", "x" * 255, "x" * 300, "%s%n", "*", "~", "a\\b"),
)
NUMBERS = ("0", "-0", "-1", "1", "2", "3.5", "1e-9", "nan", "inf", "-inf", "1e999", "1e-999", "9" * 20, "-" + "9" * 20)
VALUES = (
    *(
        *NUMBERS,
        "1" * 5_000,
        "x" * 5_000,
        "x" * 300,
        "",
        " ",
        "é",
        "\x1b[31m",
        "a\nb",
        "\u202e",
        "\udcff",
        "[red]x",
        "--",
        "-",
        "None",
        "True",
        "null",
        "=",
        "a=b",
    ),
    *("NorthEast", "NorthEast=1", "NorthEast=nan", "NorthEast=", "=1", "Nowhere=1", "Nowhere", "toy", "naive", "md"),
    *("run", "run/config.json", "run/weights", "run/weights/index.json", "file", "file/x", "pipe", "zeros", "empty"),
    *("loop", "loop/x", "/dev/null/x", "/proc/nothing", "\x00", "cuda", "cpu:99", "meta"),
)
GRID = """[all]
suite = "toy"
budget = "smoke"

[[main]]
learner = ["naive", "affinity-l"]
seed = [0, 1]
fit.steps = 5
"""
TOML = (*VALUES, *RAW, "[nan]", '[["x"]]', "1979-05-27", "true", '"toy"', '["single"]', "{a = 1}", "'''x", "[0, 0]")


@dataclass(frozen=True)
class Case:
    """One input: what is wrong with it, and the words after `holdfast`."""

    kind: str
    about: str
    words: list[str]
    base: Path | None = None  # the undamaged folder that `run` is a copy of
    folder: Path = Path("run")
    damaged: str = ""  # the name in it of what is damaged


@dataclass(frozen=True)
class Yard:
    """Where everything happens: undamaged folders, a victim, and the working directory of the commands."""

    path: Path

    @property
    def bases(self) -> list[Path]:
        """The undamaged folders."""
        return sorted((self.path / "bases").iterdir())

    @property
    def victim(self) -> Path:
        """A folder that no command has to do with."""
        return self.path / "victim"

    @property
    def here(self) -> Path:
        """The working directory."""
        return self.path / "here"

    def fill(self) -> None:
        """Makes the undamaged folders: new ones, old ones, and exported ones."""
        shutil.copytree(OLD, self.path / "bases")
        for learner in ("affinity-l", "ewc"):
            places = ["--cache", str(self.path / "cache"), "--out", str(self.path / "bases" / f"new-{learner}")]
            main(["run", *TINY, "--quiet", "--learner", learner, *places])
        export([self.path / "bases" / "new-affinity-l"], self.path)
        (self.path / "new-affinity-l").rename(self.path / "bases" / "exported")
        self.victim.mkdir()
        (self.victim / "thesis.txt").write_text("years")

    def clear(self) -> None:
        """Makes the working directory anew."""
        shutil.rmtree(self.here, ignore_errors=True)
        (self.here / "empty").mkdir(parents=True)
        (self.here / "file").write_text("something")
        (self.here / "loop").symlink_to("loop")
        (self.here / "zeros").symlink_to("/dev/zero")
        os.mkfifo(self.here / "pipe")


# Inputs


def make_case(yard: Yard, rng: Random) -> Case:
    """A random input, with the files that it needs."""
    yard.clear()
    makers = (damaged_folder, damaged_cache, named_folder, bad_words, bad_grid)
    return rng.choices(makers, weights=(68, 3, 4, 20, 5))[0](yard, rng)


def damaged_folder(yard: Yard, rng: Random) -> Case:
    """A command on a folder in which one thing is damaged."""
    damage = rng.choice(DAMAGES)
    base = rng.choice([path for path in yard.bases if damage not in OF_WEIGHTS or (path / "weights").exists()])
    others = [other for other in yard.bases if other != base]
    shutil.copytree(base, yard.here / "run")
    name = damage(Target(yard.here / "run", yard.victim, others, rng))
    words = folder_words(Path("run"), base, rng)
    return Case(damage.__name__.replace("_", " "), f"{name} of {base.name}", words, base, damaged=name)


def damaged_cache(yard: Yard, rng: Random) -> Case:
    """A run that shares a cache in which one thing is damaged."""
    shutil.copytree(yard.path / "cache", yard.here / "cache")
    damage = rng.choice(OF_BYTES)
    name = damage(Target(yard.here / "cache", yard.victim, yard.bases, rng))
    words = ["run", *TINY, "--learner", "ewc", "--cache", "cache", "--out", "run"]
    return Case("cache", f"{damage.__name__} {name}", words)


def named_folder(yard: Yard, rng: Random) -> Case:
    """A command on an undamaged folder of an odd name."""
    base, name = rng.choice(yard.bases), rng.choice(NAMES)
    if len(name) < 256:
        shutil.copytree(base, yard.here / name)
    folder = Path(name if rng.random() < 0.5 else f"./{name}")
    return Case("name of the folder", repr(name), folder_words(folder, base, rng), base, folder)


def folder_words(folder: Path, base: Path, rng: Random) -> list[str]:
    """A command on a run folder; what it would learn is as the undamaged folder has it."""
    path, run = str(folder), ["run", "--no-tensorboard", "--device", "cpu"]
    choices = [
        ["show", path],
        ["show", path, "--json"],
        ["evaluate", path, "--device", "cpu"],
        ["evaluate", path, "--device", "cpu"],
        ["evaluate", path, "--device", "cpu", "--re-evaluate"],
        [*run, "--config", str(base), "--out", path],
        [*run, "--config", path, "--dry"],
        ["table", path, "--format", rng.choice(["md", "tex", "csv", "rliable"])],
        ["table", path, "--table", rng.choice(["main", "tasks", "thresholds", "single", "aux"])],
    ]
    slow = [
        ["report", path, "--no-videos"],
        ["report", path],
        ["run", *TINY, "--learner", "naive", "--reference", path, "--out", "new"],
    ]
    return rng.choice(slow if rng.random() < 0.05 else choices)


def bad_words(yard: Yard, rng: Random) -> Case:
    """A command with flags and values that make no sense, or little."""
    base = rng.choice(yard.bases)
    shutil.copytree(base, yard.here / "run")
    name = rng.choice([*SETTINGS, "run", "run", "expert", "help", rng.choice(VALUES)])
    words = [name, *first_words(name, rng)]
    flags = sorted(words_of(SETTINGS[name]).flags) if name in SETTINGS else ["--x"]
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
        flag, value = rng.choice([*flags, *flags, *flags, "--nonsense"]), rng.choice([*VALUES, *NUMBERS, *NUMBERS])
        words += rng.choice(
            [[flag, value], [flag, value], [flag, value], [f"{flag}={value}"], [flag], [flag, value, value]]
        )
    if name == "run" and any(is_large(word) for word in words[1 + len(TINY) :]):
        words.append("--dry")  # large, right, and long
    return Case(f"words after {name}" if name in SETTINGS else "words", "", words, base)


def first_words(name: str, rng: Random) -> list[str]:
    """What stands right after a command."""
    if name == "run":
        return list(TINY)
    if name == "data":  # another suite's data would be made
        return [rng.choice(["list", "build", "check"]), rng.choice(["toy", "x", "toy-continuous"])]
    if name == "sweep":
        return [rng.choice(VALUES), "--dry"]
    if name in ("evaluate", *READING):
        return [rng.choice(["run", rng.choice(VALUES)])]
    return [rng.choice(VALUES)] * rng.randrange(2)


def is_large(word: str) -> bool:
    """Whether this is a number of steps, episodes or tasks that would take long."""
    return word.rpartition("=")[2].isdigit() and int(word.rpartition("=")[2][:9]) > 3


def bad_grid(yard: Yard, rng: Random) -> Case:
    """A grid with one line that makes no sense, or little."""
    lines = GRID.splitlines()
    at = rng.randrange(len(lines))
    name, raw = lines[at].partition(" = ")[0], rng.choice(TOML)
    flags = sorted(words_of(SETTINGS["run"]).flags)
    instead = [
        f"{name} = {raw}",
        f"{rng.choice(flags)[2:].replace('-', '_')} = {raw}",
        raw,
        "",
        f"out = {raw}",
        f"[[{raw}]]",
    ]
    lines[at : at + rng.randrange(2)] = [rng.choice(instead)]
    content = "\n".join(lines).encode("utf-8", "surrogateescape")
    if rng.random() < 0.2:
        content = content[: rng.randrange(len(content))] + rng.choice(
            [b"", b"\xff", b"\x00", b"a." * 10_000 + b"a = 1"]
        )
    (yard.here / "grid.toml").write_bytes(content)
    return Case("grid", "", ["sweep", "grid.toml", "--dry"])
