"""A schedule as everyone sees it: its next times, and what became of the last ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models.jobs.schedules import FORGOTTEN, PromotedView, TriggerView
from gpucommons.scheduler.models.text.job_summary import what_runs
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules import cron_times, promoting, trigger_state
from gpucommons.scheduler.schedules.due_runs import RUNS_KEPT
from gpucommons.scheduler.schedules.schedule import Run, Schedule, Scheduled
from gpucommons.scheduler.schedules.triggers import Trigger, TriggerKind
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import also_ended
from gpucommons.scheduler.service.schedules.runs import stored_request
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.where_it_runs import asks_simulated


def schedule_views(
    service: Service, principal: Principal, found: Sequence[Scheduled], *, runs: int
) -> list[models.ScheduleView]:
    """Several, each with so many of its last runs; their jobs are looked up together."""
    jobs = also_ended(
        service, (run.job for scheduled in found for run in scheduled.standing.runs[-runs:])
    )
    return [_view(service, principal, scheduled, jobs, runs=runs) for scheduled in found]


def schedule_view(
    service: Service, principal: Principal, scheduled: Scheduled
) -> models.ScheduleView:
    """One schedule, with all of its last runs."""
    return schedule_views(service, principal, [scheduled], runs=RUNS_KEPT)[0]


def _view(
    service: Service,
    principal: Principal,
    scheduled: Scheduled,
    jobs: Mapping[WorkloadId, Workload],
    *,
    runs: int,
) -> models.ScheduleView:
    found, standing = scheduled.schedule, scheduled.standing
    now_ms, rule = service.now_ms(), found.promote
    asked = found.asked_ms > standing.asked_ms
    is_trying = standing.starting_ms is not None and (asked or not found.suspended)
    has_times = found.cron and not found.suspended
    coming = cron_times.after(found.cron, found.time_zone, now_ms) if has_times else ()
    kind, what, simulated = _asked(service, found)
    return models.ScheduleView(
        name=found.name,
        owner=found.owner,
        team=found.team,
        schedule=found.cron,
        triggers=[_trigger(scheduled, one) for one in found.triggers],
        compared_by="" if rule is None else rule.metric,
        direction="" if rule is None else "maximize" if rule.maximize else "minimize",
        rule="" if rule is None else "by hand" if rule.by_hand else "better",
        promoted=_promoted(scheduled),
        time_zone=found.time_zone,
        concurrency_policy=found.concurrency.value,
        starting_deadline_s=found.starting_deadline_s,
        suspend=found.suspended,
        held=found.held,
        asked=asked,
        what=what,
        simulated=simulated,
        kind=kind,
        next_ms=list(islice(coming, 5)),
        hindrance=standing.hindrance if is_trying else "",
        runs=[_run(one, jobs) for one in reversed(standing.runs[-runs:])],
        mine=authorization.schedules.may_write_schedule(principal, found.owner),
        steerable=authorization.sight.steers(principal, found.team, found.owner),
    )


def _asked(service: Service, found: Schedule) -> tuple[str, str, bool]:
    """Of what kind its runs are, what they run, and whether on simulated GPUs."""
    try:
        request = stored_request(found)
    except Misconfigured:
        return "", "what was stored is not understood", False
    return str(request.kind), what_runs(request), asks_simulated(service.loop.cluster, request)


def _run(one: Run, jobs: Mapping[WorkloadId, Workload]) -> models.ScheduleRunView:
    job = None if one.job is None else jobs.get(one.job)
    return models.ScheduleRunView(
        outcome=one.outcome.value,
        due_ms=one.due_ms,
        until_ms=one.until_ms,
        count=one.count,
        text=one.text,
        job_id=one.job,
        job_name=one.job_name,
        job_state=_state(one, job),
        by_hand=one.by_hand,
        trigger=one.trigger,
        cause=one.cause,
        version=one.version,
        verdict=one.verdict.value if one.verdict is not None else "",
        why=one.why,
        value=one.value,
    )


def _state(one: Run, job: Workload | None) -> str | None:
    if one.job is None:
        return None
    return FORGOTTEN if job is None else job.state.value


def _promoted(scheduled: Scheduled) -> PromotedView | None:
    found, rule = promoting.promoted_of(scheduled), scheduled.schedule.promote
    if found is None or rule is None:
        return None
    return PromotedView(
        job_id=found.job,
        job_name=found.job_name,
        metric=found.metric or rule.metric,
        value=found.value,
        since_ms=found.at_ms,
        why=found.why,
        by=found.by,
    )


def _trigger(scheduled: Scheduled, trigger: Trigger) -> TriggerView:
    sensed = trigger_state.sensed_of(scheduled.standing, trigger)
    posted = trigger_state.posted_of(scheduled.schedule, trigger)
    is_data = trigger_state.is_looked_at(trigger)
    return TriggerView(
        kind=trigger.kind.value,
        words=trigger.words,
        what=shlex.join(trigger.command) if trigger.command else trigger.what,
        on=trigger.on.value if trigger.kind is TriggerKind.AFTER else None,
        below=trigger.below if trigger.kind is TriggerKind.METRIC else None,
        every_s=trigger.every_s if is_data else None,
        version=sensed.version or "",
        checked_ms=sensed.checked_ms if is_data and sensed.checked_ms else None,
        changed_ms=sensed.changed_ms,
        problem=sensed.problem,
        value=None if posted is None else posted.value,
        posted_ms=None if posted is None else posted.at_ms,
    )
