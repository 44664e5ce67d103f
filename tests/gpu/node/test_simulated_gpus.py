from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.node.slice_usage import Look, sample_of
from gpucommons.gpu.node.telemetry import DeviceReading, Holding
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from gpucommons.gpu.slices.usage import UsageSample

SIM_0, SIM_1 = DeviceId("sim-0"), DeviceId("sim-1")
MINE = GpuSlice(
    slice_id=SliceId("mine"),
    shares=(DeviceShare(device_id=SIM_0, milli_gpu=500),),
    memory_mib=19866,
)
THEIRS = GpuSlice(
    slice_id=SliceId("theirs"),
    shares=(DeviceShare(device_id=SIM_0, milli_gpu=250),),
    memory_mib=9933,
)
BIG = GpuSlice(
    slice_id=SliceId("big"),
    shares=(
        DeviceShare(device_id=SIM_0, milli_gpu=1000),
        DeviceShare(device_id=SIM_1, milli_gpu=1000),
    ),
    memory_mib=79464,
)


class Machine:
    """Two simulated cards and a clock that moves by the second."""

    def __init__(self) -> None:
        self.node = FakeProcesses()
        self.now_ns = 10**9
        self.gpus = SimulatedGpus(simulated_devices(2), self.node, monotonic_ns=lambda: self.now_ns)

    def look(self, *held: tuple[GpuSlice, tuple[int, ...]]) -> list[UsageSample]:
        self.now_ns += 10**9
        holdings = [
            Holding(
                shares=gpu_slice.shares,
                processes=tuple(stat for pid in pids if (stat := self.node.stat(pid)) is not None),
            )
            for gpu_slice, pids in held
        ]
        readings: Mapping[DeviceId, DeviceReading] = self.gpus.read(holdings, now_ms=0)
        return [
            sample_of(gpu_slice, pids, Look(at_ms=0, readings=readings)) for gpu_slice, pids in held
        ]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_devices_are_named_and_say_that_they_are_simulated() -> None:
    devices = simulated_devices(2, "H100-80")
    assert [(d.device_id, d.index, d.kind, d.memory_mib) for d in devices] == [
        ("sim-0", 0, "H100-80", 81920),
        ("sim-1", 1, "H100-80", 81920),
    ]
    assert all(device.simulated for device in devices)


@pytest.mark.parametrize(
    ("count", "kind"), [(-1, "A100-40"), (65, "A100-40"), (1, "A100"), (1, "")]
)
def test_impossible_machines_are_refused(count: int, kind: str) -> None:
    with pytest.raises(ValueError, match=r"simulated GPUs are not possible|is no kind of GPU"):
        simulated_devices(count, kind)


def test_an_idle_kernel_uses_nothing(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7, private_mib=70))
    machine.look((MINE, (7,)))
    machine.node.work(7, demand_ms=20)
    (sample,) = machine.look((MINE, (7,)))
    assert (sample.compute_percent, sample.memory_used_mib, sample.processes) == (0, 0, 0)


def test_a_busy_cell_uses_its_whole_slice(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7))
    machine.look((MINE, (7,)))
    machine.node.work(7, demand_ms=1000, private_mib=596)
    (sample,) = machine.look((MINE, (7,)))
    assert (sample.compute_percent, sample.processes) == (100, 1)
    assert sample.memory_used_mib == (596 - 96) * 8


def test_several_threads_use_no_more_than_the_slice(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7))
    machine.look((MINE, (7,)))
    machine.node.work(7, demand_ms=8000)
    assert machine.look((MINE, (7,)))[0].compute_percent == 100


def test_neighbours_change_nothing(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7))
    machine.node.start(FakeProcess(pid=8))
    machine.look((MINE, (7,)), (THEIRS, (8,)))
    machine.node.work(8, demand_ms=1000, private_mib=1096)
    mine, theirs = machine.look((MINE, (7,)), (THEIRS, (8,)))
    assert (mine.compute_percent, mine.memory_used_mib) == (0, 0)
    assert (theirs.compute_percent, theirs.memory_used_mib) == (100, 8000)
    assert mine.contention == "low"
    assert theirs.contention == "alone"


def test_memory_over_the_slice_is_shown_as_it_is(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7, private_mib=96 + 3200))
    (sample,) = machine.look((MINE, (7,)))
    assert sample.memory_used_mib == 25600
    assert sample.memory_limit_mib == 19866


def test_a_slice_of_two_cards_uses_both(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7))
    machine.look((BIG, (7,)))
    machine.node.work(7, demand_ms=600, private_mib=1096)
    (sample,) = machine.look((BIG, (7,)))
    assert (sample.compute_percent, sample.memory_used_mib, sample.processes) == (60, 8000, 1)


def test_a_process_that_was_there_before_is_unknown_until_it_is_measured(machine: Machine) -> None:
    machine.look()
    machine.node.start(FakeProcess(pid=7, demand_ms=60_000, private_mib=200))
    (first,) = machine.look((MINE, (7,)))
    assert first.compute_percent is None
    (second,) = machine.look((MINE, (7,)))
    assert second.compute_percent == 0


def test_a_process_born_since_the_last_look_counts_at_once(machine: Machine) -> None:
    machine.look()
    machine.node.start(FakeProcess(pid=7, demand_ms=700))
    assert machine.look((MINE, (7,)))[0].compute_percent == 70


def test_a_reused_pid_does_not_inherit_work(machine: Machine) -> None:
    machine.node.start(FakeProcess(pid=7, demand_ms=5000))
    machine.look((MINE, (7,)))
    machine.node.end(7)
    machine.node.start(FakeProcess(pid=7, demand_ms=300))
    assert machine.look((MINE, (7,)))[0].compute_percent == 30


@pytest.mark.parametrize(
    "command",
    [
        ("/opt/bin/python3.12", "/opt/bin/jupyterhub-singleuser", "--port=0"),
        ("python", "-m", "jupyterhub.singleuser"),
        ("/usr/bin/python", "/usr/bin/jupyter-lab"),
        ("/usr/bin/node", "/usr/lib/node_modules/pyright/langserver.index.js", "--stdio"),
        ("/opt/bin/python", "/opt/bin/node", "--version"),
    ],
)
def test_the_notebook_server_and_what_it_starts_for_an_open_page_never_compute(
    machine: Machine, command: tuple[str, ...]
) -> None:
    machine.node.start(FakeProcess(pid=7, command=command, private_mib=400))
    machine.look((MINE, (7,)))
    machine.node.work(7, demand_ms=900)
    (sample,) = machine.look((MINE, (7,)))
    assert (sample.compute_percent, sample.memory_used_mib, sample.processes) == (0, 0, 0)
