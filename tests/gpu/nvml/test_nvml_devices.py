"""The NVML reader over the unmodified nvidia-ml-py and a fake libnvidia-ml.so.1.

The bindings cache the library per process, so each scenario is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

READER = Path(__file__).parents[1] / "fake_nvml" / "read_devices.py"
PROCESS_LIST = "nvmlDeviceGetComputeRunningProcesses_v3"


@pytest.fixture
def machine(nvml_state: ModuleType, tmp_path: Path) -> Any:
    return nvml_state.FakeNvml(tmp_path / "nvml-state", cards=2)


@pytest.fixture
def look(machine: Any, build_fake_nvml: Callable[..., Path]) -> Callable[..., dict[str, Any]]:
    def read(*flags: str, library: Path | None = None) -> dict[str, Any]:
        env = os.environ | {
            "LD_LIBRARY_PATH": str(library or build_fake_nvml(*flags)),
            "FAKE_NVML_STATE": str(machine.path),
        }
        done = subprocess.run(
            [sys.executable, str(READER)], env=env, check=True, capture_output=True, timeout=60
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return read


def reading(answer: dict[str, Any], machine: Any, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = answer["readings"][machine.uuid(index)]
    return found


def test_devices_have_uuid_kind_and_memory(look: Any, machine: Any) -> None:
    answer = look()
    assert answer["devices"][1] == {
        "device_id": machine.uuid(1),
        "index": 1,
        "kind": "A100-40",
        "memory_mib": 40960,
        "simulated": False,
    }
    assert answer["greeting"] == "2 real GPUs, driver 615.71.09."


def test_an_idle_card_reads_zero_because_the_driver_said_so(look: Any, machine: Any) -> None:
    assert reading(look(), machine) == {
        "compute_percent": 0,
        "memory_used_mib": 0,
        "processes": [],
        "trouble": None,
        "is_unhealthy": False,
    }


def test_processes_carry_memory_and_compute(look: Any, machine: Any) -> None:
    machine.card(gpu_percent=61)
    machine.process(4711, memory_mib=2048, sm=40)
    machine.process(4712, memory_mib=512)
    machine.process(4713, device=1, memory_mib=100, sm=7)
    answer = look()
    assert reading(answer, machine) == {
        "compute_percent": 61,
        "memory_used_mib": 2560,
        "processes": [
            {"pid": 4711, "memory_mib": 2048, "compute_milli_gpu": 400},
            {"pid": 4712, "memory_mib": 512, "compute_milli_gpu": 0},
        ],
        "trouble": None,
        "is_unhealthy": False,
    }
    assert [p["pid"] for p in reading(answer, machine, 1)["processes"]] == [4713]


def test_a_process_with_compute_and_graphics_context_is_one_process(
    look: Any, machine: Any, nvml_state: ModuleType
) -> None:
    machine.process(4711, memory_mib=300)
    machine.process(4711, memory_mib=300, kind=nvml_state.GRAPHICS)
    machine.process(4712, memory_mib=200, kind=nvml_state.MPS)
    processes = reading(look(), machine)["processes"]
    assert [(p["pid"], p["memory_mib"]) for p in processes] == [(4711, 300), (4712, 200)]


def test_nothing_new_in_the_samples_is_no_use(look: Any, machine: Any) -> None:
    an_hour_ago_us = time.time_ns() // 1000 - 3_600_000_000
    machine.process(4711, sm=90, sampled_us=an_hour_ago_us)
    assert reading(look(), machine)["processes"][0]["compute_milli_gpu"] == 0


def test_the_newest_sample_of_a_process_counts(
    look: Any, machine: Any, nvml_state: ModuleType
) -> None:
    newest_us = nvml_state.in_an_hour_us()
    machine.process(4711, memory_mib=1, sm=80, sampled_us=newest_us)
    machine.process(4711, memory_mib=1, sm=20, sampled_us=newest_us - 500_000)
    assert reading(look(), machine)["processes"][0]["compute_milli_gpu"] == 800


def test_sentinels_of_the_driver_are_no_numbers(look: Any, machine: Any) -> None:
    machine.process(0, sm=50)
    machine.process(4711, sm=4_294_967_295)
    machine.process(4712, memory_mib=None)
    processes = {p["pid"]: p for p in reading(look(), machine)["processes"]}
    assert processes.keys() == {4711, 4712}
    assert processes[4711]["compute_milli_gpu"] is None
    assert processes[4712]["memory_mib"] is None


def test_a_lost_card_says_so_and_the_other_goes_on(
    look: Any, machine: Any, nvml_state: ModuleType
) -> None:
    machine.process(4711, device=1, sm=30)
    for call in (
        PROCESS_LIST,
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetUtilizationRates",
    ):
        machine.fault(call, nvml_state.GPU_IS_LOST, device=0)
    answer = look()
    lost = reading(answer, machine, 0)
    assert lost["trouble"] == "GPU is lost"
    assert (lost["processes"], lost["compute_percent"]) == (None, None)
    assert reading(answer, machine, 1)["processes"][0]["compute_milli_gpu"] == 300


def test_a_card_that_is_lost_before_the_start_is_not_offered(
    look: Any, machine: Any, nvml_state: ModuleType
) -> None:
    machine.fault("nvmlDeviceGetHandleByIndex_v2", nvml_state.GPU_IS_LOST, device=0)
    assert [d["device_id"] for d in look()["devices"]] == [machine.uuid(1)]


def test_a_mig_parent_has_no_compute_numbers(look: Any, machine: Any) -> None:
    machine.card(is_mig_parent=1, gpu_percent=99)
    machine.process(4711, sm=50)
    parent = reading(look(), machine)
    assert parent["compute_percent"] is None
    assert parent["processes"] == [{"pid": 4711, "memory_mib": 1024, "compute_milli_gpu": None}]


def test_an_old_driver_without_the_new_calls_still_gives_memory(look: Any, machine: Any) -> None:
    machine.process(4711, memory_mib=1000, sm=50)
    old = reading(look("-DWITHOUT_NEW_CALLS"), machine)
    # The old call counts the driver's own 550 MiB as used.
    assert old["memory_used_mib"] == 1550
    assert old["processes"] == [{"pid": 4711, "memory_mib": 1000, "compute_milli_gpu": None}]


def test_a_wrong_structure_version_falls_back_to_the_first(
    look: Any, machine: Any, build_fake_nvml: Callable[..., Path]
) -> None:
    program = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "try: n.nvmlDeviceGetMemoryInfo(h, 0x03000028)\n"
        "except n.NVMLError as error: print(error.value)"
    )
    env = os.environ | {
        "LD_LIBRARY_PATH": str(build_fake_nvml()),
        "FAKE_NVML_STATE": str(machine.path),
    }
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True)
    assert done.stdout.strip() == b"25"
    machine.fault("nvmlDeviceGetMemoryInfo_v2", 25)
    assert reading(look(), machine)["memory_used_mib"] == 550


@pytest.mark.parametrize("code", [3, 4, 13, 999])
def test_a_list_that_cannot_be_read_is_unknown_not_empty(
    look: Any, machine: Any, code: int
) -> None:
    machine.process(4711)
    machine.fault(PROCESS_LIST, code)
    assert reading(look(), machine)["processes"] is None


def test_without_a_driver_there_are_no_devices_and_a_reason(
    look: Any, machine: Any, nvml_state: ModuleType, tmp_path: Path
) -> None:
    machine.fault("nvmlInitWithFlags", nvml_state.DRIVER_NOT_LOADED)
    answer = look()
    assert answer["devices"] == []
    assert answer["greeting"] == "No real GPU: Driver Not Loaded."


def test_without_the_library_there_are_no_devices_and_a_reason(look: Any, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    answer = look(library=tmp_path)
    assert answer["devices"] == []
    assert answer["greeting"].startswith("No real GPU:")


LINKED, NOT_LINKED, STATUS_UNKNOWN = 0, 5, 6
ON_ONE_SWITCH, AT_ONE_BRIDGE, ON_ONE_NUMA_NODE, ACROSS_NUMA_NODES = 10, 30, 40, 50


@pytest.mark.parametrize(
    ("ancestor", "nvlink", "kind"),
    [
        (ACROSS_NUMA_NODES, LINKED, "nvlink"),
        (None, LINKED, "nvlink"),
        (ON_ONE_SWITCH, NOT_LINKED, "switch"),
        (AT_ONE_BRIDGE, NOT_LINKED, "socket"),
        (ON_ONE_NUMA_NODE, NOT_LINKED, "socket"),
        (ACROSS_NUMA_NODES, NOT_LINKED, "node"),
    ],
)
def test_two_cards_are_as_near_as_the_driver_says(
    look: Any, machine: Any, ancestor: int | None, nvlink: int, kind: str
) -> None:
    machine.link(0, 1, ancestor=ancestor, nvlink=nvlink)
    assert look()["links"] == [{"first": machine.uuid(0), "second": machine.uuid(1), "kind": kind}]


@pytest.mark.parametrize(
    ("ancestor", "nvlink"),
    [
        (None, None),
        # A link may be there of which it does not tell.
        (ON_ONE_SWITCH, None),
        (ON_ONE_SWITCH, STATUS_UNKNOWN),
        (None, NOT_LINKED),
        (77, NOT_LINKED),
    ],
)
def test_what_the_driver_leaves_open_is_unknown(
    look: Any, machine: Any, ancestor: int | None, nvlink: int | None
) -> None:
    machine.link(0, 1, ancestor=ancestor, nvlink=nvlink)
    assert look()["links"] == []


def test_a_card_that_tells_nothing_of_its_links_is_a_card(
    look: Any, machine: Any, nvml_state: ModuleType
) -> None:
    machine.link(0, 1, ancestor=ON_ONE_SWITCH, nvlink=NOT_LINKED)
    machine.fault("nvmlDeviceGetTopologyCommonAncestor", nvml_state.UNKNOWN, device=0)
    answer = look()
    assert len(answer["devices"]) == 2
    assert answer["links"] == []


def test_instances_of_a_card_are_no_pair(look: Any, machine: Any) -> None:
    machine.can_be_cut(("1g.5gb", 1, 7, 4864))
    machine.cut(("1g.5gb", 4864), ("1g.5gb", 4864))
    machine.link(0, 1, nvlink=LINKED)
    assert look()["links"] == []
