"""Use cases about what starts a run beside the calendar: written with a schedule, and posted to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import BadRequest, Conflict, Misconfigured, NotFound
from gpucommons.scheduler.metric_spelling import metric_called
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.models.jobs.schedules import MetricPost, TriggerRequest
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.schedules import trigger_state
from gpucommons.scheduler.schedules.due_runs import next_look_ms
from gpucommons.scheduler.schedules.schedule import Schedule, Scheduled
from gpucommons.scheduler.schedules.triggers import On, Posted, Trigger, TriggerKind
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import find_job, is_id
from gpucommons.scheduler.service.schedules.finding import find, note
from gpucommons.scheduler.service.schedules.views import schedule_view
from gpucommons.scheduler.service.service import Service

#: Others may write the same schedule meanwhile; so often a post is tried.
_TRIES = 5


def triggers_of(
    service: Service,
    principal: Principal,
    name: str,
    asked: list[TriggerRequest],
    before: Schedule | None,
) -> tuple[Trigger, ...]:
    """What was asked for; a trigger that was there already goes on from where it stands."""
    now_ms = service.now_ms()
    found: list[Trigger] = []
    for one in asked:
        trigger = _trigger(one, now_ms)
        known = {} if before is None else {replace(b, since_ms=now_ms): b for b in before.triggers}
        if trigger.kind is TriggerKind.AFTER and trigger not in known:
            trigger = _of_a_job(service, principal, name, trigger, known)
        trigger = known.get(trigger, trigger)
        if any(each.key == trigger.key for each in found):
            message = f"triggers: “{trigger.words}” is there twice. Leave one out."
            raise Misconfigured(message)
        found.append(trigger)
    return tuple(found)


def post_metric(
    service: Service, principal: Principal, owner: str, name: str, asked: MetricPost
) -> models.ScheduleView:
    """Take a value of a metric; where it falls below that of a trigger, a run is due."""
    for left in reversed(range(_TRIES)):
        found = find(service, principal, owner, name)
        authorization.schedules.post_metric(principal, found.schedule)
        try:
            return _posted(service, principal, found, asked)
        except Conflict:
            if not left:
                raise
    raise AssertionError  # the last try has returned or raised


def _posted(
    service: Service, principal: Principal, found: Scheduled, asked: MetricPost
) -> models.ScheduleView:
    schedule, now_ms = found.schedule, service.now_ms()
    watched = [each for each in schedule.triggers if each.kind is TriggerKind.METRIC]
    name = metric_called(asked.name, {each.what for each in watched})
    mine = [each for each in watched if each.what == name]
    if not mine:
        known = ", ".join(sorted({each.what for each in watched})) or "none"
        message = (
            f"{schedule.name} watches no metric {asked.name!r}, but: {known}. Post one of these, or write the"
            " schedule anew with a trigger for it."
        )
        raise NotFound(message)
    posted = {one.key: one for one in schedule.posted}
    falls = []
    for trigger in mine:
        before = trigger_state.posted_of(schedule, trigger)
        after = trigger_state.post(trigger, before, asked.value, now_ms=now_ms)
        if schedule.suspended:
            # It starts nothing, and nothing is made up for later.
            after = replace(after, falls=0 if before is None else before.falls)
        elif after.falls > (0 if before is None else before.falls):
            falls.append(trigger)
        posted[trigger.key] = after
    made = replace(schedule, posted=tuple(posted.values()))
    scheduled = replace(found, schedule=made)
    service.store.schedules.put(made, next_ms=next_look_ms(scheduled), before=schedule)
    for trigger in falls:
        service.ask(principal, note(made, "metric fell", f"told: {_said(trigger, asked.value)}"))
    return schedule_view(service, principal, scheduled)


def posted_still(before: Schedule | None, triggers: tuple[Trigger, ...]) -> tuple[Posted, ...]:
    """What was posted of those that are still there."""
    keys = {one.key for one in triggers}
    return tuple(one for one in (() if before is None else before.posted) if one.key in keys)


def _trigger(asked: TriggerRequest, now_ms: Millis) -> Trigger:
    if asked.after is not None:
        after = asked.after
        return Trigger(kind=TriggerKind.AFTER, what=after.job, on=On(after.on), since_ms=now_ms)
    if asked.metric is not None:
        metric = asked.metric
        return Trigger(
            kind=TriggerKind.METRIC, what=metric.name, below=metric.below, since_ms=now_ms
        )
    data = asked.data
    if data is None:
        raise BadRequest("triggers: each is one of data, after and metric.")
    kind = TriggerKind.PATH if data.path else TriggerKind.URL if data.url else TriggerKind.COMMAND
    return Trigger(
        kind=kind,
        what=data.path or data.url or f"What {data.command[0]} tells",
        command=tuple(data.command),
        every_s=data.every_s,
        since_ms=now_ms,
    )


def _of_a_job(
    service: Service, principal: Principal, name: str, trigger: Trigger, known: Collection[Trigger]
) -> Trigger:
    """One job by its number or id, or all of a name, also before there is any.

    That of a trigger which is known already may be over by now.
    """
    if trigger.what == name or base_name(trigger.what) == name:
        message = f"after: {name} cannot wait for its own runs. Name another job."
        raise Misconfigured(message)
    if base_name(trigger.what) == trigger.what and not is_id(trigger.what):
        return trigger
    job = find_job(service, principal, trigger.what)
    if job.spec.owner != principal.name:
        message = f"after: {job.spec.name} is another's job. Name one of your own."
        raise Misconfigured(message)
    named = replace(trigger, what=job.spec.name)
    if is_final(job) and named not in known:
        message = (
            f"after: {job.spec.name} is over already. Name a job that is not, or all jobs of a name:"
            f" {base_name(job.spec.name)}."
        )
        raise Misconfigured(message)
    return named


def _said(trigger: Trigger, value: float) -> str:
    return f"{trigger.what} {value:g} is below {trigger.below:g}"
