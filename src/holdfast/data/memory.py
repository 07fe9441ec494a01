"""A limit on memory while a file from a stranger is read: what decompresses to more fails instead of taking it all."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.data.raw_episodes import largest

OWN = 2**28  # bytes that libraries reserve for themselves
STATE = Path("/proc/self/statm")  # its first number is the size of the process, in pages; only Linux has it


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Inside the block, the process can grow by twice the largest dataset; beyond that, allocations fail."""
    if not STATE.exists():
        yield
        return
    size = int(STATE.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([size + 2 * largest() + OWN, *allowed]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
