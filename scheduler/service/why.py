"""Why something waits, when that is likely to end, and what would end it now."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from gpucommons.scheduler import models
from gpucommons.scheduler.core import counterfactuals, preview
from gpucommons.scheduler.core.lifecycle import WAITING_STATES
from gpucommons.scheduler.core.state import Cluster
from gpucommons.scheduler.core.types import Workload, WorkloadId
from gpucommons.scheduler.forecast.estimating import Budget, if_nothing_ends_early
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import find_job, find_lease
from gpucommons.scheduler.service.principal import Principal
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import forecast_view, reason_view

T = TypeVar("T")

#: One future, played while somebody waits for the answer.
_BUDGET = Budget(cycles=100, coarse=0.1, finest_ms=60_000)


def why_job(service: Service, principal: Principal, ref: str) -> models.Why:
    """Why a job is where it is."""
    found = find_job(service, principal, ref)
    authorization.why(principal, found)
    return _why(service, found)


def why_lease(service: Service, principal: Principal, lease_id: str) -> models.Why:
    """Why a notebook's ticket waits."""
    found = find_lease(service, lease_id)
    authorization.why_lease(principal, found)
    return _why(service, found)


def _why(service: Service, workload: Workload) -> models.Why:
    cluster, workload_id = service.loop.cluster, workload.workload_id
    told = preview.why(cluster, workload_id)
    waits = workload.state in WAITING_STATES and workload_id in cluster.workloads
    ways = tuple(counterfactuals.ways(cluster, workload_id, service.now_ms())) if waits else ()
    return models.Why(
        id=workload_id,
        name=workload.spec.name,
        state=workload.state,
        text=f"{workload.spec.name} is {workload.state}." if told is None else told.text,
        reason=reason_view(workload.reason, ways),
        position=workload.position,
        forecast=forecast_view(service.forecasts.of(workload)),
        ways=[_way_view(way) for way in ways],
        at_latest_ms=_at_latest_ms(cluster, workload_id) if waits else None,
    )


def _way_view(way: counterfactuals.Way) -> models.WayView:
    return models.WayView(
        text=way.text,
        at_once=way.at_once,
        milli_gpu=way.milli_gpu,
        workers=way.workers,
        gpu_kind=way.gpu_kind,
        pool=way.pool,
        priority=way.priority,
        over_quota=way.over_quota,
    )


def _at_latest_ms(cluster: Cluster, workload_id: WorkloadId) -> int | None:
    starts = _played(if_nothing_ends_early(cluster, [workload_id], _BUDGET))
    return starts.get(workload_id)


def _played(playing: Generator[None, None, T]) -> T:
    while True:
        try:
            next(playing)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # what the generator returns
