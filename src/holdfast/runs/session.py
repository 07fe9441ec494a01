"""The session of a run: what a plan asks for is learned into its folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.agent.progress import Board, Screen
from holdfast.agent.session import Session, threads
from holdfast.learners.learner import Learner
from holdfast.runs.folder import RunFolder
from holdfast.runs.options import Options
from holdfast.runs.restore import older_notes
from holdfast.tasks.task import Task
from holdfast.training.cache import Cache, DiskCache, NoCache


@dataclass
class RunSession(Session[RunFolder]):
    """A run folder that this process works in."""

    tasks: Sequence[Task]  # of the plan
    options: Options

    def older_notes(self, stage: int) -> Mapping[str, Any]:
        return older_notes(self.learner, self.folder, self.tasks, stage)


@contextmanager
def open_session(
    folder: RunFolder, learner: Learner, tasks: Sequence[Task], options: Options, cache: Cache
) -> Iterator[RunSession]:
    """A session in a folder that this process holds; `tasks` are those of the plan."""
    with ExitStack() as stack:
        stack.enter_context(threads(folder.record["threads"]))
        screen = stack.enter_context(Screen(options.quiet))
        board = stack.enter_context(Board(folder)) if options.tensorboard else None
        yield RunSession(folder, learner, screen, board, cache, options.save_every, tasks, options)


def cache_of(options: Options) -> Cache:
    """The cache that the options name; raises if its folder cannot be one."""
    return DiskCache(options.cache) if options.cache else NoCache()
