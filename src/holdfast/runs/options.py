"""How a run is carried out."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How a run is carried out; none of this changes what is learned."""

    evaluate: bool = True
    """Evaluate after every task; without, `holdfast evaluate` does it later."""
    re_evaluate: bool = False
    """Play every episode again, also where policy and episodes are the same to the bit as a stage before."""
    full_matrix: bool = False
    """Evaluate tasks that are not learned yet as well; such entries are in no metric."""
    single: Path | None = None
    """A run of the learner `single` to measure forward transfer against."""
    memo: Path | None = None
    """A folder of finished fits and evaluations that runs share: what was done before, to the bit, is recalled."""
    save_every: float = 30.0
    """Seconds after which a running fit is saved."""
    tensorboard: bool = find_spec("tensorboard") is not None
    """Write TensorBoard event files; by default where tensorboard is installed."""
