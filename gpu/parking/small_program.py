"""The small process of self-tests: ``python -I -S small_program.py DRIVER MIB [FIFO]``.

It takes this much of the GPU's memory, says ``ready``, and for each line that it is sent (through
its input, or a FIFO) says whether its memory still holds what it wrote there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any


def main(arguments: list[str]) -> int:
    """Take the memory, then answer until nobody asks any more."""
    driver = ctypes.CDLL(arguments[0])
    size = int(arguments[1]) << 20
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    content = os.urandom(1 << 16) * (size >> 16)
    taken = (
        ("cuInit", 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
        ("cuCtxSetCurrent", context),
        ("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)),
        ("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(size)),
    )
    for name, *values in taken:
        code = getattr(driver, name)(*values)
        if code:
            _say(f"The GPU cannot be used here ({name}: {code}).")
            return 1
    _say("ready")
    with open(arguments[2] if arguments[2:] else 0, encoding="ascii") as asked:  # noqa: PTH123 - 0 is no path
        for _ in asked:
            _say("same" if _read(driver, address, size) == content else "another")
    return 0


def _read(driver: Any, address: Any, size: int) -> bytes:
    found = ctypes.create_string_buffer(size)
    code = driver.cuMemcpyDtoH_v2(found, address, ctypes.c_size_t(size))
    return b"" if code else found.raw


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
