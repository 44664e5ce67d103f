"""Unmodified tools see the slice as if it were the card, and nothing of the neighbours."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.shim import layout

MIB = 1 << 20
NEIGHBOUR = 4_000_001

#: Everything that a curious program would ask.
ASK = """
import json, pynvml as nv
nv.nvmlInit()
def ask(function, *words):
    try:
        return function(*words)
    except nv.NVMLError as error:
        return type(error).__name__
card = nv.nvmlDeviceGetHandleByIndex(0)
memory, newer = ask(nv.nvmlDeviceGetMemoryInfo, card), ask(nv.nvmlDeviceGetMemoryInfo, card, nv.nvmlMemory_v2)
rates = ask(nv.nvmlDeviceGetUtilizationRates, card)
pids = lambda found: [entry.pid for entry in found] if isinstance(found, list) else found
infos = ask(nv.nvmlDeviceGetProcessesUtilizationInfo, card, 0)
print(json.dumps({
    "count": nv.nvmlDeviceGetCount(), "uuid": nv.nvmlDeviceGetUUID(card),
    "index": nv.nvmlDeviceGetIndex(card), "second": ask(nv.nvmlDeviceGetHandleByIndex, 1) if nv.nvmlDeviceGetCount() < 2 else "",
    "memory": memory if isinstance(memory, str) else [memory.total >> 20, memory.free >> 20, memory.used >> 20],
    "newer": newer if isinstance(newer, str) else [newer.total >> 20, newer.reserved, newer.free >> 20, newer.used >> 20],
    "compute": pids(ask(nv.nvmlDeviceGetComputeRunningProcesses, card)),
    "graphics": pids(ask(nv.nvmlDeviceGetGraphicsRunningProcesses, card)),
    "utilization": pids(ask(nv.nvmlDeviceGetProcessUtilization, card, 0)),
    "rates": rates if isinstance(rates, str) else [rates.gpu, rates.memory],
    "infos": pids(infos),
}))
"""


@pytest.fixture
def cards(nvml_state: ModuleType, tmp_path: Path) -> Any:
    """Two cards of 40 GiB; on the second this slice and a neighbour."""
    cards = nvml_state.FakeNvml(tmp_path / "nvml-state", cards=2)
    cards.process(NEIGHBOUR, device=1, memory_mib=30000, sm=90)
    cards.card(1, gpu_percent=95)
    return cards


@pytest.fixture
def the_slice(
    cards: Any, machine: Any, build_fake_nvml: Callable[..., Path], tmp_path: Path
) -> Path:
    folder = tmp_path / "nvml-slice"
    nvml = build_fake_nvml() / "libnvidia-ml.so.1"
    drivers = shim.Drivers(cuda=machine.driver, nvml=nvml)
    shim.prepare(
        folder, limit_bytes=8192 * MIB, device_uuid=cards.uuid(1), owner_uid=os.getuid(),
        drivers=drivers,
    )  # fmt: skip
    return folder


@pytest.fixture
def member(machine: Any, cards: Any, the_slice: Path) -> Iterator[int]:
    """A process of the slice that holds 1 GiB and a context of 500 MiB."""
    program = machine.client(the_slice)
    program.alloc(1024)
    cards.process(program.pid, device=1, memory_mib=1524, sm=7)
    yield program.pid
    program.kill()


def run(cards: Any, folder: Path, *command: str) -> str:
    env = os.environ | {
        "LD_LIBRARY_PATH": str(folder), "FAKE_NVML_STATE": str(cards.path), "TERM": "dumb",
        "NO_COLOR": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def asked(cards: Any, folder: Path) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(run(cards, folder, "-c", ASK))
    return answers


def test_one_card_as_large_as_the_slice_with_its_processes_alone(
    cards: Any, the_slice: Path, member: int
) -> None:
    assert asked(cards, the_slice) == {
        "count": 1,
        "uuid": cards.uuid(1),
        "index": 0,
        "second": "NVMLError_InvalidArgument",
        "memory": [8192, 6668, 1524],
        "newer": [8192, 0, 6668, 1524],
        "compute": [member],
        "graphics": [],
        "utilization": [member],
        "rates": [7, 0],
        "infos": [member],
    }


def test_without_the_shim_it_would_be_the_whole_machine(
    cards: Any, the_slice: Path, member: int, build_fake_nvml: Callable[..., Path]
) -> None:
    """What the tests above would show if the shim did nothing."""
    answers = asked(cards, build_fake_nvml())

    assert answers["count"] == 2
    assert answers["memory"][0] == 40960


def test_a_slice_that_does_nothing_sees_nobody(cards: Any, the_slice: Path) -> None:
    answers = asked(cards, the_slice)

    assert answers["compute"] == answers["graphics"] == []
    assert answers["utilization"] == "NVMLError_NotFound"
    assert answers["infos"] == []
    assert answers["rates"] == [0, 0]
    assert answers["memory"] == [8192, 8192, 0]


def test_no_more_is_free_than_the_card_has(cards: Any, the_slice: Path) -> None:
    cards.process(NEIGHBOUR + 1, device=1, memory_mib=9000)

    assert asked(cards, the_slice)["memory"] == [8192, 40960 - 550 - 39000, 0]


def test_what_the_ledger_holds_is_used_even_if_the_driver_cannot_say(
    cards: Any, the_slice: Path, machine: Any
) -> None:
    program = machine.client(the_slice)
    program.alloc(2048)
    cards.process(program.pid, device=1, memory_mib=None)
    answers = asked(cards, the_slice)
    program.kill()

    assert answers["memory"] == [8192, 6144, 2048]


def test_a_missing_ledger_or_limit_shows_nothing(cards: Any, the_slice: Path, member: int) -> None:
    (the_slice / "ledger").unlink()
    answers = asked(cards, the_slice)
    assert answers["compute"] == []

    (the_slice / "limit").unlink()
    assert asked(cards, the_slice)["memory"] == "NVMLError_Unknown"


def test_an_error_of_the_driver_stays_an_error(
    cards: Any, the_slice: Path, nvml_state: ModuleType
) -> None:
    cards.fault("nvmlDeviceGetMemoryInfo", nvml_state.GPU_IS_LOST)
    cards.fault("nvmlDeviceGetUtilizationRates", nvml_state.NOT_SUPPORTED)
    answers = asked(cards, the_slice)

    assert answers["memory"] == "NVMLError_GpuIsLost"
    assert answers["rates"] == "NVMLError_NotSupported"


def test_utilization_that_nobody_measures_is_not_zero(
    cards: Any, the_slice: Path, nvml_state: ModuleType
) -> None:
    cards.fault("nvmlDeviceGetProcessUtilization", nvml_state.NOT_SUPPORTED)

    assert asked(cards, the_slice)["rates"] == "NVMLError_NotSupported"


def test_an_old_driver_without_the_newer_calls_still_works(
    cards: Any, the_slice: Path, build_fake_nvml: Callable[..., Path]
) -> None:
    old = build_fake_nvml("-DWITHOUT_NEW_CALLS") / "libnvidia-ml.so.1"
    (the_slice / "libnvidia-ml-real.so.1").unlink()
    (the_slice / "libnvidia-ml-real.so.1").symlink_to(old)
    ask = (
        "import pynvml as nv; nv.nvmlInit(); card = nv.nvmlDeviceGetHandleByIndex(0);"
        "print(nv.nvmlDeviceGetMemoryInfo(card).total >> 20,"
        " nv.nvmlDeviceGetComputeRunningProcesses(card))"
    )

    assert run(cards, the_slice, "-c", ask).split() == ["8192", "[]"]


def test_a_spoilt_ledger_harms_no_tool(cards: Any, the_slice: Path) -> None:
    data = bytearray(layout.empty_ledger())
    most = (1 << 64) - 1
    layout.HEADER.pack_into(data, 0, layout.LEDGER_MAGIC, 1, layout.SLOTS, most >> 32, most, most)
    layout.SLOT.pack_into(data, layout.HEADER.size, most >> 1, most, most, most, most)
    (the_slice / "ledger").write_bytes(data)

    assert asked(cards, the_slice)["memory"][0] == 8192


@pytest.mark.parametrize("tool", ["gpustat", "nvitop"])
def test_unmodified_tools_show_the_slice(
    cards: Any, the_slice: Path, member: int, tool: str
) -> None:
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    words = {
        "gpustat": ["-m", "gpustat", "--no-header", "--show-pid", "--no-color"],
        "nvitop": ["-W", "ignore", "-m", "nvitop", "--once", "--ascii"],
    }
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", run(cards, the_slice, *words[tool]))

    assert str(member) in shown
    assert str(NEIGHBOUR) not in shown
    assert re.search(r"8192|8192MiB|8\.00GiB", shown), shown
    assert "1524" in shown
    assert "40960" not in shown
    assert "40.00GiB" not in shown
