"""Measures Panda fits beside each other, all steps per second: plain, and with NVIDIA's multi-process service.

python -m bench.beside
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import which

import torch
from rich.console import Console
from rich.table import Table

from bench.shapes import PANDA
from holdfast.gpu.waiting import wait_asleep
from holdfast.study.gpu_service import PROGRAM, gpu_service
from holdfast.training.cache_key import tensors_hash
from holdfast.training.config import FitConfig
from holdfast.training.fit import fit
from holdfast.training.recorder import Silent
from holdfast.training.step import result

FITS = {"cuda": 8, "cpu": 2}
STEPS = {"cuda": 2000, "cpu": 10}  # of each fit, timed; as many before them warm up


@dataclass(frozen=True)
class Row:
    """Fits at the same time, each in a process of its own."""

    what: str
    fits: int
    steps_per_s: float  # of all fits together
    cores: float  # that all fits together kept busy
    fingerprints: tuple[str, ...]  # of what each of them trained


class WarmFirst(Silent):
    """Half of the steps warm up; then a fit waits for a line, so that several go on together."""

    warm: float  # processor time when it was warm

    def pauses(self, phase: str, steps: int) -> Sequence[int]:
        return (steps // 2,)

    def pause(self, done: int) -> None:
        say("warm")
        sys.stdin.readline()
        self.warm = time.process_time()


def say(line: str) -> None:
    """Tells the process that measures."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def one_fit(device: str, steps: int, asleep: bool) -> None:
    """A fit in this process; prints when it ended, its processor time, and a fingerprint of what it trained."""
    if asleep:
        wait_asleep()
    model = PANDA.masked().to(device)
    recorder = WarmFirst()
    fit(model, PANDA.windows(device), FitConfig(2 * steps, PANDA.batch, clip=0.25), 0, recorder, "task")
    used = time.process_time() - recorder.warm
    say(f"{time.monotonic()} {used} {tensors_hash(result(model, None))}")


def beside(what: str, fits: int, device: str, steps: int, environment: Mapping[str, str], *words: str) -> Row:
    """Fits that begin their timed steps together; the clock stops when all have ended."""
    command = [sys.executable, "-m", "bench.beside", "--one", "--device", device, "--steps", str(steps), *words]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)
            )
            for _ in range(fits)
        ]
        for process in processes:
            read(process)
        began = time.monotonic()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        ended, used, fingerprints = zip(*(read(process) for process in processes), strict=True)
    seconds = max(map(float, ended)) - began
    return Row(what, fits, fits * steps / seconds, sum(map(float, used)) / seconds, fingerprints)


def read(process: subprocess.Popen[str]) -> list[str]:
    """The words of the next line that a fit prints."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    if not words:
        raise RuntimeError(f"a fit ended with exit code {process.wait()}")
    return words


def measure(fits: int, device: str, steps: int) -> Iterator[Row]:
    """One fit alone, several plain processes, and the same with the service if it is on this machine."""
    yield beside("alone", 1, device, steps, {})
    yield beside("plain processes", fits, device, steps, {})
    if which(PROGRAM):
        with gpu_service() as variables:
            yield beside("multi-process service", fits, device, steps, variables)
            yield beside("multi-process service, waiting asleep", fits, device, steps, variables, "--asleep")
            yield beside("the same, twice as many", 2 * fits, device, steps, variables, "--asleep")


def main() -> None:
    """Prints the table, and exits with 1 if a fit ended at other bits than alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=FITS, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--fits", type=int)
    parser.add_argument("--steps", type=int, help="timed steps of each fit; as many before them warm up")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", action="store_true", help="carry out one of the fits; used by this program itself")
    parser.add_argument("--asleep", action="store_true", help="with --one: sleep while waiting for the GPU")
    arguments = parser.parse_args()
    device = arguments.device
    fits, steps = arguments.fits or FITS[device], arguments.steps or STEPS[device]
    if arguments.one:
        one_fit(device, steps, arguments.asleep)
        return
    alone, plain, *rest = rows = list(measure(fits, device, steps))
    name = torch.cuda.get_device_name() if device == "cuda" else f"{len(os.sched_getaffinity(0))} cores"
    table = Table(
        "Panda fits", "number", "steps/s in all", "ratio to plain", "cores", "bits", title=f"{device}, {name}"
    )
    equal = [set(row.fingerprints) == set(alone.fingerprints) for row in rows]
    for row, same in zip(rows, equal, strict=True):
        numbers = (
            f"{row.fits}",
            f"{row.steps_per_s:,.2f}",
            f"{row.steps_per_s / plain.steps_per_s:.2f}",
            f"{row.cores:.1f}",
        )
        table.add_row(row.what, *numbers, "equal" if same else "[red]not equal")
    Console().print(table)
    if not rest:
        Console().print(f"there is no {PROGRAM} here: the multi-process service was not measured")
    if arguments.json:
        command = f"python -m bench.beside --device {device} --fits {fits} --steps {steps}"
        record = {"command": command, "machine": {"device": device, "name": name, "torch": torch.__version__}}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({**record, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
