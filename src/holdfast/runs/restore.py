"""A learner as a run folder has it, with the certificates of its tasks checked."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.errors import Mistake
from holdfast.evaluation.certificates import Certificate, fingerprint, format_of
from holdfast.learners.learner import Learner, Snapshot
from holdfast.runs.folder import RunFolder
from holdfast.tasks.task import Task

UNFIT = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError)  # what tensors of others raise


def with_roles(snapshot: Snapshot, learner: Learner, tasks: Sequence[Task]) -> Snapshot:
    """The snapshot; one of version 0.1 says nothing of interfaces and targets, which are those of the tasks."""
    roles = {task.name: learner.role_in(task).record() for task in tasks}
    return replace(snapshot, notes={"roles": roles, **snapshot.notes})


def restore(learner: Learner, folder: RunFolder, tasks: Sequence[Task], stage: int) -> None:
    """The learner as it was after a stage; one that retains may know later tasks as well.

    Raises if a task is not, to the bit, what its certificate says.
    """
    snapshot, certificates = with_roles(folder.snapshot(stage), learner, tasks), folder.read_certificates()
    try:
        learner.restore(snapshot)
        found = fingerprints(learner, format_of(certificates))
    except UNFIT as problem:
        raise Mistake(
            f"the weights in {folder.path} are not those of a learner with this config.json ({problem!r}): "
            "bring the folder back from a copy"
        ) from problem
    if len(found) not in (stage + 1, folder.learned) or list(found) != folder.order[: len(found)]:
        raise Mistake(
            f"{folder.path / 'weights/index.json'} says that {', '.join(found)} were learned by stage {stage}, but the "
            f"order is {', '.join(folder.order)}: bring it back from a copy"
        )
    check_certificates(found, certificates, folder)


def fingerprints(learner: Learner, format: int) -> dict[str, str]:
    """The fingerprint of every learned task, as it is now."""
    return {name: fingerprint(learner.policy(name), format) for name in learner.learned}


def check_certificates(found: dict[str, str], certificates: Sequence[Certificate], folder: RunFolder) -> None:
    """Raises unless these are the fingerprints that the certificates of the last learned task's stage have."""
    recorded = {known.task: known.fingerprint for known in certificates if known.stage == len(found) - 1}
    changed = [task for task in found if recorded.get(task, found[task]) != found[task]]
    if changed:
        raise Mistake(
            f"the policy of {changed[0]} in {folder.path} is not the one that its certificate was given for: its "
            "weights were changed after they were learned, so bring the folder back from a copy"
        )
