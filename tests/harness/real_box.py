"""This machine with two pretended GPUs, a real executor, and a loop that is turned by hand."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from builders import a_job, a_node, a_pool, a_team, ids

from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.core.model.intents import (
    Action,
    Cancel,
    Intent,
    PutPools,
    PutTeams,
    Submit,
)
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    IntentId,
    Millis,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.local.local import LocalExecutor, LocalSettings
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.memory import MemoryStore

SLEEP = ("sleep", "600")


def now_ms() -> Millis:
    return Millis(int(time.time() * 1000))


class Box:
    """This machine with two pretended GPUs and a loop that is turned by hand."""

    def __init__(
        self,
        folder: Path,
        can: HibernationAbility | None = None,
        criu: tuple[str, ...] = (),
        notice_signal: str = "none",
        *,
        grace_ms: int = 5000,
        change: Callable[[LocalSettings], LocalSettings] = lambda settings: settings,
    ) -> None:
        node = a_node(gpus=2)
        simulated = tuple(replace(device, simulated=True) for device in node.devices)
        node = replace(node, devices=simulated, hibernation=can)
        pool = a_pool(
            executor="local",
            notice_ms=100,
            grace_ms=grace_ms,
            min_run_ms=0,
            notice_signal=notice_signal,
        )
        #: Whether it is known what this machine can do, and what that is.
        self.tested, self.can = True, can
        settings = LocalSettings(
            state_dir=folder / "state",
            home_of=lambda _: folder,
            nodes=lambda: (replace(node, hibernation=self.can if self.tested else None),),
            is_tested=lambda: self.tested,
            pool_named=lambda _name: pool,
            criu=lambda: criu,
        )
        self.executor = LocalExecutor(change(settings))
        self.store = MemoryStore()
        self.names = ids("id")
        self.loop = Loop(
            Surroundings(
                store=self.store,
                executors={"local": self.executor},
                now=now_ms,
                # What an attempt left is found on the whole machine, by boxes of other tests as well.
                new_ids=ids(f"attempt-{uuid.uuid4().hex[:8]}"),
                token_of=lambda attempt_id: f"token of {attempt_id}",
                api_url="http://127.0.0.1:1",
            )
        )
        self.ask(PutPools(pools=(pool,)))
        self.ask(PutTeams(teams=(a_team(),)))
        self.loop.open()
        self.loop.cycle()

    def ask(self, action: Action) -> None:
        intent_id = IntentId(next(self.names))
        self.store.put_intent(
            Intent(intent_id=intent_id, action=action, by=a_job().owner, at_ms=now_ms())
        )

    def submit(
        self, name: str, milli_gpu: int, command: tuple[str, ...] = SLEEP, priority: str = "normal"
    ) -> WorkloadId:
        spec = replace(a_job(name, milli_gpu), priority=priority)
        spec = replace(spec, roles=(replace(spec.roles[0], command=command),))
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

    def close(self) -> None:
        """End its jobs: they outlive the executor by design, and would run beside the tests after this one."""
        for one in list(self.loop.cluster.workloads):
            self.ask(Cancel(workload_id=one))
        self.until(lambda: not self.loop.cluster.workloads)
        self.executor.close()
