"""Widths of dense networks that take as many bytes as a run with subnetworks, for a control of the same size.

python -m holdfast.study.same_bytes runs/demo
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import tyro

from holdfast.data.printable import printable
from holdfast.errors import MISTAKE, Mistake
from holdfast.nets.backbone import NetConfig, parameter_count
from holdfast.runs.configure import read_plan, suite_for
from holdfast.runs.folder import RunFolder
from holdfast.tasks.interface import Interface

NUMBER = 4  # bytes of a float32
WIDEST = 2**16


@dataclass(frozen=True)
class SameBytesCommand:
    """Print the widths of dense networks that take as many bytes as what acts in a run."""

    run: tyro.conf.Positional[Path]
    """Run folder."""


def main(words: Sequence[str] | None = None) -> None:
    """Prints a line for one network and one for a network a task; a user's mistake is one sentence and exit code 2."""
    command = tyro.cli(SameBytesCommand, prog="python -m holdfast.study.same_bytes", args=words)
    try:
        for line in lines(command.run):
            print(printable(line))
    except Mistake as mistake:
        print(f"holdfast: {printable(mistake)}", file=sys.stderr)
        raise SystemExit(MISTAKE) from None


def lines(path: Path) -> list[str]:
    """What acts in a run, and the widths of dense networks of as many bytes."""
    folder = RunFolder(path)
    matrix = folder.read_matrix()
    if matrix is None or "weights" not in matrix.bytes:
        raise Mistake(f"{path} does not say how many bytes act: evaluate the run first")
    plan, available = read_plan(folder.record["config"]), matrix.bytes["weights"]
    net, interface = plan.config.net, suite_for(plan, report=None).interface
    normalisers = len(matrix.tasks) * normaliser_bytes(interface)
    told = [f"{available:,} bytes act in {path}"]
    for whose, networks in (("naive, multitask", 1), ("single", len(matrix.tasks))):
        width = dense_width(net, interface, (available - normalisers) // networks)
        taken = networks * dense_bytes(net, interface, width) + normalisers
        told.append(f"{whose}: --net.width {width}, {taken:,} bytes")
    return told


def dense_width(net: NetConfig, interface: Interface, available: int) -> int:
    """The largest width of a dense network that takes at most so many bytes; a multiple of the number of heads."""
    step, low = getattr(net, "heads", 1), 0
    high = WIDEST // step  # in steps: low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        if dense_bytes(net, interface, middle * step) <= available:
            low = middle
        else:
            high = middle
    if low == 0:
        raise Mistake(f"no network of this kind takes as little as {available:,} bytes")
    return low * step


def dense_bytes(net: NetConfig, interface: Interface, width: int) -> int:
    """The bytes of the parameters of a dense network of this width."""
    if not hasattr(net, "width"):
        raise Mistake("this backbone has no net.width to vary")
    return NUMBER * parameter_count(replace(net, width=width), interface)  # type: ignore[call-arg]


def normaliser_bytes(interface: Interface) -> int:
    """The bytes of the normaliser that every task has of its own: a shift and a scale."""
    return 2 * NUMBER * (prod(interface.observation) if interface.normalised else 1)


if __name__ == "__main__":
    main()
