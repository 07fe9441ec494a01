"""How a run is carried out."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.data.validation import Range, validate

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]  # --quiet alone, without --no-quiet


@dataclass(frozen=True)
class Options:
    """Options of a run that do not change what is learned."""

    evaluate: bool = True
    """Evaluate after every task; without it, `holdfast evaluate` does so later."""
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
