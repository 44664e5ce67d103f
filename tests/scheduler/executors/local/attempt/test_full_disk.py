"""A disk that somebody else has filled ends no job, and costs no more than what was printed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucommons.scheduler.executors import supervisor as supervisor_module
from gpucommons.scheduler.executors.local.attempt import log_pump as pump_module
from gpucommons.scheduler.executors.local.attempt.attempt_folder import (
    AttemptFolder,
    read_json,
    write_json,
)
from gpucommons.scheduler.executors.local.attempt.log_pump import Pump
from gpucommons.scheduler.executors.local.attempt.plan import Plan, WorkerPlan
from gpucommons.scheduler.executors.supervisor import Supervisor


def full(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def pump() -> Iterator[Pump]:
    made = Pump(max_bytes=1000)
    yield made
    made.close()


def test_what_a_full_disk_does_not_take_is_lost_and_said_once(
    pump: Pump, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    log = tmp_path / "0.log"
    with os.fdopen(reading, "rb") as pipe:
        pump.add(pipe, log)

        def printed(text: bytes) -> None:
            os.write(writing, text)
            pump.turn(1)

        printed(b"one\n")
        with monkeypatch.context() as disk:
            disk.setattr(pump_module.os, "write", _full_for(log))
            printed(b"two\n")
            printed(b"three\n")
        printed(b"four\n")
        printed(b"five\n")
        os.close(writing)
        pump.turn(1)
    lines = log.read_text().splitlines()
    assert [line for line in lines if not line.startswith("[")] == ["one", "", "four", "five"]
    assert len([line for line in lines if "disk was full" in line]) == 1


def _full_for(log: Path) -> object:
    write = os.write

    def written(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_ino == log.stat().st_ino:
            return full()
        return write(descriptor, data)

    return written


def _plan(workers: int) -> Plan:
    return Plan(
        attempt_id="a1",
        job="digits-1",
        workers=tuple(WorkerPlan(rank=rank, command=("true",), env={}) for rank in range(workers)),
        working_dir=".",
        snapshot=None,
        max_unpacked_bytes=1,
        max_log_bytes=64 << 20,
        home="/",
        results_to=None,
    )


def test_the_end_of_an_attempt_is_written_once_the_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter([full, full, write_json])

    def write(*args: Any) -> object:
        return next(tries)(*args)

    monkeypatch.setattr(supervisor_module, "LOOK_S", 0)
    monkeypatch.setattr(supervisor_module, "write_json", write)
    folder = AttemptFolder(tmp_path)
    supervisor = Supervisor(folder, _plan(1))
    supervisor._write_exit(None, {})
    supervisor._pump.close()
    found = read_json(folder.exit)
    assert found is not None
    assert found["killed"] is False


@pytest.mark.parametrize(("workers", "mib"), [(1, 64), (4, 64), (1024, 256 / 1024)])
def test_the_logs_of_many_workers_are_bounded_together(
    tmp_path: Path, workers: int, mib: float
) -> None:
    supervisor = Supervisor(AttemptFolder(tmp_path), _plan(workers))
    assert supervisor._pump._max_bytes == mib * (1 << 20)
    supervisor._pump.close()
