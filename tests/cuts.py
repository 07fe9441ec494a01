"""A power cut: from some system call on, no further one happens."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class PowerCut(BaseException):
    """No code runs after it, not even what cleans up."""


@contextmanager
def cut_after(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets `count - 1` system calls that change files happen; all others raise."""
    left = [count]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def cut_or_call(*words: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] <= 0:
                raise PowerCut
            return call(*words, **more)

        return cut_or_call

    with monkeypatch.context() as patch:
        for call in ("replace", "unlink", "fsync", "rmdir"):
            patch.setattr(os, call, counted(getattr(os, call)))
        yield
