"""How a run is carried out."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import tyro

from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]  # --quiet alone, without --no-quiet


@dataclass(frozen=True)
class Options:
    """Options of a run that do not change what is learned."""

    evaluate: Literal["every", "ends", "none"] = "every"
    """When to evaluate: after every task, each task once it is learned and all tasks at the ends, or not at all."""
    evaluate_at: tuple[int, ...] = ()
    """Also play 10 episodes after these per cents of a task's training steps, for forward transfer: 10 25 50 100."""
    re_evaluate: bool = False
    """Play every episode again, even if neither the policy nor the episodes changed since an earlier stage."""
    full_matrix: bool = False
    """Also evaluate tasks that are not learned yet; no metric uses these results."""
    reference: Path | None = None
    """Folder of a run of the learner `single`, which forward transfer is measured against."""
    cache: Path | None = None
    """Folder of finished fits and evaluations that runs share, so that none is computed twice."""
    save_every: Annotated[float, Range(least=0)] = 30.0
    """Seconds between two saves of a task that is being learned."""
    tensorboard: bool = find_spec("tensorboard") is not None
    """Write TensorBoard event files; by default if tensorboard is installed."""
    quiet: Flag = False
    """Print nothing unless something is wrong."""

    def __post_init__(self) -> None:
        validate(self)
        if self.full_matrix and self.evaluate == "ends":
            raise Mistake("--full-matrix evaluates all tasks after every task: leave it or --evaluate ends out")
        if list(self.evaluate_at) != sorted({*self.evaluate_at} & {*range(1, 101)}):
            raise Mistake(f"--evaluate-at takes rising per cents from 1 to 100, got {self.evaluate_at}")

    def tasks_after(self, stage: int, count: int, ends: Sequence[int]) -> range:
        """Which of `count` tasks to evaluate after a stage; `ends` are the numbers of tasks that the suite names."""
        if self.evaluate == "none":
            return range(0)
        if self.full_matrix:
            return range(count)
        if self.evaluate == "ends" and stage + 1 not in (*ends, count):
            return range(stage, stage + 1)
        return range(stage + 1)
