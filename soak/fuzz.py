"""Damaged and forged agents, datasets, packs, runs and names: each ends with exit code 0, or one sentence and code 2.

python -m soak.fuzz --count 10000 --shell 50 --seed 0
python -m soak.fuzz --seed 0 --only 1234
"""

import hashlib
import multiprocessing
import os
import resource
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from random import Random
from threading import Thread
from typing import Any
from unittest.mock import patch

import torch
import tyro
from rich.console import Console
from rich.table import Table

from holdfast.data.minari import PLACE
from soak.agent_cases import (
    STEPS,
    damaged_agent,
    damaged_export,
    damaged_pack,
    forged_agent,
    make_agents,
    odd_words,
)
from soak.cases import Case, Workspace
from soak.commands import Outcome, called, in_process, in_shell
from soak.data_cases import (
    FORGERIES,
    METADATA,
    PLACES,
    damaged_data,
    forged_data,
    forged_metadata,
    make_data,
    odd_place,
)
from soak.run_cases import bad_grid, bad_words, damaged_cache, damaged_run, make_runs, named_folder

ENDS = ("exit code 0", "one sentence", "usage", "failed")
LONGEST = 5_000  # letters of a sentence, besides the names that were given
MOST = 3 * 2**30  # bytes of memory that a process may take, with its libraries
Maker = Callable[[Workspace, Random], Case]
RANDOM: dict[Maker, int] = {  # how often each kind of input is tried
    damaged_agent: 30,
    forged_agent: 10,
    damaged_pack: 10,
    damaged_data: 28,
    damaged_export: 5,
    odd_words: 8,
    damaged_run: 5,
    damaged_cache: 1,
    named_folder: 1,
    bad_words: 2,
    bad_grid: 1,
}
BY_HAND: list[Maker] = [
    *(partial(forged_data, name=name) for name in FORGERIES),
    *(partial(forged_metadata, name=name) for name in METADATA),
    *(partial(odd_place, place=place) for place in PLACES),
]
EACH = 3  # times that an input of those is tried, each with another command


