"""The command `holdfast agent`: learns your own data into a folder, lists, verifies and exports it, and checks data."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table
from rich.text import Text

from holdfast.agent.agent import Agent, Learned
from holdfast.agent.folder import CONFIG
from holdfast.agent.own_environment import make
from holdfast.cli.output import Output, print_json, print_lines
from holdfast.cli.parsing import PLUGIN, parse_words
from holdfast.data.doctor import examine
from holdfast.data.printable import printable
from holdfast.data.sources import read_source
from holdfast.data.validation import did_you_mean
from holdfast.errors import Mistake
from holdfast.runs.options import Flag
from holdfast.tasks.environment_checks import check_environment

Folder = Annotated[Path, tyro.conf.Positional]


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
class ListCommand:
    """List the tasks of an agent: copies, scores, dates and bytes."""

    folder: Folder
    """The agent's folder, or a run folder."""
    json: Flag = False
    """Print the list as JSON."""


@dataclass(frozen=True)
class VerifyCommand:
    """Compute every certificate again from the files."""

    folder: Folder
    """The agent's folder, or a run folder."""
    json: Flag = False
    """Print the result as JSON."""


@dataclass(frozen=True)
class HistoryCommand:
    """List what happened to an agent, and when."""

    folder: Folder
    """The agent's folder, or a run folder."""
    json: Flag = False
    """Print the events as JSON."""


@dataclass(frozen=True)
class PlayCommand:
    """Play episodes of a task in its environment."""

    folder: Folder
    """The agent's folder."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    env: str | None = None
    """Id of another Gymnasium environment with the same spaces."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 10
    """Number of episodes, each from its own seed."""
    target: float | None = None
    """The return to ask the policy for; by default the one that it was learned with."""
    json: Flag = False
    """Print the returns as JSON."""


@dataclass(frozen=True)
class DoctorCommand:
    """Check your own data before anything is learned from it."""

    data: str
    """A Minari dataset (id or folder), an HDF5 file in D4RL's layout, a NumPy .npz file, or a LeRobot folder."""
    env: str | None = None
    """Id of the Gymnasium environment to replay episodes in, if the data does not name it."""
    json: Flag = False
    """Print the findings as JSON."""


@dataclass(frozen=True)
class ExportCommand:
    """Write the policy of a task as an ONNX graph, as a program of torch.export, or as a folder."""

    folder: Folder
    """The agent's folder."""
    name: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    to: Path
    """policy.onnx, policy.pt2, or a new folder."""
    target: float | None = None
    """The return to ask the policy for; by default the one that it was learned with."""
    rows: int = 1
    """Episodes that the graph acts in at once."""
    json: Flag = False
    """Print what was written as JSON."""


def agent_command(words: Sequence[str]) -> None:
    """Does what the first word says."""
    if not words or words[0] in ("-h", "--help"):
        print_lines(USAGE)
        raise SystemExit(0)
    verb, *rest = words
    if verb not in VERBS:
        raise Mistake(f"there is no command agent {verb!r}{did_you_mean(verb, VERBS)}; there are {', '.join(VERBS)}")
    kind, action = VERBS[verb]
    action(parse_words(kind, f"agent {verb}", rest))


def learn(command: LearnCommand) -> None:
    """Learns a task, and prints where it went, what it cost and how well it does."""
    agent = Agent(command.folder, command.learner, command.backbone, command.seed, device=command.device)
    learned = agent.learn(
        command.name, command.data, command.env, command.budget, target=command.target, quiet=command.quiet
    )
    if command.json:
        played = learned.played.returns if learned.played else None
        kept = {"bytes": learned.bytes, "returns": played, "notes": learned.notes}
        print_json({"name": learned.name, **asdict(learned.record), "route": learned.route, **kept})
        return
    print_lines("\n".join(learned_lines(learned)))


def learned_lines(learned: Learned) -> list[str]:
    """What learning gave, in words."""
    record = learned.record
    lines = [*learned.notes, f"learned {learned.name} from {record.episodes} episodes ({record.transitions:,} steps)"]
    if learned.route:
        source = f", beginning from {learned.route['source']}" if learned.route["source"] else ""
        lines.append(f"copy {learned.route['copy']}{source}: {learned.route['reason']}")
    if record.has_rewards:
        lines.append(f"asked for a return of {record.target:.4g}")
    lines += [f"{name} on held-out episodes: {value:.4g}" for name, value in record.score.items()]
    if learned.played:
        returns = learned.played.returns
        lines.append(
            f"mean return in {record.environment}: {np.mean(returns):.4g} ({learned.played.distinct} episodes)"
        )
    weights, memory = (learned.bytes[part] / 1e6 for part in ("weights", "memory"))
    lines.append(f"the agent takes {weights:.2f} MB, and {memory:.2f} MB more that only learning on needs")
    return [*lines, "certificate: every task equal to the bit"]


def preview(command: PreviewCommand) -> None:
    """Prints what learning a task would do."""
    found = Agent(command.folder, device="cpu").preview(command.name, command.data, command.env, command.budget)
    if command.json:
        print_json(asdict(found))
        return
    route = found.route
    source = f", beginning from {route['source']}" if route["source"] else ""
    distances = [f"{one['task']} is at {_shown(one['distance']) or 'no distance'}" for one in route["candidates"]]
    time = "" if found.seconds is None else f", about {timedelta(seconds=round(found.seconds))} of training"
    where = "a new copy" if route["opened"] else f"copy {route['copy']}"
    lines = [f"{found.name} would go to {where}{source}: {route['reason']}", *distances]
    print_lines("\n".join([*found.notes, *lines, f"about {found.bytes / 1e6:.2f} MB{time}", *found.warnings]))


