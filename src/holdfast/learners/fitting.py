"""How a task is trained: all that can be set about it."""

from dataclasses import dataclass
from math import cos, pi
from typing import Literal

from holdfast.data.windows import Sampling
from holdfast.errors import Mistake

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class FitConfig:
    """How a task is trained."""

    steps: int = 1_000
    """Gradient steps per task."""
    batch: int = 64
    """Windows per step."""
    learning_rate: float = 3e-4
    """Of AdamW."""
    schedule: Literal["constant", "one-cycle"] = "constant"
    """Constant (the publication), or up over the first tenth and down to zero along a cosine."""
    weight_decay: float = 1e-4
    """Of AdamW."""
    clip: float = 1.0
    """Largest global norm of the gradient."""
    sampling: Sampling = "episodes"
    """Windows are drawn uniformly over episodes and then over starts (episodes), or uniformly over all (windows)."""
    whole: bool = True
    """Only whole windows are drawn, so that an episode's first step is in one of them and most others in K. Without,
    windows may reach over an episode's ends, and every step of it is in K."""
    packed: bool = True
    """Short windows share rows, so that padding is not computed; the loss is the same."""
    precision: Precision = "auto"
    """Of products in the network while it trains: float32 on a CPU, bfloat16 on a GPU, where nothing else is said."""
    captured: bool = True
    """On a GPU, a step is captured once and then replayed without the host."""
    return_scale: float = 1.0
    """Returns-to-go are divided by this."""
    log_every: int = 50
    """Steps between two recorded losses."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.log_every) < 1:
            raise Mistake("fit.steps, fit.batch and fit.log_every must be at least 1")
        if not (self.learning_rate > 0 and self.clip > 0 and self.return_scale > 0 and self.weight_decay >= 0):
            raise Mistake(
                "fit.learning_rate, fit.clip and fit.return_scale must be over 0, fit.weight_decay at least 0"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        rising = max(self.steps // 10, 1)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (1 + cos(pi * (step - rising) / max(self.steps - rising, 1))) / 2
