"""Waiting for a GPU: by default CUDA keeps a core busy meanwhile, which other processes may need."""

import ctypes

BLOCK = 4  # CU_CTX_SCHED_BLOCKING_SYNC: a thread that waits for the GPU sleeps


def wait_asleep() -> bool:
    """Lets this process sleep while it waits for a GPU; call it before CUDA is used. False if there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return False
    devices = [ctypes.c_int() for _ in range(count.value)]
    found = [driver.cuDeviceGet(ctypes.byref(device), number) for number, device in enumerate(devices)]
    return not any(found) and not any(driver.cuDevicePrimaryCtxSetFlags_v2(device, BLOCK) for device in devices)
