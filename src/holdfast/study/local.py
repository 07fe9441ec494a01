"""Runs on this machine: so many processes at once."""

import os
from pathlib import Path

import torch

from holdfast.study.grid import Job
from holdfast.study.subprocess import Attempt, Engine, Process


class Local(Engine):
    """Processes; where there are several GPUs, each run has the one that the fewest have."""

    def __init__(self, places: int, gpus: int) -> None:
        self.places, self.running = places, dict[int, list[Process]]({gpu: [] for gpu in range(gpus)})

    def start(self, job: Job, log: Path) -> Attempt:
        if len(self.running) < 2:
            return Process(job, job.words, job.path, log, {})
        self.running = {gpu: [one for one in found if not one.ended] for gpu, found in self.running.items()}
        gpu = min(self.running, key=lambda gpu: len(self.running[gpu]))
        process = Process(job, job.words, job.path, log, {"CUDA_VISIBLE_DEVICES": str(gpu)})
        self.running[gpu].append(process)
        return process


def places_here(threads: int, device: str) -> int:
    """How many runs this machine has room for: one a GPU, or as many as leave each its threads."""
    if device.startswith("cuda"):
        return torch.cuda.device_count()
    return max(len(os.sched_getaffinity(0)) // threads, 1)
