"""Runs on this machine: so many processes at once."""

import os
from pathlib import Path

import torch

from holdfast.runs.attempt import Attempt, Engine, Process
from holdfast.runs.grid import Job


class Local(Engine):
    """Processes; where there are several GPUs, the runs take them in turn."""

    def __init__(self, places: int, gpus: int) -> None:
        self.places, self.gpus, self.started = places, gpus, 0

    def start(self, job: Job, log: Path) -> Attempt:
        self.started += 1
        own = {"CUDA_VISIBLE_DEVICES": str(self.started % self.gpus)} if self.gpus > 1 else {}
        return Process(job, job.words, job.path, log, own)


def places_here(threads: int, device: str) -> int:
    """How many runs this machine has room for: one a GPU, or as many as leave each its threads."""
    if device.startswith("cuda"):
        return torch.cuda.device_count()
    return max(len(os.sched_getaffinity(0)) // threads, 1)
