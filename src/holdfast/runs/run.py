"""A run: learn each task, certify and evaluate all so far, keep."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate, changed, fingerprint
from holdfast.evaluation.matrix import Matrix, reference
from holdfast.evaluation.remembered import evaluate_once
from holdfast.evaluation.rollouts import Evaluation
from holdfast.learners.configure import learner_for, read_plan, suite_for
from holdfast.learners.learner import Learner
from holdfast.learners.memo import Memo, NoMemo
from holdfast.learners.team import team
from holdfast.runs.folder import RunFolder
from holdfast.runs.memo import DiskMemo
from holdfast.runs.recorder import Board, FolderRecorder, Screen
from holdfast.suites.task import Suite


@dataclass(frozen=True)
class Options:
    """How a run is carried out; none of this changes what is learned."""

    evaluate: bool = True
    """Evaluate after every task; without, `holdfast evaluate` does it later."""
    re_evaluate: bool = False
    """Play every episode again, also where policy and episodes are the same to the bit as a stage before."""
    full_matrix: bool = False
    """Evaluate tasks that are not learned yet as well; such entries are in no metric."""
    single: Path | None = None
    """A run of the learner `single` to measure forward transfer against."""
    memo: Path | None = None
    """A folder of finished fits and evaluations that runs share: what was done before, to the bit, is recalled."""
    save_every: float = 30.0
    """Seconds after which a running fit is saved."""
    tensorboard: bool = find_spec("tensorboard") is not None
    """Write TensorBoard event files; by default where tensorboard is installed."""


DEFAULT = Options()
TOGETHER = 5  # tasks that are played at once, each in simulators of its own


def run(suite: Suite, learner: Learner, path: str | Path, options: Options = DEFAULT) -> Matrix:
    """Learns the suite's tasks in order and returns the results; interrupted, the same call goes on."""
    check_belongs(suite, learner)
    return (lead if team().leads else follow)(suite, learner, Path(path), options)


def lead(suite: Suite, learner: Learner, path: Path, options: Options) -> Matrix:
    """The run, and its record."""
    memo = DiskMemo(options.memo) if options.memo else NoMemo()
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(path, learner.plan))
        team().wait()  # the others read it from here on
        check_fresh(learner, suite.names[: folder.learned])
        stack.enter_context(threads(folder.record["threads"]))
        screen = stack.enter_context(Screen())
        board = stack.enter_context(Board(folder)) if options.tensorboard else None
        record = Record(folder, suite, learner, screen, options, memo)
        for stage, task in enumerate(suite.tasks):
            if stage == folder.learned:
                record.bring_learner_to(stage - 1)
                for known in suite.tasks[: stage + 1]:
                    folder.check_data(known.name, known.dataset)
                folder.begin_task(task.name)
                learner.learn(task, FolderRecorder(folder, screen, stage, task.name, options.save_every, board, memo))
                record.commit(stage)
            record.certify(stage)
            if options.evaluate:
                record.evaluate(stage)
        folder.complete()
        record.close()
        team().wait()
        return record.matrix


def follow(suite: Suite, learner: Learner, path: Path, options: Options) -> Matrix:
    """Trains along with the process that leads, which alone writes and evaluates."""
    team().wait()
    folder = RunFolder(path)
    check_fresh(learner, suite.names[: folder.learned])
    with threads(folder.record["threads"]):
        if 0 < folder.learned < len(suite.tasks) and not learner.learned:
            learner.restore(folder.snapshot(folder.learned - 1))
        for task in suite.tasks[folder.learned :]:
            learner.learn(task)
    team().wait()
    return RunFolder(path).read_matrix() or empty_matrix(suite, learner)


def check_belongs(suite: Suite, learner: Learner) -> None:
    """Raises unless the learner was made for this suite."""
    if (suite.name, suite.names) != (learner.plan.suite, list(learner.plan.order)):
        ours, theirs = ", ".join(suite.names), ", ".join(learner.plan.order)
        raise Mistake(f"the learner is for {learner.plan.suite} ({theirs}), not for {suite.name} ({ours})")


