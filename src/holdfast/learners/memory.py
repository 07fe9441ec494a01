"""The memory that training takes at least, estimated before anything is allocated."""

import os
from math import prod

import torch

from holdfast.errors import Mistake
from holdfast.learners.plan import LearnerConfig
from holdfast.nets.transformer import parameter_count
from holdfast.tasks.interface import Interface

PER_PARAMETER = 16  # bytes: its value, its gradient and the optimiser's two moments, four each
PER_ACTIVATION = 2  # bytes, in the smallest precision
ACTIVATIONS = 12  # kept for the backward pass, per block and entry of a token: both norms, attention, the wide layer


def check_memory(config: LearnerConfig, interface: Interface, device: str) -> None:
    """Raises if training needs more memory than the device has."""
    parameters = parameter_count(config.net, interface)
    steps = config.fit.batch * min(config.net.context, interface.horizon)
    observed = steps * prod(interface.observation)
    activations = 3 * steps * config.net.width * config.net.layers * ACTIVATIONS  # three tokens a step
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
