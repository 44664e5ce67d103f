"""Leases and tickets on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gpucommons.scheduler import models
from gpucommons.scheduler.core.events.nodes.unhealthy_devices import told_to
from gpucommons.scheduler.core.explain.offered_size import as_made
from gpucommons.scheduler.core.model.demand import WhyNoSlices, placed_milli_gpu
from gpucommons.scheduler.core.model.holds import slice_memory_mib
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Idleness, State, Workload
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual
from gpucommons.scheduler.forecast.forecast import Forecast
from gpucommons.scheduler.on_idle import UNLESS_SAID, on_idle_of
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.views.blockers import blocker_view
from gpucommons.scheduler.service.views.jobs import forecast_view, reason_class, reason_view
from gpucommons.scheduler.service.views.kept import kept_view
from gpucommons.scheduler.service.views.on_idle import on_idle_text
from gpucommons.scheduler.service.views.place_in_line import position
from gpucommons.scheduler.service.views.visible_names import names_of_others, shows_names


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleLimits:
    """The culler's limits, as screens name them."""

    idle_after_ms: int = 60 * 60_000
    warn_after_ms: int = 50 * 60_000

    @property
    def notice_ms(self) -> int:
        """From a warning to the return of the GPU."""
        return max(1, self.idle_after_ms - self.warn_after_ms)


def lease_view(  # noqa: PLR0913 - all that a part of the view is read from
    workload: Workload,
    principal: Principal,
    cluster: Cluster,
    limits: IdleLimits,
    forecast: Forecast | None = None,
    *,
    why_not: WhyNoSlices,
) -> models.LeaseView:
    """A lease as this caller sees it."""
    spec = workload.spec
    role = spec.roles[0]
    in_full = authorization.sight.sees_lease(principal, workload)
    named = in_full or shows_names(principal, workload, cluster)
    return models.LeaseView(
        id=workload.workload_id,
        user=spec.owner if named else "",
        server_name=spec.server_name if named else "",
        team=spec.team,
        pool=spec.pools[0],
        state=_state(workload, cluster.now_ms),
        milli_gpu=role.milli_gpu,
        gpu_kind=role.gpu_kind,
        environment=spec.environment if in_full else "",
        other_options={name: list(values) for name, values in spec.other_options.items()}
        if authorization.sight.sees_options(principal, workload)
        else {},
        requested_ms=workload.submitted_ms,
        since_ms=workload.since_ms,
        position=position(workload, cluster),
        forecast=forecast_view(forecast) if in_full else None,
        reason=_reason(
            workload, principal, cluster, () if forecast is None else forecast.ways, why_not
        )
        if in_full
        else reason_class(workload.reason),
        redeem_by_ms=workload.redeem_by_ms if in_full else None,
        parked_ms=workload.parked.since_ms
        if in_full and workload.parked and workload.current is None
        else None,
        started_ms=next((one.started_ms for one in workload.attempts if one.started_ms), None),
        slice=slice_view(workload, cluster) if in_full else None,
        idle=_idle_view(workload, cluster, limits) if in_full else None,
        job_offer_after_s=_job_offer_after_s(workload, cluster),
        ended_text=workload.ended_text if in_full else None,
        kept=kept_view(workload.kept, cluster.now_ms)
        if authorization.sight.sees_options(principal, workload)
        else None,
    )


def _state(workload: Workload, now_ms: int) -> str:
    """Kernels whose time is over are removed: there is nothing to wake any more."""
    over = workload.state is State.HIBERNATED and kept_view(workload.kept, now_ms) is None
    return State.ENDED if over else workload.state


def _reason(
    workload: Workload,
    principal: Principal,
    cluster: Cluster,
    ways: Sequence[Counterfactual],
    why_not: WhyNoSlices,
) -> models.ReasonView | None:
    """A ticket's own sizes are on its page: of the ways, only what is in the way is told."""
    others = names_of_others(workload, principal, cluster)
    found = reason_view(as_made(workload.reason, workload.spec, why_not), others=others)
    if found is None:
        return None
    return found.model_copy(update={"blocker": blocker_view(workload, ways, principal, cluster)})


def slice_view(workload: Workload, cluster: Cluster) -> models.SliceView | None:
    """The slice it holds; None while it waits or when it has ended."""
    attempt = workload.current
    if attempt is None or not attempt.placements:
        return None
    placement = attempt.placements[0]
    node = cluster.nodes.get(placement.node_id)
    if node is None or placement.slice_id is None:
        return None
    devices = [one for one in node.all_devices if one.device_id in placement.device_ids]
    pool = cluster.pools.get(node.pool)
    mps = None if pool is None else pool.mps
    return models.SliceView(
        slice_id=placement.slice_id,
        node=node.node_id,
        device_ids=[device.device_id for device in devices],
        device_indices=[device.index for device in devices],
        gpu_kind=devices[0].kind if devices else "",
        milli_gpu=placed_milli_gpu(placement),
        memory_mib=slice_memory_mib(placement, devices),
        isolation=pool.isolation if pool is not None else "none",
        simulated=any(device.simulated for device in devices),
        trouble=" ".join(told_to(attempt, cluster.nodes)) or None,
        mps=None if mps is None else models.MpsModel.model_validate(asdict(mps)),
    )


def _idle_view(workload: Workload, cluster: Cluster, limits: IdleLimits) -> models.IdleView | None:
    """The rule holds from the first second, also before the culler has said anything."""
    if workload.idleness is None and workload.current is None:
        return None
    idleness = workload.idleness or Idleness()
    pool = cluster.pools.get(workload.spec.pools[0])
    allowed = UNLESS_SAID if pool is None else pool.on_idle
    on_idle = on_idle_of(workload.spec.on_idle, allowed)
    return models.IdleView(
        idle_since_ms=idleness.idle_since_ms,
        warned_ms=idleness.warned_ms,
        returns_ms=idleness.returns_ms,
        keeps_left=idleness.keeps_left,
        kept_until_ms=idleness.kept_until_ms or None,
        reclaimed=idleness.reclaimed,
        not_parked=idleness.not_parked,
        idle_after_min=_minutes(limits.idle_after_ms),
        warn_after_min=_minutes(limits.warn_after_ms),
        idle_after_s=limits.idle_after_ms // 1000,
        warn_after_s=limits.warn_after_ms // 1000,
        on_idle=on_idle,
        on_idle_allowed=list(allowed),
        kernels_kept_days=_kept_days(
            workload.spec.kernels_kept_days, None if pool is None else pool.kernels_kept_days
        ),
        kernels_kept_gib=None if pool is None else pool.kernels_kept_gib,
        on_idle_text=on_idle_text(on_idle, "", parks=False),
    )


def _job_offer_after_s(workload: Workload, cluster: Cluster) -> int:
    pool = cluster.pools.get(workload.spec.pools[0])
    return 0 if pool is None else pool.job_offer_after_ms // 1000


def _minutes(length_ms: int) -> int:
    return max(1, length_ms // 60_000)


def _kept_days(chosen: int, allowed: int | None) -> int | None:
    """How long kernels are kept, of what their user chose (0 = nothing) and their pool allows; None =
    neither says it.
    """
    return min((days for days in (chosen, allowed) if days), default=None)
