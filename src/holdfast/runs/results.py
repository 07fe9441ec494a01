"""The results of a run, evaluated stage by stage."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import Mistake
from holdfast.evaluation.cached import evaluate_once
from holdfast.evaluation.curves import CurvePoint, Curves
from holdfast.evaluation.learning_curve import LearningCurve
from holdfast.evaluation.matrix import Matrix, reference
from holdfast.evaluation.offline import offline_score
from holdfast.evaluation.rollouts import Evaluation
from holdfast.learners.learner import Learner, Snapshot
from holdfast.nets.policy import Policy
from holdfast.runs.folder import RunFolder
from holdfast.runs.session import RunSession
from holdfast.tasks.environments import Protocol
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.cache import NoCache

TOGETHER = 5  # tasks that are evaluated in parallel, each in its own simulators


class Results:
    """The results of a run so far; evaluates what is missing."""

    def __init__(self, session: RunSession, suite: Suite) -> None:
        self.session, self.suite = session, suite
        self.folder, self.learner, self.options = session.folder, session.learner, session.options
        self.protocol = self.learner.plan.protocol
        self.matrix = self.folder.read_matrix() or empty_matrix(suite, self.learner)
        if self.options.reference:
            self.matrix.single, self.matrix.single_curves = single_results(self.options.reference, suite, self.protocol)

    def evaluate(self, stage: int) -> None:
        """Evaluates the tasks that the options ask for; a result is carried over if its policy did not change."""
        asked = self._asked(stage)
        missing = [task for task in asked if self.options.re_evaluate or not self._has_result(stage, task)]
        place = "" if self.learner.joint else f"task {stage + 1} of {len(self.suite.tasks)}: "
        name, done = f"{place}evaluate", len(asked) - len(missing)
        if missing:
            self.session.screen.show(name, done, len(asked))
        for task, value in self._results(stage, missing):
            done += 1
            self._keep()
            self.session.screen.show(name, done, len(asked), f"{task} {value:.4g}")

    def curve(self, tasks: Sequence[Task]) -> LearningCurve | None:
        """The learning curve of a task that is about to be trained, if it is asked for and the task can be played."""
        task = tasks[0]
        if len(tasks) > 1 or not task.environments:
            return None
        known = [point.at for point in self.matrix.curves.get(task.name, [])]
        missing = [share for share in self.options.evaluate_at if share not in known]
        return LearningCurve(task, missing, self.protocol, self.session.cache, partial(self._keep_point, task.name))

    def _keep_point(self, task: str, point: CurvePoint, step: int) -> None:
        index, success = self._index(task), float(np.mean(point.successes))
        self.matrix.record_point(index, point)
        self._keep()
        self.folder.event("curve", stage=index, task=task, at=point.at, step=step, success=success)

    def _asked(self, stage: int) -> list[Task]:
        """The tasks that the options ask for after a stage, and those whose result is carried over at no cost."""
        tasks = self.suite.tasks
        asked = self.options.tasks_after(stage, len(tasks), self.suite.spec.ends)
        if not asked:
            return []
        unchanged = [index for index in range(stage) if self._unchanged_since(stage, tasks[index]) is not None]
        return [tasks[index] for index in sorted({*asked, *unchanged})]

    def _has_result(self, stage: int, task: Task) -> bool:
        """Whether a task has its result after a stage, or cannot be evaluated at all."""
        if task.environments:
            return self.matrix.returns[stage][self._index(task.name)] is not None
        return task.held_out is None or self.matrix.scores[stage][self._index(task.name)] is not None

    def _index(self, task: str) -> int:
        return self.suite.names.index(task)

    def _results(self, stage: int, tasks: Sequence[Task]) -> Iterator[tuple[str, float]]:
        """Records the results of these tasks as they arrive; yields each task's name and its mean return or score."""
        origins = {task.name: self._unchanged_since(stage, task) for task in tasks}
        for name, origin in origins.items():
            if origin is not None:
                self.matrix.carry(stage, self._index(name), origin)
                yield name, self._report(stage, name, carried=origin, recalled=False)
        changed = [task for task in tasks if origins[task.name] is None]
        for task in changed:
            if not task.environments:
                self.matrix.record_score(stage, self._index(task.name), self._score(stage, task))
                yield task.name, self._report(stage, task.name, carried=None)
        played = [task for task in changed if task.environments]
        for first in range(0, len(played), TOGETHER):
            for name, result in self._played(stage, played[first : first + TOGETHER]):
                self.matrix.record(stage, self._index(name), result)
                yield name, self._report(stage, name, carried=None, recalled=result.recalled)

    def _report(self, stage: int, task: str, **source: Any) -> float:
        """Writes the event of a result, and returns the mean return or the score."""
        returns, score = (cells[stage][self._index(task)] for cells in (self.matrix.returns, self.matrix.scores))
        if returns is None:
            self.folder.event("score", stage=stage, task=task, score=score, **source)
            return next(iter(score.values()))
        mean = float(np.mean(returns))
        self.folder.event("evaluate", stage=stage, task=task, mean=mean, **source)
        return mean

    def _played(self, stage: int, tasks: Sequence[Task]) -> Iterator[tuple[str, Evaluation]]:
        """Evaluates these tasks in parallel."""
        self.session.bring_learner_to(stage)
        players = [(self._policy(task, stage), task) for task in tasks]
        return evaluate_once(players, self.protocol, NoCache() if self.options.re_evaluate else self.session.cache)

    def _score(self, stage: int, task: Task) -> dict[str, float]:
        """The offline score of a task without an environment."""
        self.session.bring_learner_to(stage)
        dataset = task.held_out_dataset
        assert dataset is not None
        return offline_score(self._policy(task, stage), dataset)

    def _policy(self, task: Task, stage: int) -> Policy:
        """The policy for a task after a stage; a task that is learned later is played by the policy of the last one."""
        learned = self.suite.names[: stage + 1]
        return self.learner.policy(task.name) if task.name in learned else self.learner.policy(learned[-1], task)

    def close(self) -> None:
        """Restores the learner as the last task left it, and writes the results."""
        self.session.bring_learner_to(len(self.folder.store.learned) - 1)
        if self.matrix.stages:
            self._keep()

    def _keep(self) -> None:
        matrix, learner = self.matrix, self.learner
        if len(learner.learned) == self.folder.learned:  # not at another stage, nor with tasks after the plan's
            matrix.copies, matrix.accounts = learner.copies, learner.accounts()
            matrix.task_copy = {name: learner.task_copy(name) for name in learner.learned}
        if self.folder.learned:
            matrix.bytes = self.folder.store.bytes(self.folder.learned - 1)
        matrix.stage_bytes = [self.folder.store.bytes(stage)["total"] for stage in range(self.folder.learned)]
        self.folder.write_matrix(matrix)

    def _unchanged_since(self, stage: int, task: Task) -> int | None:
        """The first stage whose result on a task also holds after this one: same policy, same episodes."""
        index = self._index(task.name)
        if self.options.re_evaluate or index > stage:
            return None
        now = self.session.fingerprints(stage).get(task.name)
        same = [old for old in range(index, stage) if now and self.session.fingerprints(old).get(task.name) == now]
        return next((old for old in same if self._has_result(old, task)), None)


