"""Whether the kernels of this server can be parked, found out once for each driver and kind of slice."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.parking.self_test import ParkAbility, self_test
from gpucommons.gpu.shim import find_drivers
from gpucommons.labextension.self_test_notes import Note

_TESTED = "park-self-test.json"
#: A GPU's driver takes seconds to start, several times over.
_SELF_TEST_S = 60
NO_DRIVER = "There is no driver of NVIDIA here."
NO_GPU = "This server has no GPU."
#: What container runtimes take for none.
_NO_DEVICES = frozenset({"", "void", "none"})
MIG = "It uses a part of a card that was cut (MIG), which cannot be parked."


@dataclass(frozen=True, kw_only=True, slots=True)
class Ability:
    """NVIDIA's driver where it can; else why not, as a sentence."""

    driver: Path | None = None
    because: str = ""
    #: Until it is worth another try; None = never.
    again_s: float | None = None


def ability(
    environ: Mapping[str, str],
    folder: Path,
    *,
    find: Callable[[], Path | None] = lambda: find_drivers().cuda,
    test: Callable[..., ParkAbility] = self_test,
    now_s: Callable[[], float] = time.time,
) -> Ability:
    """Try it with a small process, unless that was tried here before; it is noted in this folder."""
    driver, visible = find(), _visible(environ)
    if driver is None:
        return Ability(because=NO_DRIVER)
    if visible == "":
        return Ability(because=NO_GPU)
    if visible is not None and visible.startswith("MIG-"):
        return Ability(because=MIG)
    interposer = _interposer(environ)
    here = {
        "system": list(platform.uname()),
        # Not which GPU: the next server may have another one of this machine's.
        "driver": [str(driver), interposer is not None],
    }
    note = Note.of(
        folder / _TESTED,
        here,
        lambda: test(driver, _SELF_TEST_S, loaded=interposer).because,
        now_s,
    )
    if note.because:
        return Ability(because=note.because, again_s=note.again_s(now_s()))
    return Ability(driver=driver)


async def driver_when_tested(
    ask: Callable[[], Ability],
    *,
    say: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Path | None:
    """The driver once a test has passed, however many failed before; None where none ever can.

    A machine that was busy, or a card that was full, when its server began costs it parking for a while
    only. Why it cannot is said again when it is another reason.
    """
    said = ""
    while True:
        found = await asyncio.to_thread(ask)
        if found.because and found.because != said:
            said = found.because
            say(said)
        if found.again_s is None:
            return found.driver
        await sleep(found.again_s)


def _visible(environ: Mapping[str, str]) -> str | None:
    """The devices of this server; in a pod its runtime is told them, and not every program."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        found = environ.get(name)
        if found is not None:
            return "" if found in _NO_DEVICES else found
    return None


def _interposer(environ: Mapping[str, str]) -> Path | None:
    """What programs of a part of a GPU load in the driver's place."""
    for each in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if each and (Path(each) / "libcuda-real.so.1").exists():
            return Path(each) / "libcuda.so.1"
    return None
