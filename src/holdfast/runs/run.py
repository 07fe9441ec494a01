"""A run: learn each task, certify it, evaluate all tasks so far, save."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.session import threads
from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.evaluation.matrix import Matrix
from holdfast.learners.learner import Datasets, Learner
from holdfast.registry import check_plugins
from holdfast.runs.configure import learner_for, read_plan, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.restore import restore
from holdfast.runs.results import Results, empty_matrix
from holdfast.runs.session import cache_of, open_session
from holdfast.tasks.suite import Suite, check_suite
from holdfast.tasks.task import Task
from holdfast.training.ranks import ranks

DEFAULT = Options()


def run(suite: Suite, learner: Learner, path: str | Path, options: Options = DEFAULT) -> Matrix:
    """Learns the suite's tasks in order and returns the results; if interrupted, the same call continues the run."""
    suite = agreed(suite, learner)
    if not learner.learned:
        learner.check_capacity(suite.interface, len(suite.tasks))  # before there is a folder
    if ranks().is_first:
        return lead(suite, learner, Path(path), options)
    return follow(suite, learner, Path(path))


def lead(suite: Suite, learner: Learner, path: Path, options: Options) -> Matrix:
    """Carries out the run and keeps its record."""
    cache = cache_of(options)  # before there is a folder
    with RunFolder(path, learner.plan) as folder:
        ranks().wait()  # the other ranks read the folder from here on
        check_fresh(learner, folder)
        with open_session(folder, learner, suite.tasks, options, cache) as session:
            if folder.learned < len(suite.tasks):
                suite.load()
            results = Results(session, suite)
            for tasks in taught_together(suite, learner):
                stage = suite.names.index(tasks[-1].name)
                if folder.learned <= stage:
                    for known in suite.tasks[: stage + 1]:
                        folder.check_data(known)
                    session.learn(tasks, datasets_of(suite.tasks), results.curve(tasks))
                session.certify(stage)
                results.evaluate(stage)
            folder.store.remove_state()
            results.close()
            ranks().wait()
            return results.matrix


def follow(suite: Suite, learner: Learner, path: Path) -> Matrix:
    """Trains along with the first rank, which alone writes and evaluates."""
    ranks().wait()
    folder = RunFolder(path)
    check_fresh(learner, folder)
    with threads(folder.record["threads"]):
        if 0 < folder.learned < len(suite.tasks) and not learner.learned:
            restore(learner, folder, suite.tasks, folder.learned - 1)
        for tasks in taught_together(suite, learner):
            if tasks[0].name in suite.names[folder.learned :]:
                learner.learn_all(tasks, datasets_of(suite.tasks))
    ranks().wait()
    return RunFolder(path).read_matrix() or empty_matrix(suite, learner)


def taught_together(suite: Suite, learner: Learner) -> list[Sequence[Task]]:
    """The tasks of each call of the learner: all in one if it is joint, otherwise one after another."""
    return [suite.tasks] if learner.joint else [[task] for task in suite.tasks]


def datasets_of(tasks: Sequence[Task]) -> Datasets:
    """Loads the data of these tasks by name."""
    known = {task.name: task for task in tasks}
    return lambda name: known[name].dataset


def agreed(suite: Suite, learner: Learner) -> Suite:
    """The suite, with the data that the learner was made for; raises unless it was made for this suite."""
    check_suite(suite)
    if not isinstance(learner, Learner):
        raise Mistake(f"a learner is needed, got {shown(learner)}: holdfast.learner(name, suite) makes one")
    if learner.plan is None:
        raise Mistake("a run needs a learner that was made by name: holdfast.learner(name, suite) makes one")
    if (suite.name, suite.names) != (learner.plan.suite, list(learner.plan.order)):
        ours, theirs = ", ".join(suite.names), ", ".join(learner.plan.order)
        raise Mistake(f"the learner is for {learner.plan.suite} ({theirs}), not for {suite.name} ({ours})")
    return suite.with_data(learner.plan.choice)


def check_fresh(learner: Learner, folder: RunFolder) -> None:
    """Raises if the learner has learned something that the run folder does not know of."""
    if learner.learned and learner.learned != folder.store.learned[: max(len(learner.learned), folder.learned)]:
        raise Mistake(
            f"this learner has learned {', '.join(learner.learned)} elsewhere: a run begins with a new learner"
        )


def reopen(path: str | Path, device: str = "auto", suite: Suite | None = None) -> tuple[Suite, Learner]:
    """The suite and the learner of a run folder, with all that was learned there, its certificates checked."""
    folder = RunFolder(path)
    check_plugins(folder.record["plugins"])
    folder.check_weights()
    plan = read_plan(folder.record["config"])
    suite = suite or suite_for(plan)
    learner = learner_for(plan, suite, device)
    if folder.store.learned:
        restore(learner, folder, suite.tasks, len(folder.store.learned) - 1)
    return suite, learner
