"""A cluster for a trace: whole nodes for its load, a quota for each team, and its jobs as specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, Device, DeviceId
from gpucommons.scheduler.core.model.intents import PutPools, PutTeams
from gpucommons.scheduler.core.model.resources import Node, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster, NodesObserved
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    NodeId,
    PoolName,
    Role,
    Spec,
    TeamName,
    UserName,
    WorkloadId,
)
from gpucommons.scheduler.errors import CannotLayOut
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.engine import Simulation
from gpucommons.scheduler.simulation.trace import Trace, TraceJob

GPUS_PER_NODE = 8
POOL = PoolName("train")
#: Processor and memory never decide here: traces say nothing of them.
_CPU_PER_GPU, _MEMORY_PER_GPU = 1000, 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Nodes, quotas in GPUs by team, and jobs that each fit their team's quota."""

    nodes: int
    quotas: dict[str, int]
    jobs: tuple[TraceJob, ...]
    #: Jobs that asked for more than their team's quota: they run smaller and longer.
    shrunk: int

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * GPUS_PER_NODE


def set_up(trace: Trace, load: float) -> Setting:
    """Size a cluster so that the trace's GPU time fills this part of it.

    Every team's quota is its part of the trace's GPU time in whole nodes, at least one: a partition
    that divides nodes would waste GPUs, and be too easy to beat. A job larger than its team's quota
    could never run in a static partition; it gets the quota for as much longer, under every policy.
    """
    nodes = max(1, round(trace.work / (max(1, trace.span_ms) * load * GPUS_PER_NODE)))
    nodes = max(nodes, len(trace.work_of_teams()))
    shares = _split(nodes, trace.work_of_teams())
    quotas = {team: share * GPUS_PER_NODE for team, share in shares.items()}
    jobs = tuple(_shrunk(job, quotas[job.team]) for job in trace.jobs)
    shrunk = sum(one.gpus != other.gpus for one, other in zip(jobs, trace.jobs, strict=True))
    return Setting(nodes=nodes, quotas=quotas, jobs=jobs, shrunk=shrunk)


def _split(nodes: int, work: dict[str, int]) -> dict[str, int]:
    """Divide nodes by work: one for each team, the next always to whom its share is shortest."""
    shares = dict.fromkeys(work, 1)
    for _ in range(nodes - len(work)):
        team = min(work, key=lambda one: (-(work[one] * 1_000_000 // shares[one]), one))
        shares[team] += 1
    return shares


def _shrunk(job: TraceJob, quota: int) -> TraceJob:
    if job.gpus <= quota:
        return job
    gpus = quota // GPUS_PER_NODE * GPUS_PER_NODE or quota
    return replace(job, gpus=gpus, run_ms=job.work // gpus)


def parts(gpus: int) -> list[int]:
    """The GPUs a job needs on one node each: full nodes and a rest."""
    full, rest = divmod(gpus, GPUS_PER_NODE)
    return [GPUS_PER_NODE] * full + ([rest] if rest else [])


def a_spec(job: TraceJob, number: int) -> Spec:
    """The job as it would be submitted."""
    full, rest = divmod(job.gpus, GPUS_PER_NODE)
    roles = []
    if full:
        roles.append(_role("worker", full, GPUS_PER_NODE))
    if rest:
        roles.append(_role("rest" if full else "worker", 1, rest))
    return Spec(
        kind=Kind.TRAINING,
        name=f"job-{number}",
        team=TeamName(job.team),
        owner=UserName(job.user),
        submitted_by=UserName(job.user),
        pools=(POOL,),
        roles=tuple(roles),
    )


def _role(name: str, count: int, gpus: int) -> Role:
    return Role(
        name=name,
        count=count,
        milli_gpu=gpus * WHOLE_MILLI_GPU,
        cpu_milli=gpus * _CPU_PER_GPU,
        memory_mib=gpus * _MEMORY_PER_GPU,
    )


def the_nodes(count: int, pool: PoolName = POOL) -> tuple[Node, ...]:
    """As many whole nodes, all alike."""
    return tuple(_node(f"{pool}-{number:04d}", pool) for number in range(count))


def _node(name: str, pool: PoolName) -> Node:
    devices = tuple(
        Device(
            device_id=DeviceId(f"{name}-{i}"),
            index=i,
            kind="GPU",
            memory_mib=81_920,
            simulated=True,
        )
        for i in range(GPUS_PER_NODE)
    )
    return Node(
        node_id=NodeId(name),
        pool=pool,
        devices=devices,
        cpu_milli=GPUS_PER_NODE * _CPU_PER_GPU,
        memory_mib=GPUS_PER_NODE * _MEMORY_PER_GPU,
    )


def job_id(number: int) -> WorkloadId:
    """The id of the trace's job of this number."""
    return WorkloadId(f"sim-{number:09d}")


def simulation_of(  # noqa: PLR0913 - one question; most leave the last out
    setting: Setting,
    conditions: Conditions,
    pool: Pool | None = None,
    quotas: Mapping[TeamName, Quota] | None = None,
    *,
    spec_of: Callable[[TraceJob, int], Spec] = a_spec,
    speed_permille: Callable[[WorkloadId, int], int] = lambda _, __: 0,
) -> Simulation:
    """The whole trace, ready to be played: every team's quota is guaranteed, all may borrow.

    Raises
    ------
    CannotLayOut
        Other quotas than the setting's ask for more than its nodes have.
    """
    if quotas is None:
        quotas = {
            TeamName(name): Quota(guaranteed_milli_gpu=gpus * WHOLE_MILLI_GPU)
            for name, gpus in setting.quotas.items()
        }
    simulation = Simulation(
        Cluster(), now_ms=Millis(0), conditions=conditions, speed_permille=speed_permille
    )
    simulation.at(0, PutPools(pools=(pool or Pool(name=POOL, executor="simulation"),)))
    simulation.at(0, NodesObserved(executor="simulation", nodes=the_nodes(setting.nodes)))
    simulation.step(Millis(0))
    teams = tuple(Team(name=name, quotas={POOL: quota}) for name, quota in quotas.items())
    simulation.at(0, PutTeams(teams=teams))
    (verdict,) = simulation.step(Millis(0)).changes.verdicts
    if verdict.error is not None:
        # A trial saves nothing anyway.
        raise CannotLayOut(verdict.text.replace(", not saved", ""))
    for number, job in enumerate(setting.jobs):
        simulation.submit(job.submit_ms + 1, spec_of(job, number), job.run_ms, job_id(number))
    return simulation
