"""Damaged run folders and nonsense on the command line: each ends with exit code 0, or with one sentence and code 2.

python -m tests.fuzz --count 2000 --shell 50 --seed 0
python -m tests.fuzz --seed 0 --only 1234
"""

import hashlib
import io
import os
import resource
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

import tyro
from rich.console import Console
from rich.table import Table

from holdfast.cli.main import main
from holdfast.evaluation.certificates import fingerprint, verdict
from holdfast.runs.configure import learner_for, read_plan, suite_for
from holdfast.runs.folder import RunFolder
from tests.fuzz_inputs import READING, Case, Workspace, make_case

CPU, PATIENCE, MEMORY = 20, 120, 2**30  # seconds of the processor, seconds of the clock, bytes more than before
PROGRESS = ("task ", "film ", "holdfast: skipped: ")  # how lines begin that stand on stderr beside the sentence
REWRITTEN = ("config.json", "events.jsonl", "matrix.json", "certificates.json", "routes.json", "weights/index.json")
ENDS = ("exit code 0", "one sentence", "usage", "failed")


@dataclass(frozen=True)
class Outcome:
    """How a command ended; a code of none stands for a traceback, or for one that had to be stopped."""

    code: int | None
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """The lines on stderr that are no progress."""
        return [line for line in self.err.splitlines() if not line.startswith(PROGRESS)]

    @property
    def is_usage(self) -> bool:
        """Whether tyro says, in a box, how the command is used."""
        return self.code == 2 and bool(self.said) and self.said[0].startswith("╭")

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self.code == 0:
            return "exit code 0"
        return "usage" if self.is_usage else "one sentence"


class Stopped(BaseException):
    """A command took too long."""


# Commands


def in_process(words: Sequence[str]) -> Outcome:
    """The command, carried out here."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            with limited():
                main(words)
            code = 0
        except SystemExit as stop:
            code = stop.code
        except (Exception, Stopped):
            code = None
            traceback.print_exc()
    return Outcome(code, *(stream.detach().getvalue().decode("utf-8") for stream in flushed(out, err)))


def flushed(*streams: io.TextIOWrapper) -> Sequence[io.TextIOWrapper]:
    for stream in streams:
        stream.flush()
    return streams


@contextmanager
def limited() -> Iterator[None]:
    """Neither long nor with much memory."""
    alarms = {signal.SIGPROF: (signal.ITIMER_PROF, CPU), signal.SIGALRM: (signal.ITIMER_REAL, PATIENCE)}
    handlers = {number: signal.signal(number, stop) for number in alarms}
    data, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_used() + MEMORY, most))
    try:
        for timer, seconds in alarms.values():
            signal.setitimer(timer, seconds)
        yield
    finally:
        for timer, _ in alarms.values():
            signal.setitimer(timer, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_DATA, (data, most))


def stop(number: int, _: object) -> None:
    raise Stopped(signal.Signals(number).name)


def memory_used() -> int:
    """What counts towards RLIMIT_DATA."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")]
    return int(line.split()[1]) * 1024


