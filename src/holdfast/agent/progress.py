"""The progress of learning, recorded in the folder and shown on the screen."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text
from torch import Tensor

from holdfast.agent.folder import LearningFolder
from holdfast.agent.index import ONLY_PHASE
from holdfast.agent.signals import Interruption
from holdfast.data.printable import printable
from holdfast.evaluation.learning_curve import LearningCurve
from holdfast.nets.policy import Policy
from holdfast.training.cache import Cache

BAR = 16  # characters
EVERY = 30.0  # seconds between two lines of progress where there is no terminal


class Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "", style="cyan")


class Pace:
    """Estimates the time left from the progress since it was made."""

    def __init__(self, share: float) -> None:
        self.first, self.began = share, time.monotonic()

    def left(self, share: float) -> str:
        """The time left in words, when this share is done; empty if it is not known yet."""
        done = share - self.first
        if done <= 0 or share >= 1:
            return ""
        seconds = (time.monotonic() - self.began) / done * (1 - share)
        return f"about {timedelta(seconds=round(seconds))} left"


class Screen:
    """Progress on standard error: bars on a terminal, otherwise a line now and then; nothing if quiet."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True)
        self.quiet, self.terminal = quiet, self.console.is_terminal
        described = TextColumn("{task.description}", markup=False)
        told = TextColumn("{task.fields[told]}", markup=False, table_column=Column(ratio=1, no_wrap=True))
        columns = (described, BarColumn(BAR), MofNCompleteColumn(), Rate(), told)  # in a narrow window `told` is cut
        self.bars = Progress(*columns, console=self.console, expand=True, disable=quiet or not self.terminal)
        self.paces: dict[str, Pace] = {}
        self.printed: dict[str, float] = {}  # when each name last had a line
        self.whole: float | None = None  # the share of all work that is done, if known

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, name: str, done: int, total: int, note: str = "", whole: float | None = None) -> None:
        """Shows the progress of one item by its name; `whole` is the share of all work that is done."""
        self.whole = self.whole if whole is None else whole
        name = printable(name)
        left = self._left(name, done / max(total, 1)) if done < total else ""
        told = ", ".join(filter(None, [left, printable(note)]))
        if self.terminal:
            self._move_bar(name, done, total, told)
        elif not self.quiet:
            self._print_line(name, done, total, told)

    def _left(self, name: str, share: float) -> str:
        """The time left for all work if its share is known, otherwise for this item."""
        if self.whole is None:
            return self.paces.setdefault(name, Pace(share)).left(share)
        left = self.paces.setdefault("", Pace(self.whole)).left(self.whole)
        return f"{left} in all" if left else ""

    def _move_bar(self, name: str, done: int, total: int, told: str) -> None:
        known = {task.description: task.id for task in self.bars.tasks}
        bar = known[name] if name in known else self.bars.add_task(name, total=total, completed=done, told="")
        self.bars.update(bar, completed=done, total=total, told=told)

    def _print_line(self, name: str, done: int, total: int, told: str) -> None:
        """Prints the first and the last progress of an item, and some in between."""
        now = time.monotonic()
        if name in self.printed and done < total and now - self.printed[name] < EVERY:
            return
        self.printed[name] = now
        line = f"{name}: {done} of {total}{f', {told}' if told else ''}"
        self.console.print(Text(line), soft_wrap=True)

    def drop(self, name: str) -> None:
        """Removes the bar of an item, if there is one."""
        name = printable(name)
        self.paces.pop(name, None)
        self.printed.pop(name, None)
        for task in [task for task in self.bars.tasks if task.description == name]:
            self.bars.remove_task(task.id)


