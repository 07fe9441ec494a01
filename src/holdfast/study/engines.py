"""Which engine carries out a sweep, and with which resources."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.agent.devices import check_device
from holdfast.data.validation import validate
from holdfast.errors import Mistake
from holdfast.study.gpu_service import gpu_service
from holdfast.study.jobs import Job
from holdfast.study.local import LocalEngine, gpus_here, places_here
from holdfast.study.running import Engine


@dataclass(frozen=True)
class Resources:
    """What runs may use; None means that it follows from the runs and the machine."""

    at_once: int | None = None
    cpus: float | None = None  # per run, on Ray
    gpus: float | None = None
    address: str | None = None  # of a Ray cluster
    gpu_service: bool = False  # whether a GPU serves several runs at the same time, on this machine

    def __post_init__(self) -> None:
        validate(self)
        if self.at_once is not None and self.at_once < 1:
            raise Mistake(f"--at-once must be at least 1, got {self.at_once}")
        if (self.cpus or 0) < 0 or (self.gpus or 0) < 0:
            raise Mistake("--cpus and --gpus must be at least 0")


def device_for(on: str, device: str, gpus: float | None) -> str:
    """The device that runs use: on Ray, the one asked for; on this machine, the one that there is."""
    if on == "ray" and device == "auto":
        return "cuda" if gpus else "cpu"
    return device if on == "ray" else check_device(device)


def engine_for(on: str, jobs: Sequence[Job], device: str, out: Path, resources: Resources) -> Engine:
    """The engine of this name."""
    threads = max((job.spec.plan.threads or 1 for job in jobs), default=1)
    if resources.gpu_service:
        _check_service(on, jobs)
    if on == "local":
        places = resources.at_once or places_here(threads, device, resources.gpu_service)
        service = gpu_service() if resources.gpu_service else None
        return LocalEngine(places, gpus_here() if device == "cuda" else (), service)
    from holdfast.study.ray_cluster import RayEngine

    per_run = resources.gpus if resources.gpus is not None else float(device.startswith("cuda"))
    cpus = resources.cpus if resources.cpus is not None else float(threads)
    return RayEngine(out, resources.address, cpus, per_run, resources.at_once or len(jobs))


def _check_service(on: str, jobs: Sequence[Job]) -> None:
    """Raises if runs could not use the multi-process service of this machine."""
    if on != "local":
        raise Mistake("--gpu-service is for runs on this machine: use --on local, or leave out --gpu-service")
    if not any(job.spec.device.startswith("cuda") for job in jobs):
        raise Mistake("--gpu-service is for runs on a GPU: use --device cuda, or leave out --gpu-service")
