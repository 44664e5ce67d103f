"""The interposer as the agent gives it: verified, corrected by the driver's count, hard to fool."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.gpu import shim
from gpucommons.gpu.agent.limits.grants import RECHECK_MS, Grants
from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.errors import CannotShrink, LimitNotInForce
from gpucommons.gpu.providers import NodeTraits, provider_stack
from gpucommons.gpu.providers.node.exclusive import ExclusiveProvider
from gpucommons.gpu.providers.node.shim import CONTEXT_MIB, ShimProvider
from gpucommons.gpu.providers.node.watchdog import WatchdogProvider
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slice_folders import SliceFolders
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

A = SliceId("a")
CARD = Device(device_id=DeviceId("GPU-0"), index=0, kind="Pretended-16", memory_mib=16 << 10)
QUARTER = GpuSlice(
    slice_id=A,
    shares=(DeviceShare(device_id=CARD.device_id, milli_gpu=250),),
    memory_mib=share_memory_mib(CARD, 250),
)
TRAITS = NodeTraits(driver="580.95.05", shim=True, watched=True)


@pytest.fixture
def grants(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Grants]:
    drivers = shim.Drivers(cuda=machine.driver, nvml=None)
    monkeypatch.setattr("gpucommons.gpu.shim.folder.find_drivers", lambda: drivers)

    def agent(*still_open: SliceId) -> Grants:
        providers = (
            ExclusiveProvider(),
            ShimProvider(SliceFolders(tmp_path / "slices"), own_uid=os.geteuid()),
            WatchdogProvider(),
        )
        made = Grants(provider_stack(TRAITS, providers), (CARD,), tmp_path / "grants.json")
        made.restore(still_open)
        return made

    return agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "slices" / "a" / "shim"


@pytest.fixture
def program(machine: Any) -> Iterator[Callable[[Path | None], Any]]:
    started: list[Any] = []

    def start(library_path: Path | None) -> Any:
        started.append(machine.client(library_path))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def test_a_program_in_the_slice_stays_in_it(
    grants: Callable[[], Grants], program: Any, folder: Path
) -> None:
    granted = grants().grant(QUARTER, None)
    assert granted.promised == "cooperative"
    assert granted.injection.prepend == {"LD_LIBRARY_PATH": str(folder)}
    inside = program(folder)
    assert inside.alloc(QUARTER.memory_mib + 1) == 0
    assert inside.alloc(QUARTER.memory_mib - CONTEXT_MIB)


def test_memory_that_only_the_driver_counts_leaves_less_to_allocate(
    grants: Callable[[], Grants], program: Any, folder: Path
) -> None:
    agent = grants()
    agent.grant(QUARTER, None)
    inside = program(folder)
    inside.alloc(1000)
    agent.measured(A, 1000 + 900)
    # 900 MiB of contexts and modules, in steps of 64.
    assert shim.read_limit(folder) == (QUARTER.memory_mib - 960) << 20
    agent.check({}, now_ms=1)
    assert agent.isolation(A) == ("cooperative", "")
    agent.measured(A, None)
    assert shim.read_limit(folder) == (QUARTER.memory_mib - 960) << 20


def test_processes_are_checked_for_the_library(
    grants: Callable[[], Grants], program: Any, folder: Path
) -> None:
    agent = grants()
    agent.grant(QUARTER, None)
    inside, outside = program(folder), program(None)
    for one in (inside, outside):
        one.alloc(100)
    agent.check({A: [(inside.pid, 1)]}, now_ms=1)
    assert agent.isolation(A) == ("cooperative", "")
    agent.check({A: [(inside.pid, 1), (outside.pid, 1)]}, now_ms=2)
    mode, why = agent.isolation(A)
    assert mode == "watched"
    assert f"process {outside.pid}." in why


def test_a_process_that_is_bound_is_not_read_again(
    grants: Callable[[], Grants], program: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def look(_folder: Path, pid: int) -> bool:
        looked.append(pid)
        return pid != 8

    monkeypatch.setattr(shim, "shimmed", look)
    agent = grants()
    agent.grant(QUARTER, None)
    for second in range(3):
        agent.check({A: [(7, 1), (8, 1)]}, now_ms=1 + second * RECHECK_MS)
    # A stranger may leave or be replaced; its maps are read again, those of the others are not.
    assert looked == [7, 8, 8, 8]


@pytest.mark.parametrize("spoil", ["truncated", "grown", "edited", "a folder", "gone", "a pipe"])
def test_a_ledger_spoilt_by_its_user_is_said_and_starts_nothing_more(
    grants: Callable[[], Grants], program: Any, folder: Path, spoil: str
) -> None:
    agent = grants()
    agent.grant(QUARTER, None)
    ledger = folder / "ledger"
    match spoil:
        case "truncated":
            os.truncate(ledger, 100)
        case "grown":
            os.truncate(ledger, 1 << 24)
        case "edited":
            ledger.write_bytes(os.urandom(ledger.stat().st_size))
        case "a folder":
            ledger.unlink()
            ledger.mkdir()
        case "gone":
            ledger.unlink()
        case "a pipe":
            ledger.unlink()
            os.mkfifo(ledger)
    agent.measured(A, 500)
    agent.check({}, now_ms=RECHECK_MS)
    if spoil == "grown" and agent.isolation(A)[1] == "":
        # What lies behind the ledger is not read.
        assert shim.read_ledger(folder) is not None
        return
    mode, why = agent.isolation(A)
    assert mode == "watched"
    assert "ledger" in why
    if spoil == "gone":
        return  # made again, empty
    with pytest.raises(LimitNotInForce, match="ledger"):
        agent.grant(QUARTER, None)


def test_a_limit_below_what_is_in_use_is_refused_with_the_number(
    grants: Callable[[], Grants], program: Any, folder: Path
) -> None:
    agent = grants()
    agent.grant(QUARTER, None)
    inside = program(folder)
    inside.alloc(3000)
    with pytest.raises(CannotShrink, match="uses 3000 MiB"):
        agent.resize(A, 2500)
    agent.resize(A, 6000)
    assert inside.alloc(2000)
    agent.check({}, now_ms=RECHECK_MS)
    assert agent.isolation(A) == ("cooperative", "")


def test_a_restarted_agent_forgets_nothing_that_a_program_holds(
    grants: Callable[..., Grants], program: Any, folder: Path
) -> None:
    grants().grant(QUARTER, None)
    inside = program(folder)
    inside.alloc(2000)
    agent = grants(A)
    assert agent.isolation(A) == ("cooperative", "")
    assert inside.alloc(2000) == 0
    agent.release(A)
    assert not folder.exists()


def test_a_machine_whose_driver_vanished_grants_nothing(
    grants: Callable[[], Grants], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = shim.Drivers(cuda=None, nvml=None)
    monkeypatch.setattr("gpucommons.gpu.shim.folder.find_drivers", lambda: nothing)
    with pytest.raises(LimitNotInForce, match=r"libcuda\.so\.1 was not found"):
        grants().grant(QUARTER, None)
    assert not folder.exists()