def empty_matrix(suite: Suite, learner: Learner) -> Matrix:
    """The matrix of a run that has no results yet."""
    plan = learner.plan
    return Matrix(
        suite=plan.suite,
        learner=plan.learner,
        preset=plan.preset,
        seed=plan.seed,
        budget=plan.budget,
        protocol=asdict(plan.protocol),
        tasks=suite.names,
        targets=[task.target for task in suite.tasks],
        joint=learner.joint,
        offline=[task.name for task in suite.tasks if not task.environments],
        bytes=Snapshot({}, {}, {}).bytes(),
    )


def single_results(path: Path, suite: Suite, protocol: Protocol) -> tuple[list[float | None], Curves]:
    """The results and the learning curves of a run of the learner `single` with the same targets and protocol."""
    matrix = RunFolder(path).read_matrix()
    if matrix is None or matrix.learner != "single":
        raise Mistake(f"{path} is not an evaluated run of the learner single")
    targets = {task.name: task.target for task in suite.tasks}
    same = all(targets.get(task, target) == target for task, target in zip(matrix.tasks, matrix.targets, strict=True))
    if not same or (matrix.suite, matrix.protocol["name"]) != (suite.name, protocol.name):
        raise Mistake(f"{path} cannot be the reference of this run: its suite, protocol or targets differ")
    curves = {task: points for task, points in matrix.curves.items() if task in suite.names}
    return reference(matrix, suite.names), curves
