"""Which of a schedule's models holds: by its rule when a run is over, or because somebody says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, State, Workload
from gpucommons.scheduler.curves.shown_curve import best_source
from gpucommons.scheduler.errors import Misconfigured, UnknownWorkload
from gpucommons.scheduler.metric_spelling import metric_called
from gpucommons.scheduler.models.jobs.schedules import PromotionRequest
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules import promoting
from gpucommons.scheduler.schedules.due_runs import next_look_ms
from gpucommons.scheduler.schedules.promoting import Model
from gpucommons.scheduler.schedules.schedule import (
    Promote,
    Promoted,
    Schedule,
    Scheduled,
    Standing,
    Verdict,
)
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import find_job, workload_of
from gpucommons.scheduler.service.schedules.finding import find, note
from gpucommons.scheduler.service.schedules.views import schedule_view
from gpucommons.scheduler.service.service import Service

_HOW = {State.FAILED: "failed", State.CANCELLED: "was cancelled"}


def promote_of(request: models.ScheduleRequest) -> Promote | None:
    """What was asked for."""
    asked = request.promote
    if asked is None:
        return None
    return Promote(
        metric=asked.metric,
        maximize=asked.direction == "maximize",
        by_hand=asked.rule == "by hand",
    )


def judged(
    service: Service,
    by: Principal,
    scheduled: Scheduled,
    now_ms: Millis,
    *,
    unread: Callable[[Workload], bool] = lambda _job: False,
) -> Standing:
    """The standing after a look at runs that are over; what is promoted is on record first. ``unread``:
    a run may have told more than is known yet.
    """
    runs = promoting.unjudged(scheduled)
    if not runs or now_ms < scheduled.standing.judged_ms + promoting.EVERY_MS:
        return scheduled.standing
    for run in runs:
        assert run.job is not None  # noqa: S101 - it was started
        try:
            job = workload_of(service, run.job)
        except UnknownWorkload:
            model = Model(job=run.job, name=run.job_name, failed="is forgotten")
        else:
            if not is_final(job) or unread(job):
                continue  # compared by all that it told, or not yet
            model = _model(service, scheduled.schedule, job)
        standing = promoting.judged(scheduled, model, now_ms)
        _tell(service, by, replace(scheduled, standing=standing), model)
        scheduled = replace(scheduled, standing=standing)
    return replace(scheduled.standing, judged_ms=now_ms)


def promote_schedule(
    service: Service,
    principal: Principal,
    owner: str,
    name: str,
    asked: PromotionRequest,
) -> models.ScheduleView:
    """Let a run's model be the promoted one, whatever the rule said."""
    found = find(service, principal, owner, name)
    schedule = found.schedule
    authorization.schedules.promote_schedule(principal, schedule)
    if schedule.promote is None:
        message = (
            f"{name} compares no models. Write it anew with promote: a metric that its runs tell."
        )
        raise Misconfigured(message)
    metric = schedule.promote.metric
    model, value = _model_of_run(service, found, metric, find_job(service, principal, asked.job))
    chosen = Promoted(
        job=model.job,
        job_name=model.name,
        value=value,
        at_ms=max(service.now_ms(), _after(found)),
        why=f"{metric} {value:g}, chosen by {principal.name}",
        by=principal.name,
        metric=metric,
    )
    made = replace(found, schedule=replace(schedule, chosen=chosen))
    service.ask(
        principal, note(made.schedule, "promoted", f"given {model.name} as its model: {chosen.why}")
    )
    with service.refusal_on_record(
        principal, lambda error: note(made.schedule, "promoted", f"not promoted: {error}")
    ):
        service.store.schedules.put(made.schedule, next_ms=next_look_ms(made), before=schedule)
    return schedule_view(service, principal, made)


def _model_of_run(
    service: Service, found: Scheduled, metric: str, job: Workload
) -> tuple[Model, float]:
    """What a run of the schedule made, and how good it is; refused where it can be no schedule's model."""
    if promoting.run_of(found, job.workload_id) is None:
        message = (
            f"{job.spec.name} is no run of {found.schedule.name} that is remembered. Choose one of"
            " its runs."
        )
        raise Misconfigured(message)
    model = _model(service, found.schedule, job) if is_final(job) else None
    if model is None or model.failed or model.value is None:
        why = "goes on" if model is None else model.failed or f"told no {metric}"
        message = f"{job.spec.name} {why}: choose a run that ended well and told {metric}."
        raise Misconfigured(message)
    return model, model.value


def _after(found: Scheduled) -> Millis:
    """Later than whatever holds until now, also where clocks were put back."""
    before = promoting.promoted_of(found)
    return Millis(0 if before is None else before.at_ms + 1)


def _model(service: Service, schedule: Schedule, job: Workload) -> Model:
    assert schedule.promote is not None  # noqa: S101 - who asks has looked
    metric = schedule.promote.metric
    last = {} if job.progress is None else job.progress.metrics
    told = last.get(metric_called(metric, last) or "")
    model = Model(
        job=job.workload_id,
        name=job.spec.name,
        failed=_HOW.get(job.state, ""),
        value=told,
        told=tuple(sorted(last)),
    )
    is_known = told is not None and math.isfinite(told)
    return model if is_known else _by_curve(service, metric, model)


def _by_curve(service: Service, metric: str, model: Model) -> Model:
    """By what was told before the last step."""
    points = service.store.points(
        model.job, source=best_source(service.store.curve_sources(model.job))
    )
    names = {name for one in points for name in one.metrics}
    name = metric_called(metric, names)
    values = [one.metrics[name] for one in points if name in one.metrics] if name else []
    value = next((one for one in reversed(values) if math.isfinite(one)), None)
    return replace(model, value=value, told=tuple(sorted(names | {*model.told})))


def _tell(service: Service, by: Principal, scheduled: Scheduled, model: Model) -> None:
    """An event of the team, once for each run."""
    run = promoting.run_of(scheduled, model.job)
    if run is None or run.verdict is None or run.verdict is Verdict.NONE:
        return
    change, words = {
        Verdict.PROMOTED: ("promoted", "given {} as its model"),
        Verdict.KEPT: ("kept", "not given {} as its model"),
        Verdict.WAITS: ("undecided", "not given {} as its model yet"),
    }[run.verdict]
    words = f"{words.format(model.name)}: {run.why}"
    key = f"schedule-{scheduled.schedule.schedule_id}-judged-{model.job}"
    service.ask(by, note(scheduled.schedule, change, words), key=key, request=key)
