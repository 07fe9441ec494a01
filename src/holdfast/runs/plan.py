"""Everything that decides what a run computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import Annotated

from tyro.conf import arg

from holdfast.agent.plan import MOST_THREADS
from holdfast.data.validation import Range, validate
from holdfast.errors import Mistake
from holdfast.learners.learner import LearnerConfig
from holdfast.tasks.data_choice import DataChoice, DemonstrationCount, Transitions
from holdfast.tasks.environments import Protocol


@dataclass(frozen=True)
class Plan:
    """Two runs with the same plan on the same machine end at the same bits."""

    config: Annotated[LearnerConfig, arg(name="")]
    protocol: Protocol
    suite: str = "toy"
    """Name of the suite (`holdfast suites` lists them)."""
    learner: str = "affinity-l"
    """Name of the learner (`holdfast learners` lists them)."""
    backbone: str = "dt"
    """Name of the backbone, the network that is trained and acts (`holdfast nets` lists them)."""
    preset: str = "holdfast"
    """Settings of the method: `holdfast` is ours, `paper` the publication's (the default of its own budget)."""
    budget: str = "quick"
    """How long to train and evaluate: smoke (seconds), quick (minutes), full (ours), published (the publication's)."""
    seed: Annotated[int, Range(least=-(2**63), under=2**63)] = 0
    """Seed of every random choice except the evaluation's, which is protocol.first-seed."""
    threads: Annotated[int | None, Range(least=1, most=MOST_THREADS)] = None
    """Processor threads, by default one per core; small networks are fastest with 1."""
    order: tuple[str, ...] = ()
    """Names of the tasks to learn, in this order; by default all, in the suite's order."""
    transitions: Transitions = None
    """Transitions of data per task, for a suite that makes its own data; by default the suite's amount."""
    demonstrations: DemonstrationCount = None
    """Demonstrations per task, for a suite that counts its data in recorded episodes (cw10, cw20 and mt50: 100)."""
    data: str | None = None
    """Name of the data, for a suite that has several (atari5: expert-10, expert-100, minari)."""
    target: Annotated[tuple[str, ...], arg(metavar="TASK=VALUE ...")] = ()
    """Returns to ask policies for, by default the suite's, which results are measured against in either case."""

    def __post_init__(self) -> None:
        if isinstance(self.target, Mapping):
            object.__setattr__(self, "target", [f"{task}={value}" for task, value in self.target.items()])
        validate(self)
        object.__setattr__(self, "target", tuple(f"{task}={value}" for task, value in sorted(self.targets.items())))

    @property
    def choice(self) -> DataChoice:
        """The data of each task."""
        return DataChoice(transitions=self.transitions, demonstrations=self.demonstrations, data=self.data)

    @property
    def targets(self) -> dict[str, float]:
        """The returns to ask for, by task, if they differ from the suite's."""
        targets: dict[str, float] = {}
        for setting in self.target:
            task, value = _target(setting)
            if task in targets:
                raise Mistake(f"target names {task} twice: choose one value")
            targets[task] = value
        return targets


def _target(setting: str) -> tuple[str, float]:
    """The task and the return in TASK=VALUE."""
    task, _, text = setting.rpartition("=")
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not task or not isfinite(value):
        raise Mistake(f"target must be TASK=VALUE with a finite number, as in PandaPush=-1.5, got {setting!r}")
    return task, value