def in_shell(words: Sequence[str]) -> Outcome:
    """The command, typed into a shell."""
    typed = f"ulimit -t {3 * CPU} -d {4 * MEMORY // 1024}; {shlex.join([sys.executable, '-m', 'holdfast', *words])}"
    try:
        done = subprocess.run(["bash", "-c", typed], capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(None, "", "Stopped: it took too long")
    err = done.stderr.decode("utf-8", "backslashreplace")
    return Outcome(None if "Traceback" in err else done.returncode, done.stdout.decode("utf-8", "replace"), err)


# Verdicts


def violations(case: Case, outcome: Outcome, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """What is wrong with how a command ended."""
    if outcome.code is None:
        yield outcome.err.strip().splitlines()[-1][:300]
    elif outcome.code not in (0, 2):
        yield f"exit code {outcome.code}"
    said = outcome.said
    if outcome.code == 2 and not outcome.is_usage and (len(said) != 1 or not said[0].startswith("holdfast: ")):
        yield f"not one sentence: {said[:3]}"
    if outcome.code == 0 and said:
        yield f"said on stderr: {said[:3]}"
    if not outcome.is_usage and (
        odd := {letter for letter in outcome.out + outcome.err if not letter.isprintable()} - {"\n"}
    ):
        yield f"printed {sorted(odd)}"
    different = sorted(name for name in before | after if before.get(name) != after.get(name))
    if wrong := [name for name in different if must_stay(name, case, outcome)]:
        yield f"made, changed or removed: {wrong[:3]}"
    if case.recomputes and outcome.code == 0 and "equal to the bit" in outcome.out and not is_true(case):
        yield "certified what is not so"
    if case.kind == "cache" and outcome.code == 0 and weights(Path("run")) != weights(Path("../bases/new-ewc")):
        yield "learned something else"


def must_stay(name: str, case: Case, outcome: Outcome) -> bool:
    """Whether a command has no reason to change this file."""
    place, _, inner = name.partition("/")
    if place != "here":
        return True
    inside = inner.removeprefix(f"{case.folder}/")
    if inside == inner:  # beside the folder, where --out may lead
        return False
    if case.words[0] in READING or (case.words[0] == "run" and "--dry" in case.words):
        return True
    if outcome.code == 2:
        return inside not in (case.damaged, "events.jsonl", "config.json")  # where it is noted what is begun
    return inside not in (case.damaged, *REWRITTEN) and not case.learns_on


def is_true(case: Case) -> bool:
    """Whether policies are, to the bit, those of the undamaged folder, which did not change any."""
    assert case.base
    unchanged = "equal to the bit" in verdict(RunFolder(case.base).read_certificates())
    return unchanged and fingerprints(case.folder) == fingerprints(case.base)


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


def state(root: Path) -> dict[str, str]:
    """What every file and link under a folder is, as a hash of it."""
    found = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            content = os.readlink(path) if stat.S_ISLNK(mode) else str(stat.S_IFMT(mode))
            if stat.S_ISREG(mode):
                with path.open("rb") as file:
                    content = hashlib.sha256(file.read(2**22)).hexdigest()
            found[str(path.relative_to(root))] = content
    return found


# All of it


@dataclass(frozen=True)
class Fuzz:
    """Try inputs, count what they gave, and print every failure with the command that repeats it."""

    count: int = 2000
    """Inputs that are tried in this process."""
    shell: int = 50
    """Inputs that are tried in a shell."""
    seed: int = 0
    """Seed of the inputs."""
    only: int | None = None
    """Number of the one input to try, and to tell all about."""


def tried(workspace: Workspace, seed: int, number: int, shell: bool = False) -> tuple[Case, Outcome, list[str]]:
    """One input, how the command ended, and what is wrong with that."""
    case = make_case(workspace, Random(f"{seed}-{number}"))
    before = state(workspace.path)
    with chdir(workspace.here):
        sayable = "\x00" not in "".join(case.words)  # a shell cannot say it
        outcome = in_shell(case.words) if shell and sayable else in_process(case.words)
        return case, outcome, list(violations(case, outcome, before, state(workspace.path)))


def say(text: str) -> None:
    """Prints a line that may hold anything."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def fuzz(settings: Fuzz, workspace: Workspace) -> int:
    """Tries inputs and prints what they gave; returns how many failed."""
    numbers = range(settings.count + settings.shell) if settings.only is None else [settings.only]
    given: Counter[tuple[str, str]] = Counter()
    failed = 0
    for number in numbers:
        case, outcome, wrong = tried(workspace, settings.seed, number, shell=number >= settings.count)
        given[case.kind, "failed" if wrong else outcome.end] += 1
        if wrong or settings.only is not None:
            failed += bool(wrong)
            repeat = f"--count {settings.count} --seed {settings.seed} --only {number}"
            say(f"python -m tests.fuzz {repeat}: {case.kind}, {case.about}")
            say(f"  holdfast {shlex.join(case.words)[:300]!r}\n  {wrong}")
    if settings.only is not None:
        say(f"exit code {outcome.code}\n{outcome.out}\n{outcome.err}")
    Console(width=100).print(summary(given))
    say(f"seed {settings.seed}, {len(numbers)} inputs, {failed} failed")
    return failed


def summary(given: Counter[tuple[str, str]]) -> Table:
    """What each kind of input gave."""
    table = Table("input", *ENDS)
    for kind in sorted({kind for kind, _ in given}):
        table.add_row(kind, *(str(given[kind, end]) for end in ENDS))
    totals = Counter(end for _, end in given.elements())
    table.add_row("all", *(str(totals[end]) for end in ENDS))
    return table


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as path:
        workspace = Workspace(Path(path))
        workspace.fill()
        raise SystemExit(bool(fuzz(tyro.cli(Fuzz), workspace)))
