"""A machine with one pretended card: its driver, programs that use it, and slices of it.

The tests and ``benchmarks.slices`` load this file by its path.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu import shim
from gpucommons.gpu.shim import building

HERE = Path(__file__).parent
MIB = 1 << 20
ROUTES = "abcdefg"
OUT_OF_MEMORY = 2
_STATE = struct.Struct("<QQ")
_STATE_BYTES = _STATE.size + 256 * 16
_STRICT = ("-Wall", "-Wextra", "-Werror", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-pthread")


class Client:
    """A program on the card that does what it is told; see ``client.py``."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, HERE / "client.py"],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __call__(self, *words: object) -> list[int]:
        """Call a function of the driver: its result, then what it filled in."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        answer: list[int] = json.loads(self._process.stdout.readline())
        return answer

    def alloc(self, mib: float) -> int:
        """Plain memory; its address, or 0 when the driver says that there is none."""
        answer, address = self("cuMemAlloc_v2", "out", int(mib * MIB))
        assert answer in (0, OUT_OF_MEMORY)
        return address

    def free(self, address: int) -> None:
        """Give plain memory back."""
        assert self("cuMemFree_v2", address) == [0]

    def kill(self) -> None:
        """End it without warning; again is harmless."""
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Machine:
    """Folders with what was built, and the file that is the card."""

    #: The driver's libcuda.so.1.
    driver: Path
    programs: Path
    state: Path

    def put_card(self, total_mib: int) -> None:
        """An unused card of this size."""
        self.state.write_bytes(_STATE.pack(total_mib * MIB, 0).ljust(_STATE_BYTES, b"\0"))

    @property
    def peak_mib(self) -> float:
        """The most that was ever in use."""
        return int(_STATE.unpack_from(self.state.read_bytes())[1]) / MIB

    def slice(self, folder: Path, mib: int, nvml: Path | None = None) -> Path:
        """A slice of the card; returns the folder for the library path."""
        shim.prepare(
            folder,
            limit_bytes=mib * MIB,
            device_uuid="",
            owner_uid=os.getuid(),
            drivers=shim.Drivers(cuda=self.driver, nvml=nvml),
        )
        return folder

    def env(self, library_path: Path | None, **more: str) -> dict[str, str]:
        """The environment of a program whose driver lies in this folder (the real one)."""
        path = self.driver.parent if library_path is None else library_path
        return os.environ | {
            "LD_LIBRARY_PATH": str(path),
            "FAKE_CUDA_STATE": str(self.state),
            **more,
        }

    def client(self, library_path: Path | None) -> Client:
        """A program that has started the driver."""
        client = Client(self.env(library_path))
        assert client("cuInit", 0) == [0]
        return client

    def route(self, route: str, mib: int, env: Mapping[str, str]) -> int:
        """Ask for memory by this route; the driver's answer."""
        program = self.programs / ("linked" if route == "a" else "routes")
        last = {"e": self.programs / "plugin.so", "g": self.driver}.get(route, Path())
        done = subprocess.run(
            [program, route, str(mib), str(last)],
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return int(done.stdout or -1)


def build(folder: Path, flags: Sequence[str] = ()) -> Machine:
    """Compile the driver and the programs.

    Raises
    ------
    CannotBuildShim
        When there is no compiler.
    """
    command = [*building.compiler(), *_STRICT, *flags]
    driver, programs = folder / "driver", folder / "programs"
    driver.mkdir(parents=True)
    programs.mkdir()
    library = driver / "libcuda.so.1"
    shared = ["-shared", "-fPIC", "-fvisibility=hidden"]
    _cc([
        # Symbolic, like the real one: what a driver calls in itself does not pass through others.
        *command, *shared, "-Wl,-soname,libcuda.so.1,-Bsymbolic", f"-I{building.SOURCES}",
        HERE / "fake_cuda.c", building.SOURCES / "process.c", "-o", library, "-ldl",
    ])  # fmt: skip
    _cc([*command, HERE / "routes.c", "-o", programs / "routes", "-ldl"])
    _cc([*command, "-DLINKED", HERE / "routes.c", library, "-o", programs / "linked"])
    _cc([*command, *shared, "-DPLUGIN", HERE / "routes.c", library, "-o", programs / "plugin.so"])
    for name, hook in (("preload", ()), ("dlsym", ("-DHOOK_DLSYM",))):
        target = programs / f"{name}.so"
        _cc([*command, *shared, *hook, HERE / "preload.c", "-o", target, "-ldl"])
    for name in ("soak", "pairs"):
        _cc([*command, HERE / f"{name}.c", library, "-o", programs / name])
    return Machine(driver=library, programs=programs, state=folder / "card")


def _cc(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise building.CannotBuildShim(done.stderr)
