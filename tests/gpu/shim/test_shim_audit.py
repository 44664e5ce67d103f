"""No way to get memory is passed over by mistake, also in a driver of the future."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.shim import audit, building

CALLS = Path(__file__).parents[1] / "fake_cuda" / "driver_calls.txt"


def between_zeros(*names: str) -> bytes:
    return b"\0" + b"\0".join(name.encode() for name in names) + b"\0"


def test_every_call_of_todays_drivers_is_judged() -> None:
    """The list is of CUDA 13.5: what its headers call allocating."""
    names = CALLS.read_text().split()

    assert audit.unknown_calls(between_zeros(*names)) == ()
    assert len(names) > 60


@pytest.mark.parametrize(
    "name",
    ["cuMemAlloc_v3", "cuMemAllocFromTheFuture", "cuArray4DCreate", "cuGraphAddMemPoolNode"],
)
def test_a_new_call_is_named(name: str) -> None:
    names = between_zeros("cuMemAlloc_v2", name, "cuLaunchKernel", "cuMemGetAllocSomething")

    assert audit.unknown_calls(names) == (name,)


def test_the_hooks_are_what_the_library_exports(shim_libraries: Path) -> None:
    data = (shim_libraries / building.CUDA).read_bytes()

    assert len(audit.hooks()) > 40
    assert {name for name in audit.hooks() if f"\0{name}\0".encode() not in data} == set()


def test_nothing_is_both_hooked_and_let_through() -> None:
    assert audit.hooks() & frozenset().union(*audit.LET_THROUGH.values()) == set()


def test_a_drivers_library_is_read_as_it_is(machine: Any, tmp_path: Path) -> None:
    assert audit.audit(machine.driver) == ()

    newer = tmp_path / "libcuda.so.1"
    newer.write_bytes(machine.driver.read_bytes() + between_zeros("cuMemAllocElsewhere"))
    assert audit.audit(newer) == ("cuMemAllocElsewhere",)


def test_the_driver_of_this_machine_has_no_unknown_calls() -> None:
    drivers = shim.find_drivers()
    if drivers.cuda is None:
        pytest.skip("this machine has no driver to audit")

    assert audit.audit(drivers.cuda) == ()


def test_the_real_runtime_asks_for_its_functions_through_the_shim(
    machine: Any, a_slice: Path
) -> None:
    """It cannot start on a pretended driver (it needs private tables), but it loads and asks."""
    pytest.importorskip("nvidia.cuda_runtime", reason="nvidia-cuda-runtime-cu12 is not installed")
    import nvidia.cuda_runtime  # noqa: PLC0415 - looked for above

    [folder] = nvidia.cuda_runtime.__path__
    library = next(Path(folder, "lib").glob("libcudart.so*"))
    asked = (
        "import ctypes, sys; cudart = ctypes.CDLL(sys.argv[1]); count = ctypes.c_int(-1);"
        "answer = cudart.cudaGetDeviceCount(ctypes.byref(count));"
        "maps = open('/proc/self/maps').read();"
        "print(answer, sys.argv[2] in maps, 'driver/libcuda.so.1' in maps)"
    )
    for path, shimmed in ((a_slice, True), (None, False)):
        done = subprocess.run(
            [sys.executable, "-c", asked, str(library), str(a_slice / building.CUDA)],
            env=machine.env(path),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        answer, through_shim, driver = done.stdout.split()
        assert (through_shim, driver) == (str(shimmed), "True")
        assert int(answer) != 0
    view = shim.read_ledger(a_slice)
    assert view is not None
