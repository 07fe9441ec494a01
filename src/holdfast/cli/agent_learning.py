"""The commands `holdfast agent doctor`, `preview` and `learn`: from your own data to a learned task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import tyro

from holdfast.agent.agent import Agent
from holdfast.agent.learning import Comparison, Learned
from holdfast.agent.own_environment import make
from holdfast.agent.preview import Alternative
from holdfast.agent.routes import distance, far, sources, why
from holdfast.agent.task_record import TaskRecord
from holdfast.cli.agent_folders import Folder
from holdfast.cli.output import print_json, print_lines, print_names
from holdfast.data.doctor import NOTHING, Finding, examine
from holdfast.data.raw_episodes import RawEpisodes
from holdfast.data.sources import read_source
from holdfast.errors import Mistake
from holdfast.runs.options import Flag
from holdfast.tasks.environment_checks import check_environment

LABEL, LEVEL = 13, 9  # columns of the words before what is said


@dataclass(frozen=True)
class DoctorCommand:
    """Check your own data before anything is learned from it."""

    data: str
    """A Minari dataset (id or folder), an HDF5 file in D4RL's layout, a NumPy .npz file, or a LeRobot folder."""
    env: str | None = None
    """Id of the Gymnasium environment to replay episodes in, if the data does not name it."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also write a page with the findings and pictures of the data: one file that opens offline."""
    json: Flag = False
    """Print the findings as JSON."""


@dataclass(frozen=True)
class PreviewCommand:
    """Say where a task would go and why, and what it would cost; nothing is trained."""

    folder: Folder
    """The agent's folder."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    data: str
    """The data, as for learn."""
    env: str | None = None
    """Id of the Gymnasium environment whose spaces are used, if the data does not name it."""
    budget: str = "quick"
    """How long it would be trained."""
    json: Flag = False
    """Print the preview as JSON."""


@dataclass(frozen=True)
class LearnCommand:
    """Learn a task from your own data; the agent's folder is created on first use.

    If it is interrupted, the same command continues.
    """

    folder: Folder
    """The agent's folder, or the folder of a finished run."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    data: str
    """A Minari dataset (id or folder), an HDF5 file in D4RL's layout, a NumPy .npz file, or a LeRobot folder."""
    env: str | None = None
    """Id of the Gymnasium environment to play in, if the data does not name it."""
    budget: str = "quick"
    """How long to train: smoke (seconds), quick (minutes) or full."""
    target: float | None = None
    """The return to ask the policy for; by default the 0.9 quantile of the data's returns."""
    replace: Flag = False
    """Take the place of the task of this name, unless it does better on held-out episodes of this data."""
    learner: str | None = None
    """The learner of a new agent; by default affinity-l."""
    backbone: str | None = None
    """The backbone of a new agent; by default dt."""
    seed: int | None = None
    """The seed of a new agent; by default 0."""
    device: str = "auto"
    """Device to train on: auto, cpu or cuda."""
    json: Flag = False
    """Print the result as JSON."""
    quiet: Flag = False
    """Show no progress."""


def doctor(command: DoctorCommand) -> None:
    """Prints what the checks of a dataset found."""
    raw = read_source(command.data)
    environment = command.env or raw.environment
    env = make(command.env) if command.env else None
    findings = examine(raw, env)
    if environment:
        findings += check_environment(raw, partial(make, environment))
    size = None
    if command.html:
        size = write_page(raw, findings, command.data, command.html, env)
    if command.json:
        print_json([asdict(finding) for finding in findings])
        return
    print_names(((finding.level, told(finding)) for finding in findings), LEVEL)
    if size:
        print_lines(f"wrote {command.html}: {megabytes(size)}")


def write_page(raw: RawEpisodes, findings: Sequence[Finding], title: str, out: Path, env: Any) -> int:
    """Writes the page of a dataset, which needs matplotlib."""
    if find_spec("matplotlib") is None:
        raise Mistake("figures need matplotlib: pip install 'holdfast[report]'")
    from holdfast.study.page.data_page import write_data_page

    return write_data_page(raw, findings, title, out, env)


def told(finding: Finding) -> str:
    """A finding in words."""
    advice = "" if finding.advice == NOTHING else f" {finding.advice}"
    return f"{finding.name}: {finding.means}{advice}"


