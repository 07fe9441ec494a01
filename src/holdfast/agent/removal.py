"""Removing a task from an agent: what only it used is free again, and all others stay equal to the bit."""

from holdfast.agent.agent_folder import AgentFolder
from holdfast.agent.changes import Update
from holdfast.agent.session import Session
from holdfast.errors import Mistake
from holdfast.learners.learner import Learner
from holdfast.learners.removing import RemovingLearner


def removable(folder: AgentFolder, learner: Learner, name: str) -> RemovingLearner:
    """The learner, which can remove this task; raises if it cannot."""
    if name not in folder.store.learned:
        known = ", ".join(folder.store.learned) or "nothing yet"
        raise Mistake(f"{folder.path} has not learned {name}: it knows {known}")
    if name in folder.order:
        raise Mistake(f"{name} is a task of the run's plan, whose tables need it: only later tasks can be removed")
    if not isinstance(learner, RemovingLearner):
        raise Mistake(
            f"{folder.plan.learner} has one network for all tasks, so none of them can be removed: "
            "rollback brings the agent back to what it was before a task was learned"
        )
    learner.check_removable(name)
    folder.store.check_memory_kept()
    return learner


def remove(session: Session[AgentFolder], name: str) -> None:
    """Forgets a task, as one change of the agent."""
    before = session.folder.store.index.number
    removable(session.folder, session.learner, name).remove(name, before + 1)
    session.commit(Update("remove", name))
    session.folder.changed(before)
