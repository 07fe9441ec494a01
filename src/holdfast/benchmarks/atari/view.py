"""Rendering of Atari games for videos."""

from holdfast.benchmarks.atari.environments import AtariEnvironments
from holdfast.tasks.environments import Protocol
from holdfast.tasks.task import Task
from holdfast.tasks.view import View


def view(task: Task, protocol: Protocol) -> View:
    """The newest frame of the policy's observation, enlarged twice, at the speed of the game."""
    environments = task.environments and task.environments(protocol)
    assert isinstance(environments, AtariEnvironments)
    emulator = environments.emulators[0]
    return View(environments, lambda: emulator.frames[-1].repeat(2, 0).repeat(2, 1)[..., None].repeat(3, 2), rate=15)
