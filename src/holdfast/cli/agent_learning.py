"""The commands `holdfast agent doctor`, `preview` and `learn`: from your own data to a learned task."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated

import numpy as np
import tyro

from holdfast.agent.agent import Agent, Learned
from holdfast.agent.own_environment import make
from holdfast.cli.agent_folders import Folder, shown
from holdfast.cli.output import print_json, print_lines
from holdfast.data.doctor import examine
from holdfast.data.sources import read_source
from holdfast.runs.options import Flag
from holdfast.tasks.environment_checks import check_environment


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
    findings = examine(raw, make(command.env) if command.env else None)
    if environment:
        findings += check_environment(raw, partial(make, environment))
    if command.json:
        print_json([asdict(finding) for finding in findings])
        return
    for finding in findings:
        advice = "" if finding.level == "ok" else f" {finding.advice}"
        print_lines(f"{finding.level:<8} {finding.name}: {finding.means}{advice}")


def preview(command: PreviewCommand) -> None:
    """Prints what learning a task would do."""
    found = Agent(command.folder, device="cpu").preview(command.name, command.data, command.env, command.budget)
    if command.json:
        print_json(asdict(found))
        return
    route = found.route
    source = f", beginning from {route['source']}" if route["source"] else ""
    distances = [f"{one['task']} is at {shown(one['distance']) or 'no distance'}" for one in route["candidates"]]
    time = "" if found.seconds is None else f", about {timedelta(seconds=round(found.seconds))} of training"
    where = "a new copy" if route["opened"] else f"copy {route['copy']}"
    lines = [f"{found.name} would go to {where}{source}: {route['reason']}", *distances]
    print_lines("\n".join([*found.notes, *lines, f"about {found.bytes / 1e6:.2f} MB{time}", *found.warnings]))


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
