"""A sweep: carries out the runs of a grid that are not there yet, and tells how each of them ended."""

import shlex
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder
from holdfast.runs.progress import Screen
from holdfast.study.grid import Job
from holdfast.study.subprocess import Attempt, End, Engine, Progress

ATTEMPTS = 2
PAUSE = 0.1  # seconds between two looks at the runs
PATIENCE = 30.0  # seconds until a run that another process is working on is tried again
State = Literal["there", "done", "failed"]


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    job: Job
    state: State
    log: Path
    seconds: float = 0.0
    reason: str = ""

    @property
    def recalled(self) -> int:
        """How many of its fits were recalled, not trained."""
        return sum(event["kind"] == "recall" for event in RunFolder(self.job.path).events())


class Sweep:
    """Starts runs where there is room, looks at all that are under way, tries a failed one once more."""

    def __init__(self, jobs: Sequence[Job], engine: Engine, logs: Path, screen: Screen) -> None:
        self.jobs, self.engine, self.logs, self.screen = jobs, engine, logs, screen
        self.waiting: deque[Job] = deque()
        self.elsewhere: list[tuple[Job, float]] = []  # another process works on them; when to try again
        self.running: dict[str, tuple[Job, Attempt, float]] = {}
        self.failures: Counter[str] = Counter()
        self.results: dict[str, Result] = {}

    def carry_out(self) -> list[Result]:
        """All runs; interrupted, those under way are stopped, and the same sweep goes on with them."""
        self.waiting.extend(self.jobs)
        try:
            while self.waiting or self.running or self.elsewhere:
                while self.waiting and len(self.running) < self.engine.places:
                    self._start(self.waiting.popleft())
                for job, attempt, began in list(self.running.values()):
                    self._look(job, attempt, began)
                self._look_elsewhere()
                self.screen.show("sweep", len(self.results), len(self.jobs))
                time.sleep(PAUSE)
        finally:
            for _, attempt, _ in self.running.values():
                attempt.stop()
        return [self.results[job.name] for job in self.jobs]

    def _start(self, job: Job) -> None:
        if complete(job):
            self.results[job.name] = Result(job, "there", self._log(job))
        else:
            self.running[job.name] = job, self.engine.start(job, self._log(job)), time.monotonic()

    def _look(self, job: Job, attempt: Attempt, began: float) -> None:
        seen = attempt.look()
        if isinstance(seen, Progress):
            self.screen.show(job.name, seen.steps, job.steps, seen.note)
            return
        del self.running[job.name]
        self.screen.drop(job.name)
        if seen.how == "success" and complete(job):
            self.results[job.name] = Result(job, "done", self._log(job), time.monotonic() - began)
        elif seen.how == "busy":
            self.screen.show(job.name, 0, job.steps, "another process is working on it")
            self.elsewhere.append((job, time.monotonic() + PATIENCE))
        else:
            self._fail(job, seen)

    def _fail(self, job: Job, end: End) -> None:
        """Tries a run once more, unless a user or we must put something right first."""
        self.failures[job.name] += 1
        again = end.how not in ("mistake", "defect") and self.failures[job.name] < ATTEMPTS
        if again or complete(job):  # by another process, in the meantime
            self.waiting.appendleft(job)
        else:
            reason = end.reason or "it ended, but its folder is not complete"
            self.results[job.name] = Result(job, "failed", self._log(job), reason=reason)

    def _look_elsewhere(self) -> None:
        """Takes runs back that another process has completed, or has had long enough."""
        back = [job for job, until in self.elsewhere if complete(job) or until <= time.monotonic()]
        self.elsewhere = [(job, until) for job, until in self.elsewhere if job not in back]
        for job in back:
            self.screen.drop(job.name)
            self.waiting.append(job)

    def _log(self, job: Job) -> Path:
        return self.logs / f"{job.name}.log"


def complete(job: Job) -> bool:
    """Whether a run's folder holds all that its command would put there."""
    if not (job.path / "config.json").exists():
        return False
    try:
        folder, tasks = RunFolder(job.path), len(job.command.plan.order)
        matrix, certificates = folder.read_matrix(), folder.read_certificates()
    except Mistake:  # damaged: the run itself says how
        return False
    certified = len(certificates) == tasks * (tasks + 1) // 2
    options = job.command.options
    return folder.is_complete and certified and (not options.evaluate or evaluated(matrix, options.full_matrix))


def evaluated(matrix: Matrix | None, full: bool) -> bool:
    """Whether every task was played after every stage from its own on, or after all of them."""
    rows = matrix.returns if matrix else [[None]]
    return all(cell is not None for stage, row in enumerate(rows) for cell in (row if full else row[: stage + 1]))


def table(results: Sequence[Result]) -> Table:
    """All runs and how they ended; those that failed last, with the reason and where the log is."""
    found = Table("run", "", "recalled", "seconds", "")
    for result in sorted(results, key=lambda result: result.state == "failed"):
        if result.state == "failed":
            reason = Text(printable(f"{result.reason} (log: {shlex.quote(str(result.log))})"))
            found.add_row(result.job.name, "[red]failed", "", "", reason)
        elif result.state == "there":
            found.add_row(result.job.name, "was there", "", "", "")
        else:
            fits = f"{result.recalled} of {len(result.job.command.plan.order)}"
            found.add_row(result.job.name, "[green]done", fits, f"{result.seconds:.0f}", "")
    return found
