"""Jobs on the wire. Others' jobs lose their names, commands and everything they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from gpucommons.scheduler import models
from gpucommons.scheduler.core.elastic import gain
from gpucommons.scheduler.core.events.nodes.unhealthy_devices import told_to
from gpucommons.scheduler.core.explain.offered_size import as_made
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.badges import is_safe_to_borrow
from gpucommons.scheduler.core.going_on.hibernating import is_kept
from gpucommons.scheduler.core.going_on.image_places import for_all_pools
from gpucommons.scheduler.core.model.demand import WhyNoSlices, on_cpu_only, placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Kind,
    PoolName,
    Reason,
    ReasonClass,
    Spec,
    State,
    Stop,
    Workload,
)
from gpucommons.scheduler.core.quota.quota import pool_name_of
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual
from gpucommons.scheduler.forecast.forecast import Forecast
from gpucommons.scheduler.models.text.state_words import job_words
from gpucommons.scheduler.money import from_micro
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.views.blockers import blocker_view
from gpucommons.scheduler.service.views.drills import drill_view, way_view
from gpucommons.scheduler.service.views.place_in_line import position
from gpucommons.scheduler.service.views.visible_names import names_of_others, shows_names
from gpucommons.scheduler.service.views.where_it_runs import (
    any_simulated,
    results_are_away,
    slow_places,
    tightness_view,
)


def queued(intent: Intent) -> Workload:
    """A submitted workload that no cycle has seen yet."""
    action = intent.action
    assert isinstance(action, Submit)  # noqa: S101 - only such intents are looked up
    waiting = State.WAITING if action.spec.kind is Kind.NOTEBOOK else State.QUEUED
    return Workload(
        workload_id=action.workload_id,
        spec=action.spec,
        state=waiting,
        submitted_ms=intent.at_ms,
        since_ms=intent.at_ms,
        checkpoint=action.checkpoint,
    )


def job_view(  # noqa: PLR0913 - all that a part of the view is read from
    workload: Workload,
    principal: Principal,
    cluster: Cluster,
    forecast: Forecast | None = None,
    *,
    now_ms: int,
    why_not: WhyNoSlices,
) -> models.JobView:
    """A job as this caller sees it."""
    spec = workload.spec
    in_full = authorization.sight.sees(principal, spec.team, spec.owner)
    named = in_full or shows_names(principal, workload, cluster)
    pool = _last_pool(workload, cluster)
    attempts = workload.attempts if in_full else ()
    ways = () if forecast is None else forecast.ways
    return models.JobView(
        id=workload.workload_id,
        name=spec.name if named else spec.kind,
        kind=spec.kind,
        team=spec.team,
        owner=spec.owner if named else "",
        submitted_by=spec.submitted_by if named else "",
        state=workload.state,
        state_text=job_words(workload.state, _stopped_why(workload)),
        hold_class=_hold_class(workload),
        pools=list(for_all_pools(workload).pools),
        pool=pool,
        milli_gpu=sum(role.milli_gpu * role.count for role in spec.roles),
        workers=sum(role.count for role in spec.roles),
        submitted_size=_submitted_size(workload),
        priority=spec.priority,
        over_quota=spec.over_quota,
        submitted_ms=workload.submitted_ms,
        since_ms=workload.since_ms,
        ended_ms=workload.ended_ms,
        ended_text=workload.ended_text if in_full else None,
        reason=waiting_reason(workload, ways, principal, cluster, why_not)
        if in_full
        else reason_class(workload.reason),
        position=position(workload, cluster),
        forecast=forecast_view(forecast) if in_full else None,
        progress=_progress(workload) if in_full else None,
        checkpoint=_checkpoint(workload) if in_full else None,
        way_to_go_on=way_view(workload, cluster, now_ms) if in_full else None,
        drill=drill_view(workload) if in_full else None,
        safe_to_borrow=in_full and is_safe_to_borrow(workload, cluster.badges),
        attempts=[attempt_view(workload, attempt, cluster) for attempt in attempts],
        pauses=[
            models.PauseView(from_ms=pause.from_ms, to_ms=pause.to_ms)
            for pause in (workload.pauses if in_full else ())
        ],
        held_milli_gpu_s=held_milli_gpu_s(workload, cluster.now_ms),
        lost_milli_gpu_s=lost_milli_gpu_s(workload) if in_full else 0,
        simulated=not on_cpu_only(spec)
        and any_simulated(cluster, spec.pools if pool is None else (pool,)),
        source=_source(spec) if in_full else None,
        part_of=_part_of(spec) if in_full else None,
        results_away=in_full and results_are_away(cluster, workload),
        request=request_of(for_all_pools(workload)) if in_full else None,
        warnings=told_to(workload.current, cluster.nodes) if in_full else [],
    )


def waiting_reason(
    workload: Workload,
    ways: Sequence[Counterfactual],
    principal: Principal,
    cluster: Cluster,
    why_not: WhyNoSlices,
) -> models.ReasonView | None:
    """Why something waits, with what the person can do about it."""
    reason = as_made(workload.reason, workload.spec, why_not)
    found = reason_view(reason, ways, names_of_others(workload, principal, cluster))
    if found is None:
        return None
    return found.model_copy(update={"blocker": blocker_view(workload, ways, principal, cluster)})


def _part_of(spec: Spec) -> models.PartOfView | None:
    found = spec.part_of
    if found is None:
        return None
    return models.PartOfView(
        id=found.parent_id, kind=found.kind.value, name=found.name, number=found.number
    )


def _submitted_size(workload: Workload) -> models.JobSize | None:
    if workload.resized is None:
        return None
    size = workload.resized.submitted
    return models.JobSize(milli_gpu=size.milli_gpu, workers=size.workers)


def reason_view(
    reason: Reason | None, ways: Sequence[Counterfactual] = (), others: Sequence[str] = ()
) -> models.ReasonView | None:
    """Why something waits. A size that a whole cycle found says more than a look at the room.

    ``others`` are jobs of other teams in its way whose names the caller may know.
    """
    if reason is None:
        return None
    text = reason.text
    if others and reason.code is ReasonClass.DRAINING:
        text = f"{text.removesuffix('.')} ({', '.join(others)})."
    size = next((way for way in ways if way.milli_gpu is not None), None)
    if size is None:
        startable, unblock = reason.startable_milli_gpu, reason.unblock
    else:
        startable, unblock = size.milli_gpu if size.at_once else None, size.text
    return models.ReasonView(
        code=reason.code, text=text, unblock=unblock, startable_milli_gpu=startable
    )


def forecast_view(forecast: Forecast | None) -> models.ForecastView | None:
    """What is likely."""
    if forecast is None:
        return None
    window = forecast.window
    return models.ForecastView(
        made_ms=forecast.made_ms,
        from_ms=None if window is None else window.from_ms,
        to_ms=None if window is None else window.to_ms,
        right_of_ten=forecast.right_of_ten,
        basis=forecast.basis,
        span=forecast.span,
        note=forecast.note,
        unknown=forecast.unknown,
        at_latest_ms=None if forecast.bound is None else forecast.bound.length_ms,
        text=forecast.text,
        # Of what alone is in the way, the reason tells.
        ways=[way.text for way in forecast.ways if way.blocker is None],
    )


def _stopped_why(workload: Workload) -> str | None:
    stop = None if workload.current is None else workload.current.stop
    return None if stop is None else stop.why


def reason_class(reason: Reason | None) -> models.ReasonView | None:
    """The kind of a reason: what other teams may know."""
    return None if reason is None else models.ReasonView(code=reason.code, text="")


def stop_view(stop: Stop | None) -> models.StopView | None:
    """An announced stop."""
    if stop is None:
        return None
    return models.StopView(
        why=stop.why,
        text=stop.text,
        announced_ms=stop.announced_ms,
        term_ms=stop.term_ms,
        kill_ms=stop.kill_ms,
        notice_signal=stop.notice_signal,
    )


def attempt_view(workload: Workload, attempt: Attempt, cluster: Cluster) -> models.AttemptView:
    """One run."""
    nodes = list(dict.fromkeys(str(placement.node_id) for placement in attempt.placements))
    return models.AttemptView(
        id=attempt.attempt_id,
        number=attempt.number,
        state=attempt.state,
        hold_class=attempt.hold_class,
        node=nodes[0] if nodes else None,
        nodes=nodes,
        drivers=list(attempt.drivers),
        tightness=tightness_view(attempt.placements, cluster.nodes),
        slow=slow_places(attempt.placements, cluster.nodes) if attempt.ended_ms is None else [],
        milli_gpu=attempt_milli_gpu(attempt),
        workers=gain.workers_of(workload, attempt),
        times_faster=gain.times_faster(workload, attempt),
        reserved_ms=attempt.reserved_ms,
        started_ms=attempt.started_ms,
        ended_ms=attempt.ended_ms,
        exit_code=attempt.exit_code,
        ended_text=attempt.ended_text,
        resumed_from_step=None if attempt.resumed_from is None else attempt.resumed_from.step,
        files_kept=attempt.files_kept,
        image_bytes=None if attempt.image is None else attempt.image.size_bytes,
        woken_from=None if attempt.hibernation is None else attempt.hibernation.woken_from,
        hibernation_text=words.of_hibernation(attempt),
        stop=stop_view(attempt.stop),
    )


def attempt_milli_gpu(attempt: Attempt) -> int:
    """What an attempt holds."""
    return sum(placed_milli_gpu(placement) for placement in attempt.placements)


def held_milli_gpu_s(workload: Workload, now_ms: int) -> int:
    """GPU time of all attempts, from reservation to the end of the last process."""
    return sum(
        attempt_milli_gpu(attempt)
        * max(0, (now_ms if attempt.ended_ms is None else attempt.ended_ms) - attempt.reserved_ms)
        // 1000
        for attempt in workload.attempts
    )


def lost_milli_gpu_s(workload: Workload) -> int:
    """GPU time after the last checkpoint of every attempt that another one has to do again.

    The attempt with which the job ended for good lost nothing.
    """
    ended = [attempt for attempt in workload.attempts if attempt.state is AttemptState.ENDED]
    redone = ended[:-1] if ended and _ended_with(workload, ended[-1]) else ended
    return sum(_lost(workload, index, attempt) for index, attempt in enumerate(redone))


def _ended_with(workload: Workload, last: Attempt) -> bool:
    """Whether a job ended with its last attempt, not later: cancelled in line, after a stop."""
    if workload.state is State.CANCELLED and last.stop is not None:
        return last.stop.why == StopCause.CANCEL
    return is_final(workload) and last.ended_ms == workload.ended_ms


def _lost(workload: Workload, index: int, attempt: Attempt) -> int:
    if attempt.started_ms is None or attempt.ended_ms is None or is_kept(workload, attempt):
        return 0
    later = workload.attempts[index + 1 :]
    saved = later[0].resumed_from if later else workload.checkpoint
    since = attempt.started_ms
    if saved is not None and saved.attempt_id == attempt.attempt_id:
        since = max(since, saved.at_ms)
    return attempt_milli_gpu(attempt) * max(0, attempt.ended_ms - since) // 1000


def _hold_class(workload: Workload) -> str | None:
    holder = workload.current or workload.nomination
    return None if holder is None else holder.hold_class


def _last_pool(workload: Workload, cluster: Cluster) -> PoolName | None:
    last = workload.attempts[-1] if workload.attempts else None
    return None if last is None else pool_name_of(cluster.nodes, last.placements)


def _progress(workload: Workload) -> models.ProgressView | None:
    found = workload.progress
    if found is None:
        return None
    return models.ProgressView(
        step=found.step,
        total_steps=found.total_steps,
        metrics=dict(found.metrics),
        at_ms=found.at_ms,
        source=found.source,
        unit=found.unit,
    )


def _checkpoint(workload: Workload) -> models.CheckpointView | None:
    found = workload.checkpoint
    if found is None:
        return None
    return models.CheckpointView(
        step=found.step, size_bytes=found.size_bytes, at_ms=found.at_ms, unit=found.unit
    )


def _source(spec: Spec) -> str | None:
    """The file that it runs, where its command names one."""
    command = spec.roles[0].command if spec.roles else ()
    kinds = (".ipynb", ".py", ".sh")
    return next((part for part in command if PurePosixPath(part).suffix in kinds), None)


def request_of(spec: Spec) -> models.JobRequest:
    """The request that makes this spec again."""
    return models.JobRequest(
        name=spec.name,
        kind="retrain" if spec.kind is Kind.RETRAIN else "training",
        team=spec.team,
        pools=list(spec.pools),
        roles=[
            models.RoleRequest(
                name=role.name,
                count=role.count,
                milli_gpu=role.milli_gpu,
                gpu_memory_mib=role.gpu_memory_mib or None,
                gpu_kind=role.gpu_kind,
                cpu_milli=role.cpu_milli,
                memory_mib=role.memory_mib,
                command=list(role.command),
            )
            for role in spec.roles
        ],
        min_workers=spec.min_workers,
        max_workers=spec.max_workers,
        priority=spec.priority,  # type: ignore[arg-type] # a spec holds one of the three
        over_quota=spec.over_quota,
        max_run_s=None if spec.max_run_ms is None else spec.max_run_ms // 1000,
        max_price=None if spec.max_price_micro is None else from_micro(spec.max_price_micro),
        start_timeout_s=spec.start_timeout_ms // 1000,
        after=[one for one in spec.after if one not in {*spec.after_any, *spec.after_failed}],
        after_any=list(spec.after_any),
        after_failed=list(spec.after_failed),
        near=list(spec.near),
        data=list(spec.data),
        not_before_ms=spec.not_before_ms,
        parent=spec.parent,
        resume_from=spec.resume_from,
        launcher=spec.launcher,
        snapshot=spec.snapshot,
        working_dir=spec.working_dir,
        environment=spec.environment,
        links=list(spec.links),
        links_from=spec.links_from,
        env=dict(spec.env),
        secrets=dict(spec.secrets),
        checkpoints_kept=spec.checkpoints_kept,
        max_restarts=spec.max_restarts,
        results_to=spec.results_to,
        exit_after_signal=spec.exit_after_signal,  # type: ignore[arg-type] # one of the two
        notice_signal=spec.notice_signal,  # type: ignore[arg-type] # one of the two
        hibernation=spec.hibernation,
        labels=dict(spec.labels),
        plan=None if spec.plan is None else spec.plan.plan_id,
    )
