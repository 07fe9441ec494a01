"""What a learner tells while it learns, kept in the run folder and shown on the screen."""

import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from holdfast.learners.memo import Memo
from holdfast.runs.folder import RunFolder


class Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "", style="cyan")


class Screen:
    """Progress bars on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
        self.bars = Progress(
            *columns, TextColumn("{task.fields[note]}"), console=console, disable=not console.is_terminal
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, name: str, done: int, total: int, note: str = "") -> None:
        """Moves the bar of this name, which appears when first shown."""
        known = {task.description: task.id for task in self.bars.tasks}
        bar = known[name] if name in known else self.bars.add_task(name, total=total, note="")
        self.bars.update(bar, completed=done, total=total, note=note)

    def drop(self, name: str) -> None:
        """Takes the bar of this name away, if there is one."""
        for task in [task for task in self.bars.tasks if task.description == name]:
            self.bars.remove_task(task.id)


class FolderRecorder:
    """Records one task's learning; the state of the fit is saved every so many seconds."""

    def __init__(
        self, folder: RunFolder, screen: Screen, stage: int, task: str, every: float, board: "Board | None", memo: Memo
    ) -> None:
        self.folder, self.screen, self.stage, self.task = folder, screen, stage, task
        self.every, self.board, self.memo, self.saved = every, board, memo, time.monotonic()

    def event(self, kind: str, **data: Any) -> None:
        self.folder.event(kind, **{"stage": self.stage, "task": self.task, **data})
        if self.board and kind == "train":
            self.board.scalar(f"loss/{self.task}", data["loss"], data["step"])

    def progress(self, done: int, total: int, loss: float) -> None:
        self.screen.show(f"learn {self.task}", done, total, f"loss {loss:.4g}")

    def resume(self) -> dict[str, Tensor] | None:
        return self.folder.read_fit(self.stage)

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.every

    def save(self, tensors: dict[str, Tensor]) -> None:
        self.folder.write_fit(self.stage, tensors)
        self.saved = time.monotonic()


class Board:
    """TensorBoard event files, under tensorboard/ in the run folder."""

    def __init__(self, folder: RunFolder) -> None:
        self.place = folder.path / "tensorboard"
        self.writer: Any = None  # until there is something to write

    def scalar(self, name: str, value: float, step: int) -> None:
        """One point of a curve."""
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.place))
        self.writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer:
            self.writer.close()
