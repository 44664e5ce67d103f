"""A pretended card whose memory can be parked: its driver, what is on it, and programs that use it.

The tests load this file by its path.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpucommons.gpu.shim import building

HERE = Path(__file__).parent
MIB = 1 << 20
_FLAGS = ("-Wall", "-Wextra", "-Werror", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-pthread",
          "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")  # fmt: skip
#: Takes 8 MiB of the card, and says for each line what it finds there.
PROGRAM = """
import ctypes, os, sys
cuda = ctypes.CDLL(sys.argv[1])
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
size = ctypes.c_size_t(8 << 20)
if "managed" in sys.argv:
    assert cuda.cuMemAllocManaged(ctypes.byref(address), size, 1) == 0
else:
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), size) == 0
if "forks" in sys.argv and os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
for number in range(100):
    here = ctypes.c_uint64(address.value + (number << 10))
    assert cuda.cuMemcpyHtoD_v2(here, b"%04d" % number, ctypes.c_size_t(4)) == 0
    found = ctypes.create_string_buffer(4)
    first = ctypes.c_uint64(address.value)
    assert cuda.cuMemcpyDtoH_v2(found, first, ctypes.c_size_t(4)) == 0
    print(number, found.raw.decode(), flush=True)
    if not sys.stdin.readline():
        break
"""


class Card:
    """The card: a folder with what is on it."""

    def __init__(self, folder: Path, *, total_mib: int = 1024) -> None:
        folder.mkdir()
        self.folder = folder
        self.resize(total_mib)

    def resize(self, total_mib: int) -> None:
        """What it has in all; what is on it stays."""
        (self.folder / "total").write_text(f"{total_mib}\n")

    @property
    def used_mib(self) -> int:
        """What is on it; what ended without giving its memory back has none."""
        return (
            sum(each.stat().st_size for each in self.folder.glob("memory-*") if _held(each)) // MIB
        )

    def env(self, **more: str) -> dict[str, str]:
        """The environment of who sees it."""
        return os.environ | {"FAKE_CUDA_CARD": str(self.folder)} | more


def _held(piece: Path) -> bool:
    with piece.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def build(folder: Path, flags: Sequence[str] = ()) -> Path:
    """Compile the driver into this folder.

    Raises
    ------
    CannotBuildShim
        When there is no compiler.
    """
    library = folder / "libcuda.so.1"
    source = str(HERE / "fake_checkpoint.c")
    done = subprocess.run(
        [*building.compiler(), *_FLAGS, *flags, source, "-o", str(library)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise building.CannotBuildShim(done.stderr)
    return library


def command(driver: Path, *words: str) -> list[str]:
    """A program that uses the card."""
    return [sys.executable, "-u", "-c", PROGRAM, str(driver), *words]
