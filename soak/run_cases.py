"""Damaged run folders, odd names of them, and command lines and grids that make no sense."""

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from holdfast.agent.settings import flattened
from holdfast.cli.completion import words_of
from holdfast.cli.main import COMMANDS, main
from holdfast.evaluation.certificates import fingerprint, verdict
from holdfast.registry import LEARNERS
from holdfast.runs.configure import configure, learner_for, read_plan, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.study.export import export_runs
from soak.cases import Case, Workspace
from soak.commands import Outcome
from soak.damages import DAMAGES, OF_BYTES, OF_WEIGHTS, RAW, Target, stranger

OLD = Path(__file__).parents[1] / "tests" / "fixtures" / "0.1"
TINY = shlex.split(
    "--suite toy --budget smoke --fit.steps 2 --fit.batch 8 --net.width 16 --net.layers 1 --net.context 4 "
    "--protocol.episodes 2 --transitions 200 --no-tensorboard --device cpu"
)
RESUME = ["run", "--config"]
READING = ("show", "table", "report")
REWRITTEN = ("config.json", "events.jsonl", "matrix.json", "certificates.json", "routes.json", "weights/index.json")
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


def make_runs(workspace: Workspace) -> None:
    """Makes the undamaged run folders: new ones, old ones, and exported ones."""
    shutil.copytree(OLD, workspace.path / "runs")
    for learner in ("affinity-l", "ewc"):
        places = ["--cache", str(workspace.cache), "--out", str(workspace.path / "runs" / f"new-{learner}")]
        main(["run", *TINY, "--quiet", "--learner", learner, *places])
    export_runs([workspace.path / "runs" / "new-affinity-l"], workspace.path)
    (workspace.path / "new-affinity-l").rename(workspace.path / "runs" / "exported")


@dataclass(frozen=True)
class OnRun:
    """A command on a run folder."""

    words: list[str]
    base: Path | None = None  # the undamaged folder that the run is a copy of
    folder: Path = Path("run")
    damaged: str = ""  # the name in it of what is damaged

    @property
    def learns_on(self) -> bool:
        """Whether tasks are left to be learned, and weights so to be replaced."""
        return self.base is None or self.base.name.endswith("unfinished")

    @property
    def recomputes(self) -> bool:
        """Whether the fingerprints of all tasks are computed anew, and are to be those of the undamaged folder."""
        return not self.learns_on and (self.words[0] == "evaluate" or self.words[:2] == RESUME)

    def case(self, kind: str, about: str) -> Case:
        """The command as an input."""
        return Case(kind, about, self.words, self.may_change, self.check)

    def may_change(self, name: str, outcome: Outcome) -> bool:
        """Whether the command has a reason to change this file."""
        inside = name.removeprefix(f"{self.folder}/")
        if inside == name:  # beside the folder, where --out may lead
            return True
        if self.words[0] in READING or (self.words[0] == "run" and "--dry" in self.words):
            return False
        if outcome.code == 2:
            evaluated = self.words[0] == "evaluate" and inside == "matrix.json"  # what was evaluated before it ended
            return evaluated or inside in (self.damaged, "events.jsonl", "config.json")  # where it is noted what begins
        return inside in (self.damaged, *REWRITTEN) or self.learns_on

    def check(self, outcome: Outcome) -> Iterator[str]:
        """Whether what was certified is true."""
        if self.recomputes and outcome.code == 0 and "equal to the bit" in outcome.out and not self.is_true():
            yield "certified what is not so"

    def is_true(self) -> bool:
        """Whether policies are, to the bit, those of the undamaged folder, which did not change any."""
        assert self.base
        unchanged = "equal to the bit" in verdict(RunFolder(self.base).read_certificates())
        return unchanged and fingerprints(self.folder) == fingerprints(self.base)


def fingerprints(path: Path) -> dict[str, str]:
    """Computed from weights alone."""
    folder = RunFolder(path)
    plan = read_plan(folder.record["config"])
    suite, last = suite_for(plan), folder.learned - 1
    learner = learner_for(plan, suite, "cpu")
    roles = {task.name: learner.role_in(task).record() for task in suite.tasks}  # which version 0.1 did not note
    learner.restore(folder.store.snapshot(last, {"roles": roles, "routes": folder.routes_by(last)}))
    return {name: fingerprint(learner.policy(name)) for name in learner.learned}


def weights(path: Path) -> dict[str, bytes]:
    """What a run learned."""
    return {file.name: file.read_bytes() for file in (path / "weights").iterdir()}


