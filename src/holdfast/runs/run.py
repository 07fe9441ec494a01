"""A run: learn each task, certify and evaluate all so far, keep."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.learners.learner import Datasets, Learner
from holdfast.registry import check_plugins
from holdfast.runs.configure import learner_for, read_plan, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.progress import Board, FolderRecorder, Screen
from holdfast.runs.restore import restore
from holdfast.runs.results import Record, empty_matrix
from holdfast.runs.signals import Interruption
from holdfast.tasks.suite import Suite, check_suite
from holdfast.tasks.task import Task
from holdfast.training.cache import DiskCache, NoCache
from holdfast.training.ranks import ranks

DEFAULT = Options()


def run(suite: Suite, learner: Learner, path: str | Path, options: Options = DEFAULT) -> Matrix:
    """Learns the suite's tasks in order and returns the results; interrupted, the same call goes on."""
    suite = agreed(suite, learner)
    if not learner.learned:
        learner.check_capacity(suite.interface)  # before there is a folder
    return (lead if ranks().is_first else follow)(suite, learner, Path(path), options)


def lead(suite: Suite, learner: Learner, path: Path, options: Options) -> Matrix:
    """The run, and its record."""
    cache = DiskCache(options.cache) if options.cache else NoCache()
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(path, learner.plan))
        ranks().wait()  # the others read it from here on
        check_fresh(learner, suite.names[: folder.learned])
        stack.enter_context(threads(folder.record["threads"]))
        if folder.learned < len(suite.tasks):
            suite.load()
        screen = stack.enter_context(Screen(options.quiet))
        board = stack.enter_context(Board(folder)) if options.tensorboard else None
        record = Record(folder, suite, learner, screen, options, cache)
        for stage, task in enumerate(suite.tasks):
            if stage == folder.learned:
                record.bring_learner_to(stage - 1)
                for known in suite.tasks[: stage + 1]:
                    folder.check_data(known.name, known.dataset)
                folder.begin_task(task.name)
                with Interruption() as interruption:
                    recorder = FolderRecorder(
                        folder, screen, stage, task.name, options.save_every, board, cache, interruption
                    )
                    learner.learn(task, datasets_of(suite.tasks), recorder)
                    record.commit(stage)
                interruption.stop_if_asked(f"after task {task.name} was learned")
            record.certify(stage)
            if options.evaluate:
                record.evaluate(stage)
        folder.complete()
        record.close()
        ranks().wait()
        return record.matrix


def follow(suite: Suite, learner: Learner, path: Path, options: Options) -> Matrix:
    """Trains along with the process that leads, which alone writes and evaluates."""
    ranks().wait()
    folder = RunFolder(path)
    check_fresh(learner, suite.names[: folder.learned])
    tasks = suite.tasks
    with threads(folder.record["threads"]):
        if 0 < folder.learned < len(tasks) and not learner.learned:
            restore(learner, folder, tasks, folder.learned - 1)
        for task in tasks[folder.learned :]:
            learner.learn(task, datasets_of(tasks))
    ranks().wait()
    return RunFolder(path).read_matrix() or empty_matrix(suite, learner)


def datasets_of(tasks: Sequence[Task]) -> Datasets:
    """The data of these tasks, by name."""
    known = {task.name: task for task in tasks}
    return lambda name: known[name].dataset


def agreed(suite: Suite, learner: Learner) -> Suite:
    """The suite, with the data that the learner was made for; raises unless it was made for this suite."""
    check_suite(suite)
    if not isinstance(learner, Learner):
        raise Mistake(f"a learner is needed, got {shown(learner)}: holdfast.learner(name, suite) makes one")
    if learner.plan is None:
        raise Mistake("a run needs a learner that was made by name: holdfast.learner(name, suite) makes one")
    if not learner.plan.order:
        raise Mistake("the order names no task: name some, or leave it out")
    if (suite.name, suite.names) != (learner.plan.suite, list(learner.plan.order)):
        ours, theirs = ", ".join(suite.names), ", ".join(learner.plan.order)
        raise Mistake(f"the learner is for {learner.plan.suite} ({theirs}), not for {suite.name} ({ours})")
    return suite.with_data(learner.plan.transitions, learner.plan.data)


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


def reopen(path: str | Path, device: str = "auto", suite: Suite | None = None) -> tuple[Suite, Learner]:
    """The suite and the learner of a run folder, the learner as its last task left it, its certificates checked."""
    folder = RunFolder(path)
    check_plugins(folder.record["plugins"])
    folder.check_weights()
    plan = read_plan(folder.record["config"])
    suite = suite or suite_for(plan)
    learner = learner_for(plan, suite, device)
    if folder.learned:
        restore(learner, folder, suite.tasks, folder.learned - 1)
    return suite, learner
