"""Defaults for core values, so that a test shows only what matters to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.intents import (
    Action,
    Intent,
    PutPools,
    PutTeams,
    Submit,
    Verdict,
)
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import (
    AttemptEnded,
    AttemptStarted,
    Cluster,
    Event,
    NodesObserved,
    Observation,
    Outcome,
)
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    IntentId,
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)

#: A round time far from zero.
T0 = Millis(1_000_000_000)
TRAIN = PoolName("train")


def a_device(name: str, index: int = 0, *, kind: str = "A100-40") -> Device:
    return Device(
        device_id=DeviceId(name), index=index, kind=kind, memory_mib=40960, simulated=True
    )


def a_node(name: str = "n1", gpus: int = 4, *, pool: str = TRAIN, **changes: Any) -> Node:
    node = Node(
        node_id=NodeId(name),
        pool=PoolName(pool),
        devices=tuple(a_device(f"{name}-g{i}", i) for i in range(gpus)),
        cpu_milli=64_000,
        memory_mib=262_144,
    )
    return replace(node, **changes)


def a_pool(name: str = TRAIN, **changes: Any) -> Pool:
    made = Pool(
        name=PoolName(name),
        executor="fake",
        min_run_ms=60_000,
        lend_after_ms=0,
        hibernation="on",
    )
    return replace(made, **changes)


def a_team(name: str = "vision", pool: str = TRAIN, **quota: Any) -> Team:
    return Team(name=TeamName(name), quotas={PoolName(pool): Quota(**quota)})


def a_job(name: str = "digits-1", milli_gpu: int = 1000, **changes: Any) -> Spec:
    workers = changes.pop("workers", 1)
    cpu = changes.pop("cpu_milli", 1000)
    role = Role(
        count=workers, milli_gpu=milli_gpu, cpu_milli=cpu, memory_mib=1024, command=("true",)
    )
    spec = Spec(
        kind=Kind.TRAINING,
        name=name,
        team=TeamName("vision"),
        owner=UserName("ann"),
        submitted_by=UserName("ann"),
        pools=(TRAIN,),
        roles=(role,),
    )
    return replace(spec, **changes)


def a_notebook(owner: str = "ann", milli_gpu: int = 500, **changes: Any) -> Spec:
    spec = a_job(
        "", milli_gpu, kind=Kind.NOTEBOOK, owner=UserName(owner), submitted_by=UserName(owner)
    )
    return replace(spec, **changes)


def ids(prefix: str) -> Iterator[str]:
    return (f"{prefix}-{number:06d}" for number in count(1))


class World:
    """A cluster in virtual time: each call is one step of the scheduler."""

    def __init__(self, *nodes: Node, teams: Sequence[Team] = (), pools: Sequence[Pool] = ()):
        self.cluster = Cluster()
        self.now = T0
        self.new_ids = ids("attempt")
        self.intents = ids("intent")
        self.names = ids("workload")
        self.events: list[Event] = []
        self.outcome: Outcome
        self.finals: dict[WorkloadId, Workload] = {}
        self.ask(PutPools(pools=tuple(pools) or (a_pool(),)))
        self.step(NodesObserved(executor="fake", nodes=nodes or (a_node(),)))
        if teams:
            verdict = self.ask(PutTeams(teams=tuple(teams)))
            assert verdict.error is None, verdict.text

    def step(self, *observations: Observation, intents: Sequence[Intent] = ()) -> Outcome:
        self.outcome = advance(
            self.cluster, intents, observations, now_ms=self.now, new_ids=self.new_ids
        )
        self.cluster = self.outcome.cluster
        self.events.extend(self.outcome.changes.events)
        for workload in self.outcome.changes.workloads:
            if workload.ended_ms is not None:
                self.finals[workload.workload_id] = workload
        return self.outcome

    def ask(self, action: Action, by: str = "ann") -> Verdict:
        intent = Intent(
            intent_id=IntentId(next(self.intents)), action=action, by=UserName(by), at_ms=self.now
        )
        self.step(intents=(intent,))
        (verdict,) = self.outcome.changes.verdicts
        return verdict

    def submit(self, spec: Spec, *, redeem: bool = False) -> WorkloadId:
        verdict = self.try_submit(spec, redeem=redeem)
        assert verdict.error is None, verdict.text
        assert verdict.workload_id is not None
        return verdict.workload_id

    def try_submit(self, spec: Spec, *, redeem: bool = False) -> Verdict:
        workload_id = WorkloadId(next(self.names))
        return self.ask(Submit(workload_id=workload_id, spec=spec, redeem=redeem), spec.owner)

    def wait(self, milliseconds: int) -> Outcome:
        self.now = Millis(self.now + milliseconds)
        return self.step()

    def start(self, workload_id: WorkloadId) -> None:
        self.step(AttemptStarted(attempt_id=self.attempt_id(workload_id)))

    def end(self, workload_id: WorkloadId, exit_code: int | None = 0, **more: Any) -> None:
        self.step(
            AttemptEnded(attempt_id=self.attempt_id(workload_id), exit_code=exit_code, **more)
        )

    def run(self, spec: Spec) -> WorkloadId:
        """Submit a job and let it start."""
        workload_id = self.submit(spec)
        self.start(workload_id)
        return workload_id

    def get(self, workload_id: WorkloadId) -> Workload:
        return self.cluster.workloads.get(workload_id) or self.finals[workload_id]

    def state(self, workload_id: WorkloadId) -> State:
        return self.get(workload_id).state

    def attempt_id(self, workload_id: WorkloadId) -> AttemptId:
        attempt = self.get(workload_id).current
        assert attempt is not None, self.get(workload_id)
        return attempt.attempt_id

    def stop_of(self, workload_id: WorkloadId) -> Any:
        attempt = self.get(workload_id).current
        return None if attempt is None else attempt.stop

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]