def check_fresh(learner: Learner, known: Sequence[str]) -> None:
    """Raises if the learner has learned something that the run folder does not know of."""
    if learner.learned and learner.learned != list(known):
        raise Mistake(
            f"this learner has learned {', '.join(learner.learned)} elsewhere: a run begins with a new learner"
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """The processor's threads, for a while: sums, and so bits, depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Record:
    """Certificates and results of a run, stage by stage, as they are on disk."""

    def __init__(
        self, folder: RunFolder, suite: Suite, learner: Learner, screen: Screen, options: Options, memo: Memo
    ) -> None:
        self.folder, self.suite, self.learner, self.screen = folder, suite, learner, screen
        self.options, self.memo = options, memo
        self.certificates = folder.read_certificates()
        self.matrix = folder.read_matrix() or empty_matrix(suite, learner)
        self.protocol = learner.plan.protocol
        if options.single:
            self.matrix.single = single_results(options.single, suite.names)

    def bring_learner_to(self, stage: int) -> None:
        """The learner as it was after a stage; one that retains may know later tasks as well."""
        known = len(self.learner.learned) - 1
        if stage >= 0 and known != stage and not (self.learner.retains and known > stage):
            self.learner.restore(self.folder.snapshot(stage))

    def commit(self, stage: int) -> None:
        """Keeps what was just learned, with certificates, unless it changed a task that must stay as it was."""
        found = self._fingerprinted(stage)
        earlier = [known for known in self.certificates if known.stage < stage]
        if self.learner.retains and (moved := changed([*earlier, *found])):
            raise Mistake(
                f"learning {self.suite.names[stage]} changed {moved[0].task}, which must stay equal to the bit (a "
                "fault in the learner or in this machine): it is not kept, and the run is as it was before"
            )
        self.folder.commit(self.learner.snapshot(), newest_only=self.learner.retains)
        self._certify(stage, found)

    def certify(self, stage: int) -> None:
        """Fingerprints every task learned by a stage, unless that is done; policies of a later one prove nothing."""
        if len(self._fingerprints(stage)) <= stage:
            self.bring_learner_to(stage)
            if len(self.learner.learned) == stage + 1:
                self._certify(stage, self._fingerprinted(stage))

    def _fingerprinted(self, stage: int) -> list[Certificate]:
        names = self.suite.names[: stage + 1]
        return [Certificate(stage, name, fingerprint(self.learner.policy(name))) for name in names]

    def _certify(self, stage: int, found: Sequence[Certificate]) -> None:
        self.certificates = [known for known in self.certificates if known.stage != stage] + [*found]
        self.folder.write_certificates(self.certificates)
        self.folder.event("certify", stage=stage, tasks=self._fingerprints(stage))

    def evaluate(self, stage: int) -> None:
        """Plays every task learned so far, or carries a result over where nothing changed since it was played."""
        wanted = len(self.suite.tasks) if self.options.full_matrix else stage + 1
        again = self.options.re_evaluate
        missing = [index for index in range(wanted) if again or self.matrix.returns[stage][index] is None]
        origins = {index: self._unchanged_since(stage, index) for index in missing}
        for done, (index, told) in enumerate(self._results(stage, origins), wanted - len(missing) + 1):
            task, mean = self.suite.names[index], float(np.mean(self.matrix.returns[stage][index]))
            self.folder.event("evaluate", stage=stage, task=task, mean=mean, **told)
            self._keep()
            self.screen.show(f"evaluate after {self.suite.names[stage]}", done, wanted, f"{task} {mean:.4g}")

    def _results(self, stage: int, origins: dict[int, int | None]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Enters these tasks' results, one after the other as they come; yields each task's index and where from."""
        for index, origin in origins.items():
            if origin is not None:
                self.matrix.carry(stage, index, origin)
                yield index, {"carried": origin, "recalled": False}
        played = [index for index, origin in origins.items() if origin is None]
        for first in range(0, len(played), TOGETHER):
            together = played[first : first + TOGETHER]
            for place, result in self._played(stage, together):
                self.matrix.record(stage, together[place], result)
                yield together[place], {"carried": None, "recalled": result.recalled}

    def _played(self, stage: int, indices: Sequence[int]) -> Iterator[tuple[int, Evaluation]]:
        """These tasks at once."""
        self.bring_learner_to(stage)
        tasks = [self.suite.tasks[index] for index in indices]
        players = [(self.learner.policy(task.name, known=stage + 1), task) for task in tasks]
        return evaluate_once(players, self.protocol, NoMemo() if self.options.re_evaluate else self.memo)

    def close(self) -> None:
        """Leaves learner and results as the last task left them."""
        self.bring_learner_to(len(self.suite.tasks) - 1)
        if self.matrix.stages:
            self._keep()

    def _keep(self) -> None:
        matrix, learner = self.matrix, self.learner
        if len(learner.learned) == self.folder.learned:  # not while an earlier stage is looked at again
            matrix.copies, matrix.accounts = learner.copies, learner.accounts()
            matrix.task_copy = {name: learner.task_copy(name) for name in learner.learned}
        matrix.bytes = self.folder.bytes(self.folder.learned - 1)
        self.folder.write_matrix(matrix)

    def _unchanged_since(self, stage: int, index: int) -> int | None:
        """The first stage whose result on a task also holds after this one: same policy, same episodes."""
        if self.options.re_evaluate or index > stage:
            return None
        task = self.suite.names[index]
        now = self._fingerprints(stage).get(task)
        same = [old for old in range(index, stage) if now and self._fingerprints(old).get(task) == now]
        return next((old for old in same if self.matrix.returns[old][index] is not None), None)

    def _fingerprints(self, stage: int) -> dict[str, str]:
        return {found.task: found.fingerprint for found in self.certificates if found.stage == stage}


def empty_matrix(suite: Suite, learner: Learner) -> Matrix:
    """The matrix of a run that has no results yet."""
    plan, targets = learner.plan, [task.target for task in suite.tasks]
    return Matrix(
        plan.suite, plan.learner, plan.preset, plan.seed, plan.budget, asdict(plan.protocol), suite.names, targets
    )


def single_results(path: Path, tasks: Sequence[str]) -> list[float]:
    """What each task reached in a run of the learner `single`."""
    matrix = RunFolder(path).read_matrix()
    if matrix is None or matrix.learner != "single":
        raise Mistake(f"{path} is not an evaluated run of the learner single")
    return reference(matrix, tasks)


def reopen(path: str | Path, device: str = "auto", suite: Suite | None = None) -> tuple[Suite, Learner]:
    """The suite and the learner of a run folder, the learner as its last task left it."""
    folder = RunFolder(path)
    plan = read_plan(folder.record["config"], suite)
    suite = suite or suite_for(plan)
    learner = learner_for(plan, suite, device)
    if folder.learned:
        learner.restore(folder.snapshot(folder.learned - 1))
    return suite, learner