def list_tasks(command: ListCommand) -> None:
    """Prints the tasks of an agent."""
    agent = opened(command.folder)
    rows = [row(agent, name) for name in agent.tasks]
    if command.json:
        print_json(rows)
        return
    if not rows:
        print_lines(f"{command.folder} has learned nothing yet")
        return
    table = Table()
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "task" else "right", no_wrap=name != "score")
    for found in rows:
        found["learned"] = (found["learned"] or "")[:10]  # the day
        table.add_row(*(Text(printable(_shown(value))) for value in found.values()))
    Output().print(table)


def row(agent: Agent, name: str) -> dict[str, Any]:
    """A task's line in the list."""
    record, copy = agent.record(name), agent.copy_of(name)
    score = next(iter(record.score.items()), None) if record else None
    return {
        "task": name,
        "copy": copy,
        "episodes": record.episodes if record else None,
        "target": record.target if record and record.has_rewards else None,
        "score": f"{score[0]} {score[1]:.4g}" if score else None,
        "MB": round(agent.bytes_of(name) / 1e6, 3),
        "learned": record.learned_at if record else None,
    }


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def verify(command: VerifyCommand) -> None:
    """Checks every certificate."""
    tasks = opened(command.folder).verify()
    if command.json:
        print_json({"tasks": tasks, "equal": True})
        return
    print_lines(f"all {len(tasks)} tasks are equal to the bit to their certificates: {', '.join(tasks)}")


def history(command: HistoryCommand) -> None:
    """Prints when each task was learned, certified and played."""
    events = [event for event in opened(command.folder).folder.events() if event["kind"] in SHOWN]
    if command.json:
        print_json(events)
        return
    for event in events:
        when = datetime.fromtimestamp(event["time"], UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        print_lines(f"{when} UTC  {SHOWN[event['kind']].format(**event)}")


def play(command: PlayCommand) -> None:
    """Plays episodes and prints their mean return."""
    if command.episodes < 1:
        raise Mistake(f"at least one episode is played, got --episodes {command.episodes}")
    found = opened(command.folder).play(command.name, command.env, command.episodes, target=command.target)
    if command.json:
        print_json({"returns": found.returns, "lengths": found.lengths, "successes": found.successes})
        return
    spread = f"from {min(found.returns):.4g} to {max(found.returns):.4g}"
    print_lines(f"mean return {found.mean:.4g} over {found.distinct} different episodes, {spread}")


def doctor(command: DoctorCommand) -> None:
    """Prints what the checks of a dataset found."""
    raw = read_source(command.data)
    environment = command.env or raw.environment
    findings = examine(raw, make(command.env) if command.env else None)
    if environment:
        findings += check_environment(raw, partial(make, environment))
    if command.json:
        print_json([asdict(finding) for finding in findings])
        return
    for finding in findings:
        advice = "" if finding.level == "ok" else f" {finding.advice}"
        print_lines(f"{finding.level:<8} {finding.name}: {finding.means}{advice}")


def export(command: ExportCommand) -> None:
    """Exports the policy of a task."""
    written = opened(command.folder).export(command.name, command.to, command.target, command.rows)
    if command.json:
        print_json({"path": str(written.path), "kind": written.kind, "bytes": written.bytes})
        return
    print_lines(f"wrote {written.path}: {written.kind}, {written.bytes / 1e6:.2f} MB")


def opened(folder: Path) -> Agent:
    """The agent in a folder that exists."""
    if not (folder / CONFIG).exists():
        raise Mistake(f"there is no agent in {folder}: holdfast agent learn {folder} NAME --data WHERE makes one")
    return Agent(folder, device="cpu")


SHOWN = {  # the events of a history, in words
    "learn": "began to learn {task}",
    "resume": "went on learning {task}",
    "certify": "certified all tasks after stage {stage}",
    "play": "played {task}: mean return {mean:.4g}",
}
VERBS: dict[str, tuple[Any, Callable[[Any], None]]] = {
    "learn": (LearnCommand, learn),
    "preview": (PreviewCommand, preview),
    "list": (ListCommand, list_tasks),
    "verify": (VerifyCommand, verify),
    "history": (HistoryCommand, history),
    "play": (PlayCommand, play),
    "doctor": (DoctorCommand, doctor),
    "export": (ExportCommand, export),
}
USAGE = f"""usage: holdfast agent COMMAND FOLDER ...

  learn     learn a task from your own data: holdfast agent learn FOLDER NAME --data WHERE
  preview   say where a task would go and what it would cost: holdfast agent preview FOLDER NAME --data WHERE
  list      list the tasks of an agent
  verify    compute every certificate again from the files
  history   list what happened to an agent, and when
  play      play episodes of a task in its environment
  doctor    check your own data before anything is learned from it: holdfast agent doctor --data WHERE
  export    write the policy of a task: holdfast agent export FOLDER NAME --to policy.onnx

holdfast agent COMMAND --help tells more.
{PLUGIN}"""
