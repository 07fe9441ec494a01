"""The device that a run is trained on, and whether it has enough memory."""

import os
from math import prod

import torch

from holdfast.errors import Mistake
from holdfast.learners.learner import LearnerConfig
from holdfast.nets.backbone import parameter_count
from holdfast.tasks.interface import Interface

PER_PARAMETER = 16  # bytes: its value, its gradient and the optimiser's two moments, four each
PER_ACTIVATION = 2  # bytes, in the smallest precision


def check_device(device: str) -> str:
    """The device to run on; `auto` is the GPU if there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or not (number or "0").isdigit():
        raise Mistake(f"there is no device {device!r}; there are auto, cpu, cuda")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise Mistake(f"there is no {device} on this machine: use --device cpu")
    return device


def check_memory(config: LearnerConfig, interface: Interface, device: str) -> None:
    """Raises if training needs more memory than the device has."""
    parameters = parameter_count(config.net, interface)
    steps = config.fit.batch * min(config.net.context, interface.horizon)
    observed = steps * prod(interface.observation)
    activations = steps * config.net.activations
    needed = PER_PARAMETER * parameters + PER_ACTIVATION * activations + observed
    there = memory_of(device)
    if needed > there:
        raise Mistake(
            f"a network of {parameters:,} parameters and batches of {config.fit.batch:,} windows need at least "
            f"{needed / 1e9:,.0f} GB to train, and this machine has {there / 1e9:,.0f} GB on {device}: "
            "lower net.width, net.layers, net.context or fit.batch"
        )


def memory_of(device: str) -> int:
    """The bytes of memory that a device has."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