def damaged_run(workspace: Workspace, rng: Random) -> Case:
    """A command on a folder in which one thing is damaged."""
    damage = rng.choice(DAMAGES)
    base = rng.choice([path for path in workspace.runs if damage not in OF_WEIGHTS or (path / "weights").exists()])
    others = [other for other in workspace.runs if other != base]
    shutil.copytree(base, workspace.here / "run")
    name = damage(Target(workspace.here / "run", workspace.victim, others, rng))
    damaged = "" if damage is stranger else name
    words = folder_words(Path("run"), base, rng)
    return OnRun(words, base, damaged=damaged).case("runs", f"{damage.__name__}: {name} of {base.name}")


def damaged_cache(workspace: Workspace, rng: Random) -> Case:
    """A run that shares a cache in which one thing is damaged."""
    shutil.copytree(workspace.path / "cache", workspace.here / "cache")
    damage = rng.choice(OF_BYTES)
    name = damage(Target(workspace.here / "cache", workspace.victim, workspace.runs, rng))
    words = ["run", *TINY, "--learner", "ewc", "--cache", "cache", "--out", "run"]

    def check(outcome: Outcome) -> Iterator[str]:
        if outcome.code == 0 and weights(Path("run")) != weights(workspace.path / "runs" / "new-ewc"):
            yield "learned something else"

    return Case("caches", f"{damage.__name__}: {name}", words, OnRun(words).may_change, check)


def named_folder(workspace: Workspace, rng: Random) -> Case:
    """A command on an undamaged folder of an odd name."""
    base, name = rng.choice(workspace.runs), rng.choice(NAMES)
    if len(name) < 256:
        shutil.copytree(base, workspace.here / name)
    folder = Path(name if rng.random() < 0.5 else f"./{name}")
    return OnRun(folder_words(folder, base, rng), base, folder).case("names", f"a run in {name!r}")


def folder_words(folder: Path, base: Path, rng: Random) -> list[str]:
    """A command on a run folder; what it would learn is as the undamaged folder has it."""
    path, usual = str(folder), ["--no-tensorboard", "--device", "cpu"]
    choices = [
        ["show", path],
        ["show", path, "--json"],
        ["evaluate", path, "--device", "cpu"],
        ["evaluate", path, "--device", "cpu"],
        ["evaluate", path, "--device", "cpu", "--re-evaluate"],
        [*RESUME, str(base), "--out", path, *usual],
        [*RESUME, path, "--dry", *usual],
        ["table", path, "--format", rng.choice(["md", "tex", "csv", "rliable"])],
        ["table", path, "--table", rng.choice(["main", "tasks", "thresholds", "single", "aux"])],
    ]
    slow = [
        ["report", path, "--no-videos"],
        ["report", path],
        ["run", *TINY, "--learner", "naive", "--reference", path, "--out", "new"],
    ]
    return rng.choice(slow if rng.random() < 0.05 else choices)


def bad_words(workspace: Workspace, rng: Random) -> Case:
    """A command with flags and values that make no sense, or little."""
    base = rng.choice(workspace.runs)
    shutil.copytree(base, workspace.here / "run")
    name = rng.choice([*COMMANDS, *4 * ["run"], *READING, "evaluate", "expert", "help", rng.choice(VALUES)])
    words = [name, *first_words(name, rng)]
    usual = usual_values(name, rng.choice(list(LEARNERS)))
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
        flag = rng.choice([*usual, *usual, "--nonsense"])
        value = rng.choice(NUMBERS if isinstance(usual.get(flag), int | float) and rng.random() < 0.8 else VALUES)
        words += rng.choice([[flag, value], [flag, value], [f"{flag}={value}"], [flag], [flag, value, value]])
    if name == "run":
        words += ["--learner", usual["--learner"]]
    if name == "run" and any(is_large(word) for word in words[1 + len(TINY) :]):
        words.append("--dry")  # large, right, and long
    return OnRun(words, base).case("words", f"after {name!r}")


def usual_values(name: str, learner: str) -> dict[str, Any]:
    """The flags of a command, and what each is where that is known."""
    if name == "run":
        plan = asdict(configure("toy", learner, budget="smoke"))
        known = flattened({**plan, **plan["config"], **asdict(Options()), "config": None, "out": None, "device": None})
        return {f"--{setting.replace('_', '-')}": value for setting, value in known}
    flags = sorted(words_of(name).flags) if name in COMMANDS else ["--x"]
    return dict.fromkeys(flags)


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


def bad_grid(workspace: Workspace, rng: Random) -> Case:
    """A grid with one line that makes no sense, or little."""
    lines = GRID.splitlines()
    at = rng.randrange(len(lines))
    name, raw = lines[at].partition(" = ")[0], rng.choice(TOML)
    setting = rng.choice(list(usual_values("run", "affinity-l"))).removeprefix("--").replace("-", "_")
    instead = [
        f"{name} = {raw}",
        f"{setting} = {raw}",
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
    (workspace.here / "grid.toml").write_bytes(content)
    return OnRun(["sweep", "grid.toml", "--dry"]).case("grids", f"line {at + 1}")
