"""Whether this machine can save and wake kernels, found out once for each of its kernels and CRIUs."""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import psutil

from gpucommons.gpu.hibernation.above_server.orders import VARIABLE
from gpucommons.gpu.hibernation.criu import Criu, find_criu
from gpucommons.gpu.hibernation.self_test import NO_CRIU, gpu_self_test, self_test
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.gpu.parking.processes import holds_gpu, part_of_gpu
from gpucommons.gpu.shim import find_drivers
from gpucommons.labextension.private_files import write_private
from gpucommons.labextension.self_test_notes import Note

log = logging.getLogger("gpucommons.labextension")

_PASSED, _GPU_TESTED = "self-test.json", "gpu-self-test.json"
_SELF_TEST_S = 20
#: A GPU's driver takes seconds to start, several times over.
_GPU_SELF_TEST_S = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What this machine has to keep kernels with."""

    #: A kernel's processes, by their folder.
    make_tree: Callable[[Path], HibernatableTree]
    has_criu: bool
    #: A sentence why it cannot; None where it can. Takes a second where nobody has asked before.
    why_not: Callable[[], str | None]
    #: Whether a kernel here could hold a GPU at all; where none can, none needs to be looked at.
    may_hold_gpu: Callable[[], bool] = lambda: True


def this_machine(environ: Mapping[str, str], folder: Path) -> Machine:
    """This machine. A self-test that passed is noted in this folder."""
    named = environ.get(VARIABLE)
    # Root's program has a CRIU of its own, and is there only where users can make no namespaces.
    starter = Path(named) if named else None
    found = find_criu(environ) if starter is None else Criu(command=(), version="")
    criu = found or Criu(command=(), version="")
    #: Whoever starts a kernel or wakes one has asked `why_not` before.
    drivers: list[Path] = []

    def make_tree(place: Path) -> HibernatableTree:
        return HibernatableTree(
            place,
            criu,
            orphaned="save",
            output=place.with_name("kernel-output.log"),
            close_connections=True,
            driver=drivers[0] if drivers else None,
            starter=starter,
        )

    def why_not() -> str | None:
        try:
            if found is None:
                return NO_CRIU
            because = _tested(found, folder, starter)
            if because is None and starter is None and not drivers:
                drivers.extend(_parking_driver(found, folder, environ))
        except OSError as error:
            return f"Whether this machine can do it could not be tested ({error.strerror})."
        return because

    return Machine(
        make_tree=make_tree,
        has_criu=found is not None,
        why_not=why_not,
        may_hold_gpu=partial(may_hold_gpu, environ),
    )


def _boot() -> str:
    """Tells this machine since its start from every other: a home may be seen from many."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _tested(criu: Criu, folder: Path, starter: Path | None) -> str | None:
    """Only what passed is remembered: what failed may have been mended since."""
    here = {
        "criu": [*criu.command, criu.version],
        "system": [*platform.uname(), _boot()],
        # A program of its own for each start of the server.
        "starter": None if starter is None else str(starter),
    }
    try:
        if json.loads((folder / _PASSED).read_bytes()) == here:
            return None
    except (OSError, ValueError):
        pass
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ability = self_test(criu, folder, _SELF_TEST_S, starter=starter)
    if not ability.can_hibernate:
        return ability.because
    with suppress(OSError):  # it has passed all the same; the next server tries it again
        write_private(folder / _PASSED, json.dumps(here))
    return None


def _parking_driver(criu: Criu, folder: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """NVIDIA's driver, where kernels that hold GPU memory can be saved with it; else none."""
    driver = find_drivers().cuda
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if driver is None or visible == "" or _has_part_of_gpu(environ):
        return ()
    here = {
        "criu": [*criu.command, criu.version],
        "system": list(platform.uname()),
        # Not which GPU: the next server may have another one of this machine's.
        "driver": [str(driver), (visible or "").startswith("MIG-")],
    }

    def test() -> str:
        because = gpu_self_test(criu, folder, driver, _GPU_SELF_TEST_S) or ""
        if because:
            log.info("kernels that hold GPU memory are not saved here: %s", because)
        return because

    note = Note.of(folder / _GPU_TESTED, here, test, time.time)
    return () if note.because else (driver,)


def _has_part_of_gpu(environ: Mapping[str, str]) -> bool:
    """What its kernels load of the slice is gone when they would be woken, so they are not saved."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return any(each and (Path(each) / "libcuda-real.so.1").exists() for each in folders)


def may_hold_gpu(environ: Mapping[str, str], devices: Path = Path("/dev")) -> bool:
    """Whether there is a GPU, its driver or a slice's library; a device may come while we run."""
    return any(devices.glob("nvidia*")) or _has_part_of_gpu(environ) or _cuda_driver() is not None


@cache
def _cuda_driver() -> Path | None:
    """Asked of the linker once, as that takes a process."""
    return find_drivers().cuda


def holds_unsaved_gpu(kernels: Iterable[int], *, parks: bool) -> bool:
    """Whether one of these kernels, or what it started, holds a GPU in a way that cannot be saved.

    ``parks``: its tree was started with a driver that can park.
    """
    return any(
        part_of_gpu(pid) or (not parks and holds_gpu(pid)) for pid in _with_children(kernels)
    )


def _with_children(pids: Iterable[int]) -> Iterator[int]:
    """All of them by one look at the machine's processes, which may be many."""
    children: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process.pid)
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.pop(pid, ())
