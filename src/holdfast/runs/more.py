"""One more task, learned into a finished run."""

from pathlib import Path

from holdfast.data.episodes import Dataset
from holdfast.data.validation import shown
from holdfast.errors import Mistake
from holdfast.learners.learner import Datasets, Learner, no_datasets
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.run import reopen
from holdfast.runs.session import RunSession, cache_of, open_session
from holdfast.tasks.suite import Suite
from holdfast.tasks.task import Task
from holdfast.training.ranks import ranks

DEFAULT = Options()


def learn_more(
    path: str | Path,
    task: Task,
    device: str = "auto",
    suite: Suite | None = None,
    *,
    datasets: Datasets | None = None,
    options: Options = DEFAULT,
) -> Learner:
    """Learns one more task into a finished run, with the run's learner and settings, and certifies all tasks.

    If interrupted, the same call continues. The matrix and all tables keep to the tasks of the run's plan. `suite` is
    needed if the run's suite is not registered. `datasets` loads the data of earlier tasks by name, for a learner that
    replays it; without it, the data of the suite's tasks is loaded.
    """
    if not isinstance(task, Task):
        raise Mistake(f"a holdfast.Task is needed, got {shown(task)}")
    if ranks().size > 1:
        raise Mistake("one more task is learned by one process: start it without torchrun")
    cache = cache_of(options)
    with RunFolder(path) as folder:
        suite, learner = reopen(path, device, suite)
        check_finished(folder)
        with open_session(folder, learner, suite.tasks, options, cache) as session:
            session.certify(len(folder.store.learned) - 1)  # an interrupted process may not have
            if not is_learned(folder, task):
                check_can_learn(folder, learner)
                session.learn([task], recorded_datasets(session, datasets or suite_datasets(suite)))
            folder.store.remove_state()
    return learner


def check_finished(folder: RunFolder) -> None:
    """Raises unless all tasks of the plan are learned and evaluated: the matrix is about them alone."""
    matrix = folder.read_matrix()
    if folder.learned < len(folder.order) or matrix is None or matrix.stages < len(folder.order):
        raise Mistake(f"{folder.path} is not finished: {folder.how_to_go_on()}")


def check_can_learn(folder: RunFolder, learner: Learner) -> None:
    """Raises if the learner cannot learn another task, or what it needs for it was not kept."""
    if learner.joint:
        raise Mistake(f"{folder.record['config']['learner']} learns all tasks at once: make a new run of all of them")
    folder.store.check_memory_kept()


def is_learned(folder: RunFolder, task: Task) -> bool:
    """Whether this very task is already learned; raises if another task has its name."""
    if task.name not in folder.store.learned:
        return False
    if task.name in folder.further and folder.store.index.datasets[task.name] == task.dataset.fingerprint:
        return True  # by a call that was interrupted afterwards
    raise Mistake(f"{folder.path} has already learned a task {task.name}: give the new one another name")


def suite_datasets(suite: Suite) -> Datasets:
    """Loads the data of the suite's tasks by name."""

    def load(name: str) -> Dataset:
        return suite.task(name).dataset if name in suite.names else no_datasets(name)

    return load


def recorded_datasets(session: RunSession, datasets: Datasets) -> Datasets:
    """The same datasets; raises if one is not the data that its task was learned from."""
    known = {**session.folder.record["datasets"], **session.folder.store.index.datasets}

    def load(name: str) -> Dataset:
        dataset = datasets(name)
        if known.get(name, dataset.fingerprint) != dataset.fingerprint:
            raise Mistake(f"the data of {name} is not the data that it was learned from in {session.folder.path}")
        return dataset

    return load
