"""Where the driver's own libraries lie on this machine.

The path that the dynamic linker would take is of no use: in a slice it leads to the shim.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.shim import building

#: Where distributions and container toolkits put them, for systems without a linker cache.
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/nvidia/lib64", "/run/opengl-driver/lib", "/usr/lib/wsl/lib",
)  # fmt: skip
_LDCONFIG_SECONDS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Drivers:
    """The real libraries; None where there is none."""

    cuda: Path | None
    nvml: Path | None


def find_drivers(folders: Iterable[str] = FOLDERS) -> Drivers:
    """Look in the linker's cache, then in the folders where drivers are usually put."""
    cached = _linker_cache()
    places = [Path(folder) for folder in folders]
    return Drivers(
        cuda=_first(building.CUDA, cached, places), nvml=_first(building.NVML, cached, places)
    )


def _first(name: str, cached: Iterable[Path], folders: Iterable[Path]) -> Path | None:
    candidates = [path for path in cached if path.name == name]
    candidates += [folder / name for folder in folders]
    for candidate in candidates:
        try:
            # The file itself, under the driver's version: the link changes with an upgrade.
            return candidate.resolve(strict=True)
        except OSError:
            continue
    return None


def _linker_cache() -> list[Path]:
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if ldconfig is None:
        return []
    try:
        listed = subprocess.run(
            [ldconfig, "-p"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LDCONFIG_SECONDS,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    # "libcuda.so.1 (libc6,x86-64) => /usr/lib/…": those of 32-bit programs are "(libc6)" alone.
    lines = [line for line in listed.splitlines() if "(libc6," in line and "=>" in line]
    return [Path(line.split("=>", 1)[1].strip()) for line in lines]
