"""Runs in processes on this machine, several at once."""

import os
from pathlib import Path

import torch

from holdfast.study.jobs import Job
from holdfast.study.running import Engine, Launch, RunningJob, RunProcess


class LocalEngine(Engine):
    """Processes; with several GPUs, each run gets the GPU with the fewest runs."""

    def __init__(self, places: int, gpus: int) -> None:
        self.places, self.running = places, dict[int, list[RunProcess]]({gpu: [] for gpu in range(gpus)})

    def start(self, job: Job, log: Path) -> RunningJob:
        if len(self.running) < 2:
            return RunProcess(Launch.of(job), log, {})
        self.running = {gpu: [run for run in runs if not run.ended] for gpu, runs in self.running.items()}
        gpu = min(self.running, key=lambda gpu: len(self.running[gpu]))
        process = RunProcess(Launch.of(job), log, {"CUDA_VISIBLE_DEVICES": str(gpu)})
        self.running[gpu].append(process)
        return process


def places_here(threads: int, device: str) -> int:
    """How many runs this machine has room for: one per GPU, or as many as have cores for their threads."""
    if device.startswith("cuda"):
        return torch.cuda.device_count()
    return max(len(os.sched_getaffinity(0)) // threads, 1)