def preview(command: PreviewCommand) -> None:
    """Prints what learning a task would do."""
    found = Agent(command.folder, device="cpu").preview(command.name, command.data, command.env, command.budget)
    if command.json:
        print_json(asdict(found))
        return
    distances = [f"{one['task']} {far(distance(one))}" for one in found.route["candidates"]]
    time = "" if found.seconds is None else f", about {timedelta(seconds=round(found.seconds))} of training"
    print_names(
        [
            *(("note", note) for note in found.notes),
            ("route", place(found.route)),
            *([("distances", ", ".join(distances))] if distances else []),
            ("cost", f"about {megabytes(found.bytes)} for this task{time}"),
            *([("otherwise", otherwise(found.alternative))] if found.alternative else []),
            *(("warning", warning) for warning in found.warnings),
        ],
        LABEL,
    )


def otherwise(other: Alternative) -> str:
    """What the other decision would cost."""
    where = "a new copy" if other.opened else f"copy {other.copy}"
    return f"about {megabytes(other.bytes)} in {where}"


def learn(command: LearnCommand) -> None:
    """Learns a task, and prints where it went, what it cost and how well it does."""
    agent = Agent(command.folder, command.learner, command.backbone, command.seed, device=command.device)
    learned = agent.learn(
        command.name,
        command.data,
        command.env,
        command.budget,
        target=command.target,
        quiet=command.quiet,
        replace=command.replace,
    )
    if command.json:
        played = learned.played.returns if learned.played else None
        kept = {"bytes": learned.bytes, "returns": played, "notes": learned.notes}
        print_json(
            {
                "name": learned.name,
                **asdict(learned.record),
                "route": learned.route,
                **kept,
                "certificate": learned.certificate,
                "comparison": asdict(learned.comparison) if learned.comparison else None,
            }
        )
        return
    print_names(learned_lines(learned), LABEL)


def learned_lines(learned: Learned) -> Iterator[tuple[str, str]]:
    """What learning gave, in words."""
    record, cost = learned.record, {part: megabytes(count) for part, count in learned.bytes.items()}
    yield from (("note", note) for note in learned.notes)
    if learned.comparison:
        yield "replaced" if learned.comparison.replaced else "kept", compared(learned.name, learned.comparison)
        if not learned.comparison.replaced:
            return
    yield "learned", f"{learned.name}, from {record.episodes} episodes of {record.transitions:,} steps together"
    if learned.route:
        yield "route", place(learned.route)
    if record.has_rewards:
        yield "target", f"a return of {record.target:.4g}"
    if record.score:
        yield "score", scored(record)
    if learned.played:
        count = learned.played.distinct
        played = f"mean return {learned.played.mean:.4g} over {count} {'episode' if count == 1 else 'episodes'}"
        yield "played", f"{played} in {record.environment}"
    yield (
        "cost",
        f"{cost['task']} for this task, {cost['weights']} in all; {cost['memory']} more to learn further tasks",
    )
    yield "certificate", learned.certificate


def place(route: Mapping[str, Any]) -> str:
    """Where a task goes, and why."""
    begun = " and ".join(sources(route))
    where = "a new copy" if route["opened"] else f"copy {route['copy']}"
    return f"{where}{f', starting from {begun}' if begun else ''}: {why(route)}"


def scored(record: TaskRecord) -> str:
    """The score on held-out episodes, beside those of other policies."""
    (measure, score), *others = record.score.items()
    names = {f"constant {measure}": "a constant policy", f"nearest {measure}": f"the policy of {record.nearest}"}
    beside = ", ".join(f"{names.get(name, name)} {value:.4g}" for name, value in others)
    better = "higher" if measure == "likelihood" else "lower"
    return f"{measure} {score:.4g} of held-out actions, {better} is better ({beside})"


def compared(name: str, comparison: Comparison) -> str:
    """Whether a task was replaced, and why."""
    scores = f"{comparison.measure} {comparison.new:.4g} of held-out actions, and {comparison.old:.4g} before"
    if comparison.replaced:
        return f"{name}, which is no worse: {scores}"
    return f"{name} as it was, since the new one is worse: {scores}; try more data or a larger budget"


def megabytes(count: int) -> str:
    """A number of bytes in words."""
    return f"{count / 1e6:.2f} MB"
