"""Runs in processes on this machine, several at once."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

import torch

from holdfast.study.jobs import Job
from holdfast.study.running import Engine, Launch, RunningJob, RunProcess
from holdfast.tasks.processes import CORES, usable_cores

SHARED = 8  # runs on one GPU under the multi-process service; bench/beside.py measures so many


class LocalEngine(Engine):
    """Processes; with several GPUs, each run gets the GPU with the fewest runs."""

    def __init__(
        self,
        places: int,
        gpus: Sequence[str],  # their names in CUDA_VISIBLE_DEVICES
        service: AbstractContextManager[Mapping[str, str]] | None = None,  # has environment variables for all runs
    ) -> None:
        self.places, self.service = places, service or nullcontext({})
        self.environment: Mapping[str, str] = {}
        self.running: dict[str, list[RunProcess]] = {gpu: [] for gpu in gpus}

    def __enter__(self) -> Self:
        share = max(usable_cores() // self.places, 1)
        self.environment = {CORES: str(share), **self.service.__enter__()}
        return self

    def __exit__(self, *_: object) -> None:
        self.service.__exit__(None, None, None)

    def start(self, job: Job, log: Path) -> RunningJob:
        if len(self.running) < 2:
            return RunProcess(Launch.of(job), log, self.environment)
        self.running = {gpu: [run for run in runs if not run.ended] for gpu, runs in self.running.items()}
        gpu = min(self.running, key=lambda gpu: len(self.running[gpu]))
        process = RunProcess(Launch.of(job), log, {**self.environment, "CUDA_VISIBLE_DEVICES": gpu})
        self.running[gpu].append(process)
        return process


def gpus_here() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]


def places_here(threads: int, device: str, shared: bool) -> int:
    """How many runs this machine has room for: as many as have cores for their threads, or one per GPU.

    If GPUs are shared, a GPU has room for several, if there are cores for them.
    """
    cores = max(usable_cores() // threads, 1)
    if not device.startswith("cuda"):
        return cores
    gpus = torch.cuda.device_count()
    return max(min(SHARED * gpus, cores), gpus) if shared else gpus