def make_case(workspace: Workspace, seed: int, number: int) -> Case:
    """The input of this number, with the files that it needs."""
    rng = Random(f"{seed}-{number}")
    workspace.clear()
    if number < EACH * len(BY_HAND):
        return BY_HAND[number // EACH](workspace, rng)
    return rng.choices(list(RANDOM), weights=list(RANDOM.values()))[0](workspace, rng)


def fill(workspace: Workspace) -> None:
    """Makes everything that is damaged later, and a folder that no command has to do with."""
    with patch.dict("holdfast.agent.agent.BUDGETS", smoke=STEPS):
        make_data(workspace)
        make_agents(workspace)
        make_runs(workspace)
    workspace.victim.mkdir()
    (workspace.victim / "thesis.txt").write_text("years")


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
    if outcome.code == 2 and not outcome.is_usage and len(outcome.err) > LONGEST + sum(map(len, case.words)):
        yield f"a sentence of {len(outcome.err)} letters"
    if outcome.code == 0 and said:
        yield f"said on stderr: {said[:3]}"
    if not outcome.is_usage and (
        odd := {letter for letter in outcome.out + outcome.err if not letter.isprintable()} - {"\n"}
    ):
        yield f"printed {sorted(odd)}"
    different = sorted(name for name in before | after if before.get(name) != after.get(name))
    if wrong := [name for name in different if not _may_change(name, case, outcome)]:
        yield f"made, changed or removed: {wrong[:3]}"
    yield from case.check(outcome)


def _may_change(name: str, case: Case, outcome: Outcome) -> bool:
    place, _, inner = name.partition("/")
    return place == "here" and case.may_change(inner, outcome)


def state(workspace: Workspace) -> dict[str, str]:
    """What every file and link is that a command may reach, as a hash of it."""
    found = {}
    for root in (workspace.here, workspace.victim):
        for folder, folders, files in os.walk(root):
            for path in (os.path.join(folder, name) for name in (*folders, *files)):
                found[os.path.relpath(path, workspace.path)] = _content(path)
    return found


def _content(path: str) -> str:
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(about.st_mode) or about.st_size > 2**24:
        return f"{stat.S_IFMT(about.st_mode)} {about.st_size if stat.S_ISREG(about.st_mode) else 0}"
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def originals(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """The size and time of every undamaged file; a command that is told to write to ../up/x may do so."""
    named = (workspace.here, workspace.path / "up")
    files = (path for path in workspace.path.rglob("*") if path.is_file() and not any(map(path.is_relative_to, named)))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


# All of it


@dataclass(frozen=True)
class Fuzz:
    """Try inputs, count what they gave, and print every failure with the command that repeats it."""

    count: int = 10_000
    """Inputs that are tried in one process."""
    shell: int = 50
    """Inputs that are tried in a shell."""
    seed: int = 0
    """Seed of the inputs."""
    only: int | None = None
    """Number of the one input to try, and to tell all about."""
    jobs: int = 2
    """Processes that share the work."""


def tried(workspace: Workspace, seed: int, number: int, shell: bool = False) -> tuple[Case, Outcome, list[str]]:
    """One input, how the command ended, and what is wrong with that."""
    case = make_case(workspace, seed, number)
    before = state(workspace)
    with chdir(workspace.here), patch.dict("holdfast.agent.agent.BUDGETS", smoke=STEPS):
        sayable = bool(case.words) and "\x00" not in "".join(case.words)  # a shell cannot say it
        if case.action:
            outcome = called(case.action)
        elif shell and sayable:
            outcome = in_shell(case.words)
        else:
            outcome = in_process(case.words)
        return case, outcome, list(violations(case, outcome, before, state(workspace)))


@dataclass(frozen=True)
class Given:
    """What an input gave."""

    number: int
    kind: str
    end: str
    failure: str = ""
    memory: int = 0  # the most bytes that the process has taken so far


def told(case: Case, outcome: Outcome, wrong: list[str]) -> str:
    """All that a failure needs to be understood."""
    lines = [f"{case.kind}, {case.about}", f"holdfast {shlex.join(case.words)!r}", *wrong]
    return "\n  ".join(line[:300] for line in [*lines, *outcome.err.splitlines()[-6:]])


def work(workspace: Workspace, numbers: Sequence[int], settings: Fuzz, results: Connection) -> None:
    """Tries these inputs, and sends each number before and what it gave after."""
    torch.set_num_threads(1)
    os.environ[PLACE] = str(workspace.here / "data")
    before = originals(workspace)
    for number in numbers:
        results.send(number)
        case, outcome, wrong = tried(workspace, settings.seed, number, shell=number >= settings.count)
        failure = told(case, outcome, wrong) if wrong else ""
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        results.send(Given(number, case.kind, "failed" if wrong else outcome.end, failure, taken))
    if originals(workspace) != before:
        results.send(Given(numbers[-1], "all", "failed", "one of these inputs changed undamaged files"))


def carried_out(workspace: Workspace, numbers: Sequence[int], settings: Fuzz) -> Iterator[Given]:
    """What these inputs gave in a process of its own; if an input ends the process, that is said of it."""
    spawn = multiprocessing.get_context("spawn")
    while numbers:
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=work, args=(workspace, numbers, settings, sender))
        process.start()
        sender.close()
        last: Any = numbers[0]
        with suppress(EOFError):
            while True:
                found = receiver.recv()
                if isinstance(found, Given):
                    yield found
                    numbers = [number for number in numbers if number > found.number]
                last = found
        process.join()
        if isinstance(last, int):
            yield Given(last, "all", "failed", f"the process ended with code {process.exitcode}")
            numbers = [number for number in numbers if number > last]


def all_carried_out(workspace: Workspace, settings: Fuzz) -> Iterator[Given]:
    """What all inputs gave, in as many processes as settings say."""
    given: Queue[Given | None] = Queue()

    def share(job: int) -> None:
        place = workspace.path.with_name(f"{workspace.path.name}-{job}")
        shutil.copytree(workspace.path, place, symlinks=True)
        numbers = range(job, settings.count + settings.shell, settings.jobs)
        for one in carried_out(Workspace(place, workspace.expected), numbers, settings):
            given.put(one)
        given.put(None)

    threads = [Thread(target=share, args=(job,), daemon=True) for job in range(settings.jobs)]
    for thread in threads:
        thread.start()
    for _ in threads:
        while (one := given.get()) is not None:
            yield one


def fuzz(settings: Fuzz, workspace: Workspace) -> int:
    """Tries inputs and prints what they gave; returns how many failed."""
    begun, count, memory = time.monotonic(), 0, 0
    given: Counter[tuple[str, str]] = Counter()
    for one in all_carried_out(workspace, settings):
        given[one.kind, one.end] += 1
        count += 1
        memory = max(memory, one.memory)
        if one.failure:
            say(f"python -m soak.fuzz --count {settings.count} --seed {settings.seed} --only {one.number}")
            say(f"  {one.failure}")
    failed = sum(number for (_, end), number in given.items() if end == "failed")
    Console(width=100).print(summary(given))
    seconds = time.monotonic() - begun
    say(
        f"fuzz: seed {settings.seed}, {count} inputs, {settings.shell} of them in a shell, {failed} failed; "
        f"{seconds:.0f} seconds, at most {memory / 2**20:.0f} MiB of memory"
    )
    if memory > MOST:
        say("that is too much memory")
    return failed + (memory > MOST)


def one_told(settings: Fuzz, workspace: Workspace, number: int) -> int:
    """Tries one input and tells all about it."""
    case, outcome, wrong = tried(workspace, settings.seed, number, shell=number >= settings.count)
    say(told(case, outcome, wrong))
    say(f"exit code {outcome.code}\n{outcome.out}\n{outcome.err}\n{wrong}")
    return len(wrong)


def say(text: str) -> None:
    """Prints a line that may hold anything."""
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def summary(given: Counter[tuple[str, str]]) -> Table:
    """What each kind of input gave."""
    table = Table("input", *ENDS)
    for kind in sorted({kind for kind, _ in given}):
        table.add_row(kind, *(str(given[kind, end]) for end in ENDS))
    totals = Counter(end for _, end in given.elements())
    table.add_row("all", *(str(totals[end]) for end in ENDS))
    return table


def main(settings: Fuzz) -> int:
    """Fuzzes in a temporary folder; returns how many inputs failed."""
    with tempfile.TemporaryDirectory() as path:
        workspace = Workspace(Path(path) / "workspace")
        fill(workspace)
        if settings.only is not None:
            return one_told(settings, workspace, settings.only)
        return fuzz(settings, workspace)


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(bool(main(tyro.cli(Fuzz))))
