"""Nodes, teams and jobs of the benchmark, and an executor that starts nothing and watches as the real one does."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.throughput import GPUS_PER_NODE, machine
from gpucommons.scheduler.core.model.intents import Action, PutPools, PutTeams, Submit
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Observation
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld

TEAMS = 40
USERS_PER_TEAM = 25


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """What is measured."""

    nodes: int
    pools: int
    #: That run or wait, at any time.
    jobs: int
    events_per_s: int
    #: Measured, in virtual time, after the cluster is full.
    seconds: int

    @property
    def gpus(self) -> int:
        """In all pools."""
        return self.nodes * GPUS_PER_NODE


def machines(size: Size) -> Iterator[Node]:
    """Eight GPUs each, the pools in turn."""
    for number in range(size.nodes):
        yield machine(number, pool_name(number % size.pools))


def pool_name(number: int) -> PoolName:
    """Of the pools, by number."""
    return PoolName(f"train-{number}")


def configured(size: Size) -> tuple[Action, ...]:
    """Pools, and teams with three quarters of the GPUs guaranteed to them in equal parts; the rest is borrowed."""
    names = [pool_name(number) for number in range(size.pools)]
    guaranteed = size.gpus // size.pools * 3 // 4 // TEAMS * 1000
    quotas = dict.fromkeys(names, Quota(guaranteed_milli_gpu=guaranteed))
    pools = tuple(Pool(name=name, executor="fake", gpu_kind="A100") for name in names)
    teams = tuple(Team(name=TeamName(f"team-{n:02d}"), quotas=quotas) for n in range(TEAMS))
    return PutPools(pools=pools), PutTeams(teams=teams)


def job(number: int, size: Size) -> tuple[WorkloadId, Submit]:
    """One GPU each; teams, users and pools in turn."""
    team = number % TEAMS
    owner = UserName(f"user-{team:02d}-{number // TEAMS % USERS_PER_TEAM:02d}")
    spec = Spec(
        kind=Kind.TRAINING,
        name=f"job-{number}",
        team=TeamName(f"team-{team:02d}"),
        owner=owner,
        submitted_by=owner,
        pools=(pool_name(number // TEAMS % size.pools),),
        roles=(Role(milli_gpu=1000, cpu_milli=4000, memory_mib=16_384, command=("work",)),),
    )
    workload_id = WorkloadId(f"job-{number:08d}")
    return workload_id, Submit(workload_id=workload_id, spec=spec)


class WatchingExecutor(FakeExecutor):
    """What is true of an attempt is worked out when something happens to it, as a watch of Kubernetes tells it."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self._now = world.now
        self._ends: list[tuple[Millis, AttemptId]] = []
        self._told: dict[AttemptId, tuple[Observation, ...]] = {}

    def _follow(self, attempt: Attempt) -> None:
        super()._follow(attempt)
        self._look(attempt.attempt_id)

    def _look(self, attempt_id: AttemptId) -> None:
        if attempt_id not in self._known:
            return
        self._told[attempt_id] = tuple(self._seen(attempt_id))
        end = self._world.runs[attempt_id].end
        if end is not None and end.at_ms > self._now():
            heapq.heappush(self._ends, (end.at_ms, attempt_id))

    def signal(self, attempt: Attempt, *, now_ms: Millis) -> None:
        """See the protocol."""
        super().signal(attempt, now_ms=now_ms)
        self._look(attempt.attempt_id)

    def observe(self) -> tuple[Observation, ...]:
        """All that is true, as the executor of Kubernetes answers it."""
        while self._ends and self._ends[0][0] <= self._now():
            self._look(heapq.heappop(self._ends)[1])
        return tuple(one for told in self._told.values() for one in told)

    def forget(self, attempt_id: AttemptId) -> None:
        """See the protocol."""
        super().forget(attempt_id)
        self._told.pop(attempt_id, None)
