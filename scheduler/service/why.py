"""Why something waits, when that is likely to end, and what would end it now."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.core.whatif import counterfactuals
from gpucommons.scheduler.forecast.estimating import Budget, if_nothing_ends_early
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, current_state
from gpucommons.scheduler.service.in_memory.trial_cycles import Trials
from gpucommons.scheduler.service.lookup import find_job, find_lease
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.drills import way_view
from gpucommons.scheduler.service.views.jobs import forecast_view, waiting_reason
from gpucommons.scheduler.service.views.place_in_line import position

T = TypeVar("T")

#: One future, played while somebody waits for the answer.
_BUDGET = Budget(cycles=100, coarse=0.1, finest_ms=60_000)


#: Nodes and live workloads from which on a trial cycle is left to the thread of the forecasts: here
#: it would take the interpreter from the loop for seconds.
LARGE = 2_000
#: It answers within seconds; who cannot wait gets the rest of the answer.
_PATIENCE_S = 8.0


def why_job(service: Service, principal: Principal, ref: str) -> Pending[models.Why]:
    """Why a job is where it is."""
    found = find_job(service, principal, ref)
    authorization.jobs.why(principal, found)
    return _why(service, principal, found)


def why_lease(service: Service, principal: Principal, lease_id: str) -> Pending[models.Why]:
    """Why a notebook's ticket waits."""
    found = find_lease(service, lease_id)
    authorization.notebooks.why_lease(principal, found)
    return _why(service, principal, found)


def _why(service: Service, principal: Principal, workload: Workload) -> Pending[models.Why]:
    cluster, workload_id = service.loop.cluster, workload.workload_id
    waits = workload.state in WAITING_STATES and workload_id in cluster.workloads
    if not waits:
        return Pending(probe=lambda: _answer(service, principal, workload, ()))
    if len(cluster.nodes) + len(cluster.workloads) < LARGE:
        now_ms = service.now_ms()
        trials = service.trials.found(cluster, workload_id, now_ms)
        if trials is None:
            trials = Trials(
                made_ms=now_ms,
                ways=tuple(counterfactuals.ways(cluster, workload_id, now_ms, service.why_not)),
                at_latest_ms=_at_latest_ms(cluster, workload_id),
            )
            service.trials.keep(cluster, workload_id, trials)
        tried = trials
        return Pending(
            probe=lambda: _answer(service, principal, workload, tried.ways, tried.at_latest_ms)
        )

    def probe() -> models.Why | None:
        found = service.forecasts.ways(workload)
        return None if found is None else _answer(service, principal, workload, found)

    return Pending(
        probe=probe,
        timeout_s=_PATIENCE_S,
        meanwhile=lambda: _answer(service, principal, workload, ()),
        poll_s=0.5,
    )


def _answer(
    service: Service,
    principal: Principal,
    workload: Workload,
    ways: tuple[counterfactuals.Counterfactual, ...],
    at_latest_ms: int | None = None,
) -> models.Why:
    cluster, workload_id = service.loop.cluster, workload.workload_id
    return models.Why(
        id=workload_id,
        name=workload.spec.name,
        state=workload.state,
        text=current_state.in_words(cluster.workloads.get(workload_id, workload)),
        reason=waiting_reason(workload, ways, principal, cluster, service.why_not),
        position=position(workload, cluster),
        forecast=forecast_view(service.forecasts.of(workload)),
        ways=[_way_view(way) for way in ways if way.blocker is None],
        at_latest_ms=at_latest_ms,
        way_to_go_on=way_view(workload, cluster, service.now_ms()),
    )


def _way_view(way: counterfactuals.Counterfactual) -> models.WayView:
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
