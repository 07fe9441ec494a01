"""What a GPU does otherwise than a CPU: kernels of our own, products in half precision, a function as one launch."""

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
    """Whether our kernels can run where this tensor is."""
    return tensor.is_cuda and TRITON


def precision_of_products(device: torch.device) -> torch.dtype:
    """What the factors of a product are rounded to: half where autocast says so."""
    half = torch.is_autocast_enabled(device.type)
    return torch.get_autocast_dtype(device.type) if half else torch.float32


def captured(function: Callable[[], Out], pool: Any = None) -> Callable[[], Out]:
    """The function as one CUDA graph, which reads and writes the memory that the function touched when captured.

    The function is called a few times before.
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
    """Keeps the garbage collector still: freeing an older graph during a capture makes the capture fail."""
    gc.collect()
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
