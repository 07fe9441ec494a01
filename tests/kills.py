"""A process that dies, at one event of a run after another."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.runs.folder import RunFolder


class Killed(BaseException):
    """What stands for the death of a process."""


def killed_after_every_event(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Does some work that is killed after its first event, its second, and so on, and called again; counts kills."""
    event, left = RunFolder.event, [0]

    def event_and_kill(self: RunFolder, kind: str, **data: Any) -> None:
        event(self, kind, **data)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(RunFolder, "event", event_and_kill)
    for kills in range(1_000):
        left[0] = kills + 1  # each call gets at least as far as it can go on from there
        try:
            work()
        except Killed:
            continue
        return kills
    raise AssertionError("it does not end")
