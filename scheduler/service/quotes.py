"""What a job would get if it were submitted now: the panel's quota line, in words."""

from __future__ import annotations

from gpucommons.gpu.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core import quota
from gpucommons.scheduler.core.demand import may_have, milli_gpu, must_have, on_cpu_only
from gpucommons.scheduler.core.state import Cluster, Submit
from gpucommons.scheduler.core.types import HoldClass, PoolName, Spec, Workload, WorkloadId
from gpucommons.scheduler.service.jobs import quoted_spec
from gpucommons.scheduler.service.preview import what_if
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Service, check
from gpucommons.scheduler.service.views.cluster import pool_views
from gpucommons.scheduler.service.views.jobs import reason_view

_ID = WorkloadId("00000000-0000-7000-8000-ffffffffffff")


def quote_job(service: Service, principal: Principal, request: models.JobRequest) -> models.Quote:
    """Say what would happen to this job if it were submitted now; nothing is stored."""
    spec = quoted_spec(service, principal, request)
    cluster = service.loop.cluster
    after, (verdict,) = what_if(cluster, [Submit(workload_id=_ID, spec=spec)], service.now_ms())
    check(verdict)
    return _quote(spec, after.workloads[_ID], cluster)


def _quote(spec: Spec, decided: Workload, cluster: Cluster) -> models.Quote:
    attempt, promised = decided.current, decided.nomination
    placements = (
        attempt.placements if attempt else promised.placements if promised is not None else ()
    )
    pool = quota.pool_of(cluster.nodes, placements) or spec.pools[0]
    own = quota.quota_of(cluster.teams, spec.team, pool)
    use = quota.uses(cluster.nodes, cluster.workloads.values()).get((spec.team, pool), quota.Use())
    hold_class = _hold_class(spec, decided, own.guaranteed_milli_gpu - use.guaranteed)
    free = next((p.free_milli_gpu for p in pool_views(cluster) if p.name == pool), 0)
    return models.Quote(
        hold_class=hold_class,
        text=_sentence(spec, hold_class, pool, own.guaranteed_milli_gpu, use.guaranteed),
        starts_now=attempt is not None,
        reason=reason_view(decided.reason),
        guaranteed_milli_gpu=own.guaranteed_milli_gpu,
        guaranteed_used_milli_gpu=use.guaranteed,
        free_milli_gpu=free,
    )


def _hold_class(spec: Spec, decided: Workload, unused_guarantee: int) -> HoldClass:
    """As decided; for a job that would wait, by what is left of its guarantee."""
    if decided.current is not None:
        return decided.current.hold_class
    if decided.nomination is not None:
        return decided.nomination.hold_class
    if on_cpu_only(spec):
        return HoldClass.CPU
    fits = milli_gpu(must_have(spec)) <= unused_guarantee
    return HoldClass.GUARANTEED if fits or not spec.over_quota else HoldClass.OVER_QUOTA


def _sentence(spec: Spec, hold_class: HoldClass, pool: PoolName, guaranteed: int, used: int) -> str:
    if hold_class is HoldClass.CPU:
        return "Asks for no GPU: no quota is used."
    asked = milli_gpu((*must_have(spec), *may_have(spec)))
    numbers = (
        f"{spec.team} is guaranteed {format_milli_gpu(guaranteed)} in {pool},"
        f" {format_milli_gpu(used)} in use"
    )
    if hold_class is HoldClass.GUARANTEED:
        return f"{numbers}: {format_milli_gpu(asked)} asked is inside the guarantee."
    unused = max(0, guaranteed - used)
    rest = f"; {format_milli_gpu(unused)} would be guaranteed" if unused else ""
    return (
        f"{numbers}: {format_milli_gpu(asked)} asked is over-quota,"
        f" {_all(asked)} can be stopped{rest}."
    )


def _all(asked: int) -> str:
    return f"all {format_milli_gpu(asked)}" if asked > 1000 else "it"  # noqa: PLR2004 - one GPU
