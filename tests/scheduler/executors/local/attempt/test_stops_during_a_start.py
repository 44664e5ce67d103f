"""A start that is not over: what stops it is carried out once, and nobody waits for it for ever."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucommons.gpu.hibernation.tree import this_process
from gpucommons.scheduler.executors import supervisor as supervisor_module
from gpucommons.scheduler.executors.local.attempt import starts
from gpucommons.scheduler.executors.local.attempt.attempt_folder import AttemptFolder, write_json
from gpucommons.scheduler.executors.local.attempt.errand_answers import Done
from gpucommons.scheduler.executors.local.attempt.hibernating import Hibernating
from gpucommons.scheduler.executors.local.attempt.plan import (
    Account,
    HibernationPlan,
    Plan,
    WorkerPlan,
)
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


@pytest.mark.parametrize(("waking", "most_s"), [(False, 120), (True, 600)])
def test_a_start_that_says_nothing_is_waited_for_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waking: bool, most_s: float
) -> None:
    supervisor = Supervisor(AttemptFolder(tmp_path), _plan())
    supervisor._workers[0] = _Running()  # type: ignore[assignment] # all that is asked of one
    supervisor._waking = waking
    clock = SimpleNamespace(now_s=7_000.0)

    def turn(_patience_s: float) -> None:
        clock.now_s += 1

    class Silent:
        def __init__(self, _errand: object) -> None:
            """It never answers."""

        def __enter__(self) -> Silent:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing was opened."""

        def hear(self, _patience_s: float) -> None:
            return None

    times = SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: clock.now_s)
    monkeypatch.setattr(supervisor_module, "time", times)
    monkeypatch.setattr(supervisor_module, "send_on_errand", lambda *_: None)
    monkeypatch.setattr(supervisor_module, "Answer", Silent)
    monkeypatch.setattr(supervisor._pump, "turn", turn)
    done = supervisor._hear_of(Start())
    supervisor._pump.close()
    assert done.problem == "what became of its start was not said in time"
    assert clock.now_s == 7_000 + most_s


def test_a_limit_that_cannot_be_had_is_said_also_of_a_tree_that_root_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(uid=os.getuid(), gid=os.getgid())
    worker = WorkerPlan(rank=0, command=("true",), env={}, cgroup=str(tmp_path / "no-such-group"))
    saved = HibernationPlan(criu=("criu",), by_root=True)
    plan = replace(_plan(), workers=(worker,), account=account, hibernation=saved)
    monkeypatch.setattr(Hibernating, "ready", lambda _: Start(prefix=("tree",)))
    this_process()  # one for all trees, and kept
    before = len(list(Path("/proc/self/fd").iterdir()))
    supervisor = Supervisor(AttemptFolder(tmp_path), plan)
    said = supervisor._start() or ""
    supervisor._pump.close()
    assert "could not be put under the limit of its slice" in said
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_what_root_wakes_is_not_waited_for_to_read_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(uid=os.getuid(), gid=os.getgid())
    # More than a pipe holds.
    worker = WorkerPlan(rank=0, command=("true",), env={"LONG": "x" * (1 << 20)})
    saved = HibernationPlan(criu=("criu",), by_root=True)
    plan = replace(_plan(), workers=(worker,), account=account, hibernation=saved)
    monkeypatch.setattr(starts, "_by_root", lambda *_: ["sleep", "10"])
    one = starts.start_worker(plan, worker, Start(prefix=("tree",), woken_from=1), tmp_path)
    runs = one.process.poll() is None
    one.end()
    one.output().close()
    assert runs
