"""What differs on a GPU: Triton kernels, half-precision matrix products, and CUDA graphs."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

TRITON = find_spec("triton") is not None
WARM_UPS = 3  # calls before a function is captured
Out = TypeVar("Out")


def own_kernels(tensor: Tensor) -> bool:
    """Whether our Triton kernels can run on the device of this tensor."""
    return tensor.is_cuda and TRITON


def precision_of_products(device: torch.device) -> torch.dtype:
    """The dtype of matrix products: autocast's if it is enabled, otherwise float32."""
    half = torch.is_autocast_enabled(device.type)
    return torch.get_autocast_dtype(device.type) if half else torch.float32


def captured(function: Callable[[], Out], pool: Any = None) -> Callable[[], Out]:
    """Captures a function as a CUDA graph, after a few warm-up calls; returns a function that replays the graph.

    A replay reads and writes the same memory as the captured call.
    """
    home, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(home)
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            function()
    home.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with nothing_freed(), torch.cuda.graph(graph, pool=pool):
        out = function()

    def replay() -> Out:
        graph.replay()
        return out

    return replay


@contextmanager
def nothing_freed() -> Iterator[None]:
    """Disables the garbage collector: freeing an older graph during a capture makes the capture fail."""
    gc.collect()
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
