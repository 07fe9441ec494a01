"""The commands `holdfast agent play` and `export`: what a learned policy does, here or elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from holdfast.cli.agent_folders import Folder, opened
from holdfast.cli.output import print_json, print_lines
from holdfast.errors import Mistake
from holdfast.runs.options import Flag


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
    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Also film the first episode, as FILE.mp4, FILE.webm or FILE.gif."""
    json: Flag = False
    """Print the returns as JSON."""


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


def play(command: PlayCommand) -> None:
    """Plays episodes and prints their mean return."""
    if command.episodes < 1:
        raise Mistake(f"at least one episode is played, got --episodes {command.episodes}")
    agent = opened(command.folder)
    found = agent.play(command.name, command.env, command.episodes, target=command.target, video=command.video)
    if command.json:
        print_json({"returns": found.returns, "lengths": found.lengths, "successes": found.successes})
        return
    spread = f", from {min(found.returns):.4g} to {max(found.returns):.4g}"
    episodes = f"{found.distinct} different episodes{spread}" if found.distinct > 1 else "1 episode"
    print_lines(f"mean return {found.mean:.4g} over {episodes}")
    if command.video:
        print_lines(f"wrote {command.video}: the first episode, {command.video.stat().st_size / 1e6:.2f} MB")


def export(command: ExportCommand) -> None:
    """Exports the policy of a task."""
    written = opened(command.folder).export(command.name, command.to, command.target, command.rows)
    if command.json:
        print_json({"path": str(written.path), "kind": written.kind, "bytes": written.bytes})
        return
    print_lines(f"wrote {written.path}: {written.kind}, {written.bytes / 1e6:.2f} MB")
