"""The settings of training."""

from dataclasses import dataclass
from math import cos, pi
from typing import Annotated, Literal

from holdfast.data.validation import Range, validate
from holdfast.data.windows import Sampling

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class FitConfig:
    """How a task is trained."""

    steps: Annotated[int, Range(least=1, most=10**9)] = 1_000
    """Gradient steps per task."""
    batch: Annotated[int, Range(least=1, most=10**6)] = 64
    """Windows per training step (the batch size)."""
    learning_rate: Annotated[float, Range(over=0)] = 3e-4
    """Learning rate of AdamW."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """Learning rate over time: constant (the publication), or a rise over the first tenth and a cosine down to 0."""
    weight_decay: Annotated[float, Range(least=0)] = 1e-4
    """Weight decay of AdamW."""
    clip: Annotated[float, Range(over=0)] = 1.0
    """Norm that the whole gradient is clipped to."""
    sampling: Sampling = "episodes"
    """How windows are drawn: an episode, then a start in it (episodes), or uniformly from all windows (windows)."""
    whole: bool = True
    """Draw only windows inside an episode; otherwise they may cross its ends, so that all steps are equally likely."""
    packed: bool = True
    """Put several short windows into one row, so that padding is not computed; the loss is the same."""
    precision: Precision = "auto"
    """Precision of matrix products in training; auto is float32 on a CPU and bfloat16 on a GPU."""
    captured: bool = True
    """Capture a training step as a CUDA graph and replay it; without a GPU this does nothing."""
    return_scale: Annotated[float, Range(over=0)] = 1.0
    """Number that returns-to-go are divided by."""
    log_every: Annotated[int, Range(least=1, most=10**9)] = 50
    """Training steps between two recorded losses."""

    def __post_init__(self) -> None:
        validate(self, "fit.")

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        rising = max(self.steps // 10, 1)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (1 + cos(pi * (step - rising) / max(self.steps - rising, 1))) / 2