@dataclass(frozen=True)
class CurrentTask:
    """What is being learned: one task, or all tasks of a joint learner."""

    name: str
    stage: int
    identity: str  # a hash of its interface and data
    planned: int  # the number of tasks that the plan learns one after another; 0 if this is not one of them
    steps: int  # of training, if it is not divided into phases

    @property
    def place(self) -> str:
        """Which of the planned tasks it is, in words."""
        return f"task {self.stage + 1} of {self.planned}: " if self.planned else ""

    def share(self, done: float) -> float:
        """The share of all training that is done, from the share of this task that is done."""
        return (self.stage + done) / self.planned if self.planned else done


class FolderRecorder:
    """Records the learning of a task in a folder and on the screen; saves the fit every so many seconds."""

    def __init__(
        self,
        folder: LearningFolder,
        screen: Screen,
        current: CurrentTask,
        *,
        save_every: float,
        board: "Board | None",
        cache: Cache,
        interruption: Interruption,
        curve: LearningCurve | None = None,
    ) -> None:
        self.folder, self.screen, self.current = folder, screen, current
        self.save_every, self.board, self.cache = save_every, board, cache
        self.interruption, self.curve = interruption, curve
        self.policy: Callable[[], Policy] | None = None  # makes the policy of what is being trained
        self.steps = 0  # of the phase that is played in between
        self.saved = time.monotonic()
        self.phases: list[str] = []  # those that were begun; the last one is going on

    def event(self, kind: str, **data: Any) -> None:
        self.folder.event(kind, **{"stage": self.current.stage, "task": self.current.name, **data})
        if self.board and kind == "train":
            self.board.scalar(f"loss/{self._title()}", data["loss"], data["step"])

    def progress(self, done: int, total: int, loss: float) -> None:
        self._show(done, total, f"loss {loss:.4g}")

    def _show(self, done: int, total: int, note: str = "") -> None:
        self.screen.show(
            f"{self.current.place}learn {self._title()}", done, total, note, self.current.share(done / total)
        )

    def _title(self) -> str:
        """The task, and its phase if it has several."""
        phase = self.phases[-1]
        return self.current.name if phase == ONLY_PHASE else f"{self.current.name} ({phase})"

    def resume(self, phase: str) -> dict[str, Tensor] | None:
        if phase in self.phases:  # the saved state of the first fit would be used for the second
            raise ValueError(
                f"{self.current.name} was already fitted in phase {phase!r}: give every fit of a task its own phase"
            )
        self.folder.store.begin_phase(phase, self.current.identity)
        self.phases.append(phase)
        saved = self.folder.store.read_fit(phase)
        if phase == ONLY_PHASE:  # the steps of other phases are known when the first of them were taken
            self._show(int(saved["done"]) if saved else 0, self.current.steps)
        return saved

    def due(self) -> bool:
        return time.monotonic() - self.saved >= self.save_every

    def save(self, phase: str, tensors: dict[str, Tensor]) -> None:
        self.folder.store.write_fit(phase, tensors)
        self.saved = time.monotonic()

    def interrupted(self) -> bool:
        return self.interruption.asked

    def stop(self, done: int, total: int) -> NoReturn:
        self.interruption.stop(f"at step {done} of {total} of task {self.current.name}")

    def playable(self, policy: Callable[[], Policy]) -> None:
        self.policy = policy

    def pauses(self, phase: str, steps: int) -> Sequence[int]:
        if self.curve is None or self.policy is None or phase != ONLY_PHASE:
            return ()
        self.steps = steps
        return sorted(self.curve.steps(steps).values())

    def pause(self, done: int) -> None:
        if self.curve and self.policy:
            self.curve.play(self.policy(), done, self.steps)


class Board:
    """TensorBoard event files, under tensorboard/ in the folder."""

    def __init__(self, folder: LearningFolder) -> None:
        self.folder, self.place = folder, folder.path / "tensorboard"
        self.writer: Any = None  # until there is something to write

    def scalar(self, name: str, value: float, step: int) -> None:
        """One point of a curve."""
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.folder.directory.make_folder("tensorboard")  # which raises if it is a link
            self.writer = SummaryWriter(str(self.place))
        self.writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer:
            self.writer.close()
