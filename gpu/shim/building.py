"""Builds the shim's libraries from C, with whatever compiler there is.

The package's build hook loads this file by its path, before the package exists: it needs nothing
but Python. The libraries run on every glibc since 2.17 whoever compiles them: ``baseline.h`` pins
what moved since, and zig brings the old headers along.

``python -m gpucommons.gpu.shim`` builds for this machine, into the checkout.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
#: Where the libraries lie, in a checkout and in an installed package.
LIBRARIES = HERE / "lib"

CUDA, NVML = "libcuda.so.1", "libnvidia-ml.so.1"
#: Library, the name that the driver's own has beside it, its sources.
_PARTS = (
    (
        CUDA,
        "libcuda-real.so.1",
        ("arrays", "contexts", "ledger", "lookup", "memory", "pools", "process", "table", "views",
         "vmm"),
    ),
    (NVML, "libnvidia-ml-real.so.1", ("ledger", "nvml", "process")),
)  # fmt: skip
#: Beside a tree that can be saved, and beside CRIU: `gpu.hibernation` says what they are for.
SEMAPHORES, SECCOMP = "libgpucommons-semaphores.so", "libgpucommons-seccomp.so"
PRELOADED = {SEMAPHORES: ("removed_names.c", "semaphores.c"), SECCOMP: ("seccomp.c",)}
_PRELOAD = HERE.parent / "hibernation" / "preload"
#: Where they lie, in a checkout and in an installed package.
PRELOADS = _PRELOAD / "lib"
#: Architectures whose libraries we know to be right.
MACHINES = ("x86_64", "aarch64")
#: The oldest glibc that the libraries run on.
OLDEST_GLIBC = (2, 17)

_FLAGS = (
    "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-pthread",
    "-Wall", "-Wextra", "-Werror",
)  # fmt: skip


class CannotBuildShim(Exception):
    """The shim's libraries cannot be built here."""


def supported(machine: str) -> bool:
    """Whether there is a shim for this system at all."""
    return sys.platform == "linux" and machine in MACHINES


def compiler(machine: str | None = None) -> list[str]:
    """The command that compiles C for this architecture (that of this machine).

    Raises
    ------
    CannotBuildShim
        When there is none, with what would help.
    """
    here = platform.machine()
    machine = machine or here
    if not supported(machine):
        message = (
            f"The shim is for Linux on {' and '.join(MACHINES)}; this is {sys.platform}/{machine}."
        )
        raise CannotBuildShim(message)
    named = os.environ.get("CC")
    found = next(
        filter(None, map(shutil.which, [named] if named else ["cc", "gcc", "clang"])), None
    )
    if found and machine == here:
        return [found]
    if importlib.util.find_spec("ziglang"):
        target = f"{machine}-linux-gnu.{OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]}"
        return [sys.executable, "-m", "ziglang", "cc", "-target", target]
    message = (
        f"no C compiler for {machine}: install gcc, or `pip install ziglang`, and build again."
    )
    raise CannotBuildShim(message)


def build(
    folder: Path = LIBRARIES, *, machine: str | None = None, flags: Sequence[str] = ()
) -> Path:
    """Compile both libraries into this folder and return it.

    Raises
    ------
    CannotBuildShim
        When there is no compiler, or it fails.
    """
    command = [*compiler(machine), *_FLAGS, *flags]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name, real, sources in _PARTS:
            _link(command, Path(scratch), real, sources)
            # Renamed into place: a process that has the old one mapped keeps it.
            (Path(scratch) / "library").replace(folder / name)
    return folder


def build_preloads(
    folder: Path = PRELOADS, *, machine: str | None = None, flags: Sequence[str] = ()
) -> Path:
    """Compile the libraries that hibernation loads into programs into this folder and return it.

    Raises
    ------
    CannotBuildShim
        When there is no compiler, or it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        for name, sources in PRELOADED.items():
            library = Path(scratch) / name
            paths = [str(_PRELOAD / source) for source in sources]
            _run([*compiler(machine), *_FLAGS, *flags, "-shared", *paths, "-o", str(library)])
            library.replace(folder / name)
    return folder


def built(folder: Path = LIBRARIES) -> bool:
    """Whether the libraries are there and not older than their sources."""
    libraries = [folder / name for name, _, _ in _PARTS]
    if not all(library.exists() for library in libraries):
        return False
    oldest = min(library.stat().st_mtime for library in libraries)
    return all(source.stat().st_mtime <= oldest for source in SOURCES.glob("*.[ch]"))


def _link(command: Sequence[str], scratch: Path, real: str, sources: Sequence[str]) -> None:
    # The driver's library is not here: an empty one of its name makes the linker write it down.
    empty = scratch / "empty.c"
    empty.write_text("")
    stand_in = scratch / real
    _run([*command, "-shared", f"-Wl,-soname,{real}", str(empty), "-o", str(stand_in)])
    soname = real.replace("-real", "")
    _run([
        *command, "-shared", f"-Wl,-soname,{soname}", "-Wl,-rpath,$ORIGIN", "-Wl,-z,nodelete",
        *(str(SOURCES / f"{source}.c") for source in sources),
        "-Wl,--no-as-needed", str(stand_in), "-o", str(scratch / "library"),
    ])  # fmt: skip


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{command[0]} cannot build the shim:\n{done.stderr.strip()}"
        raise CannotBuildShim(message)
