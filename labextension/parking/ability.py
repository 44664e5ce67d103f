"""Whether the kernels of this server can be parked, found out once for each driver and kind of slice."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucommons.gpu.parking.self_test import ParkAbility, self_test
from gpucommons.gpu.shim import find_drivers
from gpucommons.labextension.hibernation.kept import write_private

_TESTED = "park-self-test.json"
#: A GPU's driver takes seconds to start, several times over.
_SELF_TEST_S = 60
#: What failed is tried again after so long: each start of a server would take the GPU for it.
_FAILED_FOR_S = 24 * 3600
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


def ability(
    environ: Mapping[str, str],
    folder: Path,
    *,
    find: Callable[[], Path | None] = lambda: find_drivers().cuda,
    test: Callable[..., ParkAbility] = self_test,
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
    path = folder / _TESTED
    noted = _noted(path)
    at_s, because = noted.get("at_s"), noted.get("because")
    is_recent = isinstance(at_s, float) and time.time() - at_s < _FAILED_FOR_S
    if noted.get("here") != here or not isinstance(because, str) or (because and not is_recent):
        because = test(driver, _SELF_TEST_S, loaded=interposer).because
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, json.dumps({"here": here, "because": because, "at_s": time.time()}))
    return Ability(because=because) if because else Ability(driver=driver)


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


def _noted(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
