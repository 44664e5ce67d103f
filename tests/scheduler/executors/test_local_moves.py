"""A move with real processes: one ends, begins again on another GPU, and the whole GPU is given on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
from builders import a_job, a_node, a_pool, a_team, ids

from gpucommons.scheduler.core.state import Action, Cancel, Intent, PutPools, PutTeams, Submit
from gpucommons.scheduler.core.types import (
    AttemptState,
    IntentId,
    Millis,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.loop import Loop, Surroundings
from gpucommons.scheduler.store.memory import MemoryStore

SLEEP = ("sleep", "600")


def now_ms() -> Millis:
    return Millis(int(time.time() * 1000))


class Box:
    """This machine with two pretended GPUs and a loop that is turned by hand."""

    def __init__(self, folder: Path) -> None:
        self.executor = LocalExecutor(
            LocalSettings(
                state_dir=folder / "state",
                home_of=lambda _: folder,
                nodes=lambda: (a_node(gpus=2),),
            )
        )
        self.store = MemoryStore()
        self.names = ids("id")
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={"local": self.executor},
                now=now_ms,
                new_ids=ids("attempt"),
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
            )
        )
        pool = a_pool(executor="local", notice_ms=100, grace_ms=5000, min_run_ms=0)
        self.ask(PutPools(pools=(pool,)))
        self.ask(PutTeams(teams=(a_team(),)))
        self.loop.open()
        self.loop.cycle()

    def ask(self, action: Action) -> None:
        intent_id = IntentId(next(self.names))
        self.store.put_intent(
            Intent(intent_id=intent_id, action=action, by=a_job().owner, at_ms=now_ms())
        )

    def submit(self, name: str, milli_gpu: int) -> WorkloadId:
        spec = a_job(name, milli_gpu)
        spec = replace(spec, roles=(replace(spec.roles[0], command=SLEEP),))
        workload_id = WorkloadId(next(self.names))
        self.ask(Submit(workload_id=workload_id, spec=spec))
        return workload_id

    def get(self, workload_id: WorkloadId) -> Workload:
        return self.loop.cluster.workloads[workload_id]

    def gpu_of(self, workload_id: WorkloadId) -> str | None:
        attempt = self.get(workload_id).current
        if attempt is None or attempt.state is not AttemptState.RUNNING:
            return None
        return str(attempt.placements[0].device_ids[0])

    def until(self, seen: Callable[[], bool]) -> None:
        ends = time.monotonic() + 60
        while not seen():
            assert time.monotonic() < ends, self.loop.cluster
            time.sleep(0.05)
            self.loop.cycle()


def test_a_real_job_moves_to_the_other_gpu_and_the_waiting_one_runs(tmp_path: Path) -> None:
    box = Box(tmp_path)
    try:
        halves = [box.submit(f"half-{number}", 500) for number in range(4)]
        box.until(lambda: all(one in box.loop.cluster.workloads for one in halves))
        box.until(lambda: all(box.gpu_of(one) for one in halves))
        gpus = {one: box.gpu_of(one) for one in halves}
        left = [
            next(o for o in halves if gpus[o] == gpu)
            for gpu in sorted(map(str, set(gpus.values())))
        ]
        for one in set(halves) - set(left):
            box.ask(Cancel(workload_id=one))
        box.until(lambda: len(box.loop.cluster.workloads) == len(left))
        whole = box.submit("whole", 1000)
        box.until(lambda: whole in box.loop.cluster.workloads)
        box.until(lambda: box.gpu_of(whole) is not None)
        box.until(lambda: all(box.gpu_of(one) for one in left))
        assert box.gpu_of(left[0]) == box.gpu_of(left[1]) != box.gpu_of(whole)
        assert sorted(len(box.get(one).attempts) for one in left) == [1, 2]
        kinds = [one.event.kind for one in box.store.events()]
        assert kinds.count("moved") == 1
        assert "evicted" not in kinds
    finally:
        for one in list(box.loop.cluster.workloads):
            box.ask(Cancel(workload_id=one))
        box.until(lambda: not box.loop.cluster.workloads)
        box.executor.close()
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
    assert not mine
