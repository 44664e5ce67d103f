"""What can be seen of a process before the driver is asked: whether it uses a GPU, and what forbids it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
#: The driver's library: under its name, its version, or that of a slice's interposer.
_DRIVER = re.compile(r"/libcuda(?:-real)?\.so[.\d]*$")
#: The interposers of a part of a GPU lie beside links to the driver's own libraries.
_INTERPOSERS = {
    "libcuda.so.1": "libcuda-real.so.1",
    "libnvidia-ml.so.1": "libnvidia-ml-real.so.1",
}
_DEVICES = "/dev/nvidia"
_KIB = 1024
_MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What the driver does not say when it refuses."""

    #: It uses a part of a card that was cut (MIG).
    mig: bool = False
    #: It computes through NVIDIA's MPS.
    mps: bool = False
    #: Of this machine.
    architecture: str = "x86_64"


def with_driver(pids: Iterable[int]) -> tuple[int, ...]:
    """Those that have loaded NVIDIA's driver; what has not holds nothing of a GPU."""
    return tuple(pid for pid in pids if _has_driver(pid))


def of_others(pids: Iterable[int]) -> bool:
    """Whether one of them is not this user's: nobody parks with more rights than the process has."""
    for pid in pids:
        with suppress(OSError):
            if (_PROC / str(pid)).stat().st_uid != os.geteuid():
                return True
    return False


def circumstances(pids: Iterable[int]) -> Circumstances:
    """What may explain a refusal, as far as it can be read."""
    environs = [_environ(pid) for pid in pids]
    return Circumstances(
        mig=any(each.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-") for each in environs),
        mps=any(_MPS_PIPES in each for each in environs),
        architecture=os.uname().machine,
    )


def part_of_gpu(pid: int) -> str | None:
    """The library by which it keeps to a part of a GPU, from the folder of its slice; None = none."""
    for path in _mapped(pid):
        real = _INTERPOSERS.get(Path(path).name)
        if real is not None and Path(path).with_name(real).exists():
            return path
    return None


def holds_gpu(pid: int, devices: str = _DEVICES) -> bool:
    """Whether it has a GPU's device open."""
    with suppress(OSError):
        for number in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if str(number.readlink()).startswith(devices):
                    return True
    return False


def resident_bytes(pids: Iterable[int]) -> int:
    """What they have in the machine's own memory."""
    return sum(_resident(pid) for pid in pids)


def free_bytes() -> int | None:
    """What this process' group may still take of the machine's memory; None where it is not told."""
    found = [_available(), *_rooms_of_groups()]
    return min((each for each in found if each is not None), default=None)


def _available() -> int | None:
    with suppress(OSError):
        for line in (_PROC / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * _KIB
    return None


def _rooms_of_groups() -> Iterator[int]:
    """Of the control group and those above it, where they have a limit."""
    with suppress(OSError, StopIteration):
        text = (_PROC / "self" / "cgroup").read_text(encoding="utf-8")
        own = next(line[3:] for line in text.splitlines() if line.startswith("0::"))
        place = _CGROUPS / own.lstrip("/")
        for group in (place, *place.parents):
            with suppress(OSError, ValueError):
                limit = int((group / "memory.max").read_text(encoding="ascii"))
                yield limit - int((group / "memory.current").read_text(encoding="ascii"))
            if group == _CGROUPS:
                return


def _has_driver(pid: int) -> bool:
    return any(_DRIVER.search(path) for path in _mapped(pid))


def _mapped(pid: int) -> set[str]:
    """Libraries that it has loaded."""
    with suppress(OSError):
        text = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
        return {line.split(maxsplit=5)[5] for line in text.splitlines() if "/lib" in line}
    return set()


def _environ(pid: int) -> dict[str, str]:
    with suppress(OSError):
        text = (_PROC / str(pid) / "environ").read_text(encoding="utf-8", errors="replace")
        pairs = (entry.partition("=") for entry in text.split("\0"))
        return {name: value for name, _, value in pairs}
    return {}


def _resident(pid: int) -> int:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * _KIB
    return 0
