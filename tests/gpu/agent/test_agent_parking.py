"""While a slice is parked nothing of it may use its devices, and the agent says who does all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucommons.gpu.agent.limits.audit import AuditLog
from gpucommons.gpu.agent.limits.watchdog import Watchdog
from gpucommons.gpu.agent.state.state_file import StateFile
from gpucommons.gpu.agent.watch import Watch
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import GpuError, UnknownSlice
from gpucommons.gpu.linux.fake_processes import FakeProcess, FakeProcesses
from gpucommons.gpu.node.fake import SimulatedGpus, simulated_devices
from gpucommons.gpu.node.telemetry import NOTHING_KNOWN, DeviceReading, ProcessReading
from gpucommons.gpu.slices.slice_processes import SliceProcesses
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

A, CARD = SliceId("a"), DeviceId("GPU-0")
NOW = 1_800_000_000_000
WHOLE = GpuSlice(
    slice_id=A, shares=(DeviceShare(device_id=CARD, milli_gpu=1000),), memory_mib=40_000
)


class Card(SimulatedGpus):
    """A real card, as far as the watch can tell: who is on it, the driver says."""

    def __init__(self, processes: FakeProcesses) -> None:
        device = replace(simulated_devices(1)[0], device_id=CARD, simulated=False)
        super().__init__((device,), processes)
        self.reading = DeviceReading(compute_percent=0, memory_used_mib=0, processes=())

    def read(self, *_: object, **__: object) -> dict[DeviceId, DeviceReading]:
        return {CARD: self.reading}

    def holds(self, *pids: int, mib: int = 900) -> None:
        found = tuple(ProcessReading(pid=p, memory_mib=mib, compute_milli_gpu=0) for p in pids)
        self.reading = DeviceReading(
            compute_percent=0, memory_used_mib=mib * len(pids), processes=found
        )


class Machine:
    """An agent's watch over one card and a server with one kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = FakeProcesses()
        self.card = Card(self.processes)
        self.processes.start(FakeProcess(pid=10, uid=1001))
        self.processes.start(FakeProcess(pid=11, parent=10, uid=1001))
        self.watch = self.restarted()
        self.watch.open(WHOLE)
        self.watch.bind(A, 10)

    def restarted(self) -> Watch:
        self.watch = Watch(
            self.card,
            SliceProcesses(self.processes, own_uid=1500),
            StateFile(self.folder / "open-slices.json"),
        )
        self.watch.restore(now_ms=NOW)
        return self.watch


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_who_is_on_the_card_is_named_until_it_is_gone(machine: Machine) -> None:
    machine.card.holds(11)
    assert machine.watch.park(A, now_ms=NOW) == (11,)
    machine.card.holds()
    assert machine.watch.park(A, now_ms=NOW) == ()


def test_neighbours_on_the_card_are_no_hindrance(machine: Machine) -> None:
    machine.processes.start(FakeProcess(pid=50, uid=1002))
    machine.card.holds(50)
    assert machine.watch.park(A, now_ms=NOW) == ()


def test_a_card_of_which_nobody_can_say_who_is_on_it_is_not_clear(machine: Machine) -> None:
    machine.card.reading = NOTHING_KNOWN
    with pytest.raises(GpuError, match="It cannot be seen who is on GPU-0"):
        machine.watch.park(A, now_ms=NOW)


def test_a_slice_that_is_not_open_is_not_clear(machine: Machine) -> None:
    with pytest.raises(UnknownSlice):
        machine.watch.park(SliceId("b"), now_ms=NOW)


def test_it_lives_on_and_reads_as_idle(machine: Machine) -> None:
    machine.card.reading = replace(machine.card.reading, compute_percent=80)
    machine.watch.park(A, now_ms=NOW)
    sample, pids = machine.watch.reading(A, now_ms=NOW + 1000)
    assert sample is not None
    assert (sample.compute_percent, sample.memory_used_mib, sample.simulated) == (0, 0, False)
    assert pids == (10, 11)


def test_it_stays_parked_over_a_restart_of_the_agent_until_it_is_opened_again(
    machine: Machine,
) -> None:
    machine.watch.park(A, now_ms=NOW)
    again = machine.restarted()
    again.look(now_ms=NOW)
    sample, _ = again.reading(A, now_ms=NOW)
    assert sample is not None
    assert sample.memory_used_mib == 0
    again.open(WHOLE)
    machine.card.holds(11)
    again.look(now_ms=NOW + 1000)
    sample, _ = again.reading(A, now_ms=NOW + 1000)
    assert sample is not None
    assert sample.memory_used_mib == 900


def test_what_begins_to_use_the_card_meanwhile_is_stopped_as_a_strangers(
    machine: Machine, tmp_path: Path
) -> None:
    stopped: list[int] = []

    def send(pid: int, *_: object) -> bool:
        stopped.append(pid)
        return True

    audit = AuditLog(tmp_path / "audit.jsonl")
    watchdog = Watchdog(machine.watch.devices, machine.processes, audit, send=send)
    machine.watch.park(A, now_ms=NOW)
    machine.card.holds(11)
    (slice_in_use,) = machine.watch.in_use
    for second in range(120):
        at_ms = NOW + second * 1000
        machine.watch.look(now_ms=at_ms)
        found = [machine.processes.stat(pid) for pid in (10, 11)]
        members = {A: tuple(stat for stat in found if stat is not None)}
        watchdog.look([slice_in_use], members, {CARD: machine.card.reading}, now_ms=at_ms)
    assert stopped
    assert set(stopped) == {11}
