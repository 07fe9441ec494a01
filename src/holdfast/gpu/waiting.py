"""Waiting for a GPU: by default CUDA keeps a core busy meanwhile, which other processes may need."""

import ctypes

BLOCK = 4  # CU_CTX_SCHED_BLOCKING_SYNC: a thread that waits for the GPU sleeps


def wait_asleep() -> None:
    """Lets this process sleep while it waits for a GPU; call it before CUDA is used. Does nothing without a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return
    for number in range(count.value):
        device = ctypes.c_int()
        if driver.cuDeviceGet(ctypes.byref(device), number) == 0:
            driver.cuDevicePrimaryCtxSetFlags_v2(device, BLOCK)
