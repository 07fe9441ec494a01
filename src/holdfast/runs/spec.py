"""A run before it begins: its plan, options, folder and device."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.agent.progress import Screen
from holdfast.runs.configure import learner_for, read_plan, suite_for
from holdfast.runs.options import Options
from holdfast.runs.plan import Plan
from holdfast.runs.run import run
from holdfast.training.ranks import process_group


@dataclass(frozen=True)
class RunSpec:
    """A run before it begins."""

    plan: Plan
    options: Options
    out: Path
    device: str

    def to_json(self) -> dict[str, Any]:
        """The run as plain data; the plan has the shape that it has in config.json."""
        options = {name: _plain(value) for name, value in asdict(self.options).items()}
        return {"plan": asdict(self.plan), "options": options, "out": str(self.out), "device": self.device}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "RunSpec":
        """The run that `to_json` wrote down."""
        return cls(read_plan(record["plan"]), Options(**record["options"]), Path(record["out"]), record["device"])


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def carry_out(spec: RunSpec) -> bool:
    """Makes missing data, then learns; returns whether this process is the one that writes the run folder."""
    with process_group(spec.device) as ranks:
        with ranks.first_rank_first(), Screen(spec.options.quiet) as screen:
            suite = suite_for(spec.plan, partial(show_data_progress, screen))
            learner = learner_for(spec.plan, suite, spec.device)  # checked first: making data takes long
            suite.load()
        run(suite, learner, spec.out, spec.options)
        return ranks.is_first


def show_data_progress(screen: Screen, task: str, done: int, wanted: int) -> None:
    """Moves the progress bar of a task whose data is being made."""
    screen.show(f"data of {task}", done, wanted)
