"""A stop that is heard while a worker is being started is carried out once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucommons.scheduler.executors import supervisor as supervisor_module
from gpucommons.scheduler.executors.local.attempt.answers import Done
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.hibernating import Hibernating
from gpucommons.scheduler.executors.local.attempt.plan import Plan, WorkerPlan
from gpucommons.scheduler.executors.local.attempt.starts import Start
from gpucommons.scheduler.executors.supervisor import Supervisor


class _Running:
    """A worker that runs."""

    process = SimpleNamespace(pid=1, poll=lambda: None)

    def output(self) -> None:
        return None

    def refused(self) -> str:
        return ""


def _plan() -> Plan:
    return Plan(
        attempt_id="a1",
        job="digits-1",
        workers=(WorkerPlan(rank=0, command=("true",), env={}),),
        working_dir=".",
        snapshot=None,
        max_unpacked_bytes=1,
        max_log_bytes=1 << 20,
        home="/",
        results_to=None,
    )


@pytest.mark.parametrize("woken_from", [None, 1])
def test_a_stop_that_is_heard_during_a_start_is_carried_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, woken_from: int | None
) -> None:
    folder = AttemptFolder(tmp_path)
    supervisor = Supervisor(folder, _plan())
    begun: list[tuple[int, int]] = []
    in_start = True
    when: list[bool] = []

    def begin(_: Hibernating, pid: int, kill_at_s: float) -> bool:
        begun.append((pid, int(kill_at_s)))
        when.append(in_start)
        return True

    def hear(_: Start) -> Done:
        nonlocal in_start
        write_json(folder.stop, {"kill_ms": 9_000, "hibernates": True})
        supervisor._obey()
        in_start = False
        return Done(problem=None)

    monkeypatch.setattr(supervisor_module, "start_worker", lambda *_: _Running())
    monkeypatch.setattr(supervisor_module, "event_process", lambda *_, **__: None)
    monkeypatch.setattr(supervisor._pump, "add", lambda *_: None)
    monkeypatch.setattr(supervisor, "_hear_of", hear)
    monkeypatch.setattr(
        Hibernating, "ready", lambda _: Start(prefix=("tree",), woken_from=woken_from)
    )
    monkeypatch.setattr(Hibernating, "begin", begin)
    assert supervisor._start() is None
    supervisor._pump.close()
    assert begun == [(1, 9)]
    # What is still being started could miss a signal, and its save might never be gone on with.
    assert when == [False]
