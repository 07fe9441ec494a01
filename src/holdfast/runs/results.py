"""Certificates and results of a run, stage by stage, as they are on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BrokenRetention, Mistake
from holdfast.evaluation.cached import evaluate_once
from holdfast.evaluation.certificates import Certificate, changed
from holdfast.evaluation.matrix import Matrix, reference
from holdfast.evaluation.rollouts import Evaluation
from holdfast.learners.learner import Learner
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.progress import Screen
from holdfast.runs.restore import fingerprints, restore
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Suite
from holdfast.training.cache import Cache, NoCache

TOGETHER = 5  # tasks that are played at once, each in simulators of its own


class Record:
    """What is known of a run, and made known."""

    def __init__(
        self, folder: RunFolder, suite: Suite, learner: Learner, screen: Screen, options: Options, cache: Cache
    ) -> None:
        self.folder, self.suite, self.learner, self.screen = folder, suite, learner, screen
        self.options, self.cache = options, cache
        self.certificates = folder.read_certificates()
        self.matrix = folder.read_matrix() or empty_matrix(suite, learner)
        self.protocol = learner.plan.protocol
        if options.reference:
            self.matrix.single = single_results(options.reference, suite, learner.plan.protocol)

    def bring_learner_to(self, stage: int) -> None:
        """The learner as it was after a stage; one that retains may know later tasks as well."""
        known = len(self.learner.learned) - 1
        if stage >= 0 and known != stage and not (self.learner.retains and known > stage):
            restore(self.learner, self.folder, stage)

    def commit(self, stage: int) -> None:
        """Keeps what was just learned, with certificates, unless it changed a task that must stay as it was."""
        found = self._fingerprinted(stage)
        earlier = [known for known in self.certificates if known.stage < stage]
        if self.learner.retains and (moved := changed([*earlier, *found])):
            raise BrokenRetention(
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
        return [Certificate(stage, name, found) for name, found in fingerprints(self.learner).items()]

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
        name = f"task {stage + 1} of {len(self.suite.tasks)}: evaluate"
        if missing:
            self.screen.show(name, wanted - len(missing), wanted)
        for done, (index, told) in enumerate(self._results(stage, origins), wanted - len(missing) + 1):
            task, mean = self.suite.names[index], float(np.mean(self.matrix.returns[stage][index]))
            self.folder.event("evaluate", stage=stage, task=task, mean=mean, **told)
            self._keep()
            self.screen.show(name, done, wanted, f"{task} {mean:.4g}")

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
        return evaluate_once(players, self.protocol, NoCache() if self.options.re_evaluate else self.cache)

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


def single_results(path: Path, suite: Suite, protocol: Protocol) -> list[float]:
    """What each task reached in a run of the learner `single`, with the same targets and in the same protocol."""
    matrix = RunFolder(path).read_matrix()
    if matrix is None or matrix.learner != "single":
        raise Mistake(f"{path} is not an evaluated run of the learner single")
    targets = {task.name: task.target for task in suite.tasks}
    same = all(targets.get(task, target) == target for task, target in zip(matrix.tasks, matrix.targets, strict=True))
    if not same or (matrix.suite, matrix.protocol["name"]) != (suite.name, protocol.name):
        raise Mistake(f"{path} is no reference for this run: its suite, protocol or targets are others")
    return reference(matrix, suite.names)
