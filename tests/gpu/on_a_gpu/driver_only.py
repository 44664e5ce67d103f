"""Inside a slice with nothing but the driver: what it shows, and what it lets allocate.

``driver_only.py fill`` allocates until it is refused; ``driver_only.py hold MIB SECONDS`` holds memory;
``driver_only.py pairs N`` times allocate-and-free. Prints one JSON object.
"""

import ctypes
import json
import sys
import time

MIB = 1 << 20
STEP_MIB = 256

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code not in (0, 2):
        sys.exit(f"{name} answers {code}")
    return code


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    return device


def alloc(mib):
    address = ctypes.c_uint64()
    return (
        0 if call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(mib * MIB)) else address
    )


def seen(device):
    free, total, whole = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    call("cuDeviceTotalMem_v2", ctypes.byref(whole), device)
    return {
        "free_mib": free.value // MIB,
        "total_mib": total.value // MIB,
        "device_total_mib": whole.value // MIB,
    }


def fill(device):
    before, held = seen(device), 0
    while alloc(STEP_MIB):
        held += STEP_MIB
    return {**before, "allocated_mib": held}


def hold(device, mib, seconds):
    got = bool(alloc(int(mib)))
    sys.stdout.write(json.dumps({"got": got}) + "\n")
    sys.stdout.flush()
    time.sleep(float(seconds))
    return {}


def pairs(_device, count):
    number = int(count)
    started = time.perf_counter()
    for _ in range(number):
        address = alloc(2)
        call("cuMemFree_v2", address)
    return {"pair_us": (time.perf_counter() - started) / number * 1e6}


sys.stdout.write(
    json.dumps({"fill": fill, "hold": hold, "pairs": pairs}[sys.argv[1]](begin(), *sys.argv[2:]))
    + "\n"
)
