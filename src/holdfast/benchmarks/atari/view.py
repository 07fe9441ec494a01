"""What a video of an Atari game shows."""

from holdfast.benchmarks.atari.environments import AtariEnvironments
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.tasks.view import View


def view(task: Task, protocol: Protocol) -> View:
    """The screen as the policy sees it, twice as large, at the speed of the game."""
    environments = task.environments and task.environments(protocol)
    assert isinstance(environments, AtariEnvironments)
    emulator = environments.emulators[0]
    return View(environments, lambda: emulator.frames[-1].repeat(2, 0).repeat(2, 1)[..., None].repeat(3, 2), rate=15)
