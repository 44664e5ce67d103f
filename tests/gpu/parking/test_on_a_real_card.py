"""The real driver parks a real process, the card is free meanwhile, and CRIU saves what is parked.

Skipped where there is no card, or where the driver is older than parking; REQUIRE_GPU=1 makes that a
failure.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.agent.control.node import has_nvml
from gpucommons.gpu.hibernation.criu import find_criu
from gpucommons.gpu.hibernation.self_test import gpu_self_test
from gpucommons.gpu.parking.parking import Parked, Unparked, park, unpark
from gpucommons.gpu.parking.self_test import line, self_test, small_program

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
_SECONDS = 300


@pytest.fixture(scope="module")
def real_driver() -> Path:
    found = shim.find_drivers().cuda
    because = "there is no libcuda.so.1 here" if found is None else ""
    if found is not None:
        ability = self_test(found, _SECONDS)
        because = "" if ability.can_park else ability.because
    if because and os.environ.get("REQUIRE_GPU") == "1":
        pytest.fail(f"REQUIRE_GPU=1, but {because}")
    if because or found is None:
        pytest.skip(f"nothing can be parked: {because}")
    return found


def _on_the_card(pid: int) -> bool:
    import pynvml  # noqa: PLC0415 - asks for the driver's library when imported

    pynvml.nvmlInit()
    try:
        cards = range(pynvml.nvmlDeviceGetCount())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in cards]
        running = [pynvml.nvmlDeviceGetComputeRunningProcesses(handle) for handle in handles]
        return pid in {each.pid for several in running for each in several}
    finally:
        pynvml.nvmlShutdown()


def test_the_card_is_free_of_a_parked_process(real_driver: Path) -> None:
    with small_program(real_driver, _SECONDS) as program:
        assert line(program) == "ready"
        is_seen = has_nvml() and _on_the_card(program.pid)

        parked = park(real_driver, [program.pid])
        assert isinstance(parked, Parked), parked
        assert parked.host_bytes > 32 << 20
        # In a container NVML may name processes by the numbers outside: then it tells nothing.
        assert not (is_seen and _on_the_card(program.pid))

        unparked = unpark(real_driver, [program.pid])
        assert isinstance(unparked, Unparked), unparked
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
        assert line(program) == "same"


@pytest.mark.criu
def test_a_process_is_saved_with_its_gpu_memory(real_driver: Path, tmp_path: Path) -> None:
    criu = find_criu(os.environ)
    if criu is None:
        pytest.skip("there is no CRIU 4.2 or newer here")

    because = gpu_self_test(criu, tmp_path, real_driver, _SECONDS)

    if because is not None and os.environ.get("REQUIRE_GPU") != "1":
        pytest.skip(f"GPU memory cannot be saved here: {because}")
    assert because is None
