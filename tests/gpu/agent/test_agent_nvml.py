"""The agent as a process over the unmodified nvidia-ml-py and the fake libnvidia-ml.so.1."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.topology import DeviceLink, LinkKind
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample

A = SliceId("a")


@pytest.fixture
def machine(nvml_state: ModuleType, tmp_path: Path) -> Any:
    return nvml_state.FakeNvml(tmp_path / "nvml-state", cards=2)


@pytest.fixture
def agent(machine: Any, build_fake_nvml: Callable[..., Path], start_agent: Any) -> AgentClient:
    env = {"LD_LIBRARY_PATH": str(build_fake_nvml()), "FAKE_NVML_STATE": str(machine.path)}
    # Simulated GPUs on request, real ones where NVML finds them: the real ones win.
    client: AgentClient = start_agent("--simulate", "4", env=env)[1]
    return client


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def slice_on(agent: AgentClient, machine: Any, worker: Any) -> Callable[..., GpuSlice]:
    def open_slice(milli: int, *, card: int = 0) -> GpuSlice:
        share = DeviceShare(device_id=DeviceId(machine.uuid(card)), milli_gpu=milli)
        gpu_slice = GpuSlice(slice_id=A, shares=(share,), memory_mib=9000)
        agent.open(gpu_slice)
        agent.bind(A, worker.pid)
        return gpu_slice

    return open_slice


@pytest.fixture
def until(agent: AgentClient, eventually: Any) -> Callable[..., UsageSample]:
    def wait(condition: Callable[[UsageSample], object]) -> UsageSample:
        found: list[UsageSample] = []

        def look() -> bool:
            sample = agent.reading(A).sample
            found[:] = [sample] if sample is not None else []
            return sample is not None and bool(condition(sample))

        eventually(look)
        return found[0]

    return wait


def test_real_devices_win_over_simulated_ones(agent: AgentClient, machine: Any) -> None:
    devices = agent.devices().devices
    assert [d.device_id for d in devices] == [machine.uuid(0), machine.uuid(1)]
    assert not any(device.simulated for device in devices)


def test_the_node_tells_its_driver(agent: AgentClient) -> None:
    assert agent.devices().driver == "615.71.09"


def test_a_slice_sees_its_own_processes_only(
    machine: Any, slice_on: Any, until: Any, worker: Any
) -> None:
    slice_on(500)
    machine.process(worker.pid, memory_mib=3000, sm=25)
    machine.process(1, memory_mib=7000, sm=70)
    sample = until(lambda s: s.memory_used_mib)
    assert (sample.memory_used_mib, sample.compute_percent, sample.processes) == (3000, 50, 1)
    assert (sample.contention, sample.simulated) == ("high", False)


def test_use_that_ended_reads_zero(machine: Any, slice_on: Any, until: Any, worker: Any) -> None:
    slice_on(1000)
    machine.process(worker.pid, sm=80)
    assert until(lambda s: s.compute_percent).compute_percent == 80
    machine.no_processes()
    machine.process(worker.pid, sm=80, sampled_us=1)
    assert until(lambda s: s.compute_percent == 0).processes == 1


def test_a_card_that_falls_off_the_bus_is_unknown_then_known_again(
    agent: AgentClient, machine: Any, slice_on: Any, until: Any, nvml_state: ModuleType
) -> None:
    slice_on(1000)
    assert until(lambda s: s.processes is not None).compute_percent == 0
    for call in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetUtilizationRates"):
        machine.fault(call, nvml_state.GPU_IS_LOST, device=0)
    lost = until(lambda s: s.processes is None)
    assert (lost.compute_percent, lost.memory_used_mib) == (None, None)
    assert lost.active_ms == lost.at_ms
    report = agent.devices()
    assert report.troubles == report.unhealthy == {machine.uuid(0): "GPU is lost"}
    machine.healthy()
    until(lambda s: s.compute_percent == 0)
    report = agent.devices()
    assert report.troubles == report.unhealthy == {}


def test_a_mig_parent_is_never_idle(machine: Any, slice_on: Any, until: Any, worker: Any) -> None:
    machine.card(is_mig_parent=1)
    slice_on(1000)
    machine.process(worker.pid, memory_mib=500)
    sample = until(lambda s: s.memory_used_mib == 500)
    assert sample.compute_percent is None
    assert sample.active_ms == sample.at_ms


def test_a_driver_without_process_use_gives_the_device_s_for_a_whole_one(
    machine: Any, slice_on: Any, until: Any, worker: Any, nvml_state: ModuleType
) -> None:
    machine.fault("nvmlDeviceGetProcessUtilization", nvml_state.NOT_SUPPORTED)
    machine.card(gpu_percent=33)
    slice_on(1000)
    machine.process(worker.pid, memory_mib=500)
    assert until(lambda s: s.memory_used_mib == 500).compute_percent == 33


def test_the_agent_tells_which_cards_are_linked(
    machine: Any, build_fake_nvml: Callable[..., Path], start_agent: Any
) -> None:
    machine.link(0, 1, nvlink=0)
    env = {"LD_LIBRARY_PATH": str(build_fake_nvml()), "FAKE_NVML_STATE": str(machine.path)}
    client: AgentClient = start_agent(env=env)[1]
    assert client.devices().links == (
        DeviceLink(
            first=DeviceId(machine.uuid(0)), second=DeviceId(machine.uuid(1)), kind=LinkKind.NVLINK
        ),
    )


def test_simulated_gpus_are_linked_as_they_were_asked_to_be(start_agent: Any) -> None:
    options = ("--simulate", "4", "--ignore-real", "--simulated-topology", "pairs")
    client: AgentClient = start_agent(*options)[1]
    kinds = [link.kind for link in client.devices().links]
    assert (kinds.count(LinkKind.NVLINK), kinds.count(LinkKind.NODE)) == (2, 4)
