"""A sweep: carries out the runs of a grid that are not complete yet, and records how each of them ended."""

import shlex
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from holdfast.agent.progress import Screen
from holdfast.data.printable import printable
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.study.jobs import Job
from holdfast.study.running import End, Engine, RunningJob, RunProgress
from holdfast.tasks.suite import suite_spec

TRIES = 2  # of a job that fails
PAUSE = 0.1  # seconds between two looks at the runs
SAVING = 10.0  # seconds for runs that are interrupted to save their work
PATIENCE = 30.0  # seconds until a run that another process is working on is tried again


@dataclass(frozen=True)
class Outcome:
    """How a run of a sweep ended."""

    job: Job
    state: Literal["there", "done", "failed"]
    log: Path
    seconds: float = 0.0
    reason: str = ""

    @property
    def recalled(self) -> int:
        """How many of its fits were read from the cache instead of trained."""
        return sum(event["kind"] == "recall" for event in RunFolder(self.job.path).events())


class Sweep:
    """Starts runs while there is room, watches those under way, and tries a failed run once more."""

    def __init__(self, jobs: Sequence[Job], engine: Engine, logs: Path, screen: Screen) -> None:
        self.jobs, self.engine, self.logs, self.screen = jobs, engine, logs, screen
        self.waiting: deque[Job] = deque()
        self.elsewhere: list[tuple[Job, float]] = []  # another process works on them; when to try again
        self.running: dict[str, tuple[Job, RunningJob, float]] = {}
        self.failures: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}

    def carry_out(self) -> list[Outcome]:
        """Carries out all runs; on an interrupt, those under way are stopped, and the same sweep resumes them."""
        self.waiting.extend(self.jobs)
        try:
            while self.waiting or self.running or self.elsewhere:
                while self.waiting and len(self.running) < self.engine.places:
                    self._start(self.waiting.popleft())
                for job, running, began in list(self.running.values()):
                    self._poll(job, running, began)
                self._look_elsewhere()
                self.screen.show("sweep", len(self.outcomes), len(self.jobs))
                time.sleep(PAUSE)
        finally:
            self._stop([running for _, running, _ in self.running.values()])
        return [self.outcomes[job.name] for job in self.jobs]

    def _stop(self, running: Sequence[RunningJob]) -> None:
        """Ends all runs; they have some seconds together to save what they are training."""
        for run in running:
            run.interrupt()
        deadline = time.monotonic() + SAVING
        for run in running:
            run.stop(max(deadline - time.monotonic(), 0.0))

    def _start(self, job: Job) -> None:
        if is_complete(job):
            self.outcomes[job.name] = Outcome(job, "there", self._log(job))
        else:
            self.running[job.name] = job, self.engine.start(job, self._log(job)), time.monotonic()

    def _poll(self, job: Job, running: RunningJob, began: float) -> None:
        seen = running.poll()
        if isinstance(seen, RunProgress):
            self.screen.show(job.name, seen.steps, job.steps, seen.note)
            return
        del self.running[job.name]
        self.screen.drop(job.name)
        if seen.how == "success" and is_complete(job):
            self.outcomes[job.name] = Outcome(job, "done", self._log(job), time.monotonic() - began)
        elif seen.how == "busy":
            self.screen.show(job.name, 0, job.steps, "another process is working on it")
            self.elsewhere.append((job, time.monotonic() + PATIENCE))
        else:
            self._fail(job, seen)

    def _fail(self, job: Job, end: End) -> None:
        """Tries a run once more, unless it would fail in the same way again."""
        self.failures[job.name] += 1
        again = end.how not in ("mistake", "defect") and self.failures[job.name] < TRIES
        if again or is_complete(job):  # another process has finished it in the meantime
            self.waiting.appendleft(job)
        else:
            reason = end.reason or "the process ended, but the run folder is not complete"
            self.outcomes[job.name] = Outcome(job, "failed", self._log(job), reason=reason)

    def _look_elsewhere(self) -> None:
        """Takes back runs that another process has completed, or has worked on for long enough."""
        back = [job for job, until in self.elsewhere if is_complete(job) or until <= time.monotonic()]
        self.elsewhere = [(job, until) for job, until in self.elsewhere if job not in back]
        for job in back:
            self.screen.drop(job.name)
            self.waiting.append(job)

    def _log(self, job: Job) -> Path:
        return self.logs / f"{job.name}.log"


def is_complete(job: Job) -> bool:
    """Whether a run folder holds everything that its command produces."""
    if not (job.path / "config.json").exists():
        return False
    try:
        folder = RunFolder(job.path)
        matrix, complete = folder.read_matrix(), folder.is_complete
    except Mistake:  # damaged: the run itself reports it
        return False
    return complete and fully_evaluated(matrix, job.spec.options, suite_spec(job.spec.plan.suite).ends)


def fully_evaluated(matrix: Matrix | None, options: Options, ends: Sequence[int]) -> bool:
    """Whether all results are there that the options ask for; `ends` are those of the suite."""
    if matrix is None:
        return options.evaluate == "none"
    count = len(matrix.tasks)
    stages = range(count - 1 if matrix.joint else 0, count)
    played = matrix.played()
    return all(
        matrix.returns[stage][task] is not None
        for stage in stages
        for task in options.tasks_after(stage, count, ends)
        if task in played
    )


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """All runs and how they ended; failed ones come last, with the reason and the path of the log."""
    table = Table("run", "", "recalled", "seconds", "")
    for outcome in sorted(outcomes, key=lambda outcome: outcome.state == "failed"):
        if outcome.state == "failed":
            reason = Text(printable(f"{outcome.reason} (log: {shlex.quote(str(outcome.log))})"))
            table.add_row(outcome.job.name, "[red]failed", "", "", reason)
        elif outcome.state == "there":
            table.add_row(outcome.job.name, "was there", "", "", "")
        else:
            fits = f"{outcome.recalled} of {len(outcome.job.spec.plan.order)}"
            table.add_row(outcome.job.name, "[green]done", fits, f"{outcome.seconds:.0f}", "")
    return table
