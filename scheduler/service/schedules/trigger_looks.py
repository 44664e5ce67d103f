"""What a schedule's triggers have to go by: ends of its owner's jobs, posts, and looks at data.

A look is a small job of the owner without a GPU. That it is begun stands on record before it is submitted,
under a key made of that moment: whoever dies in between submits the same one again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Millis, State, UserName, Workload
from gpucommons.scheduler.errors import Misconfigured, SchedulerError
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.models.jobs.jobs import LOOK_ORIGIN, ORIGIN_LABEL
from gpucommons.scheduler.parents import ParentKind
from gpucommons.scheduler.schedules import data_looks, trigger_state
from gpucommons.scheduler.schedules.schedule import Schedule, Scheduled, Standing
from gpucommons.scheduler.schedules.trigger_state import Ended
from gpucommons.scheduler.schedules.triggers import Sensed, Trigger, TriggerKind
from gpucommons.scheduler.service.jobs import run_again
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.lookup import workload_of
from gpucommons.scheduler.service.schedules.runs import part_of, stored_request
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_jobs

#: Of a look's last words, so many characters are kept.
_MOST_SAID = 300
#: A look takes no longer.
_LOOK_S = 600
#: Parts of a look's log that are read at most; the version is its last line.
_LOG_PARTS = 64
#: What a look does not need, or must not repeat.
_OF_RUNS = {
    "kind": "training",
    "over_quota": False,
    "min_workers": None,
    "max_workers": None,
    "launcher": "plain",
    "results_to": None,
    "max_run_s": _LOOK_S,
    "max_restarts": 0,
}


class Ends:
    """Ends of jobs, read once for all triggers of one owner that are looked at in one pass.

    Somebody may have hundreds of triggers, and a thousand jobs that end together: read for each of them,
    they would keep all others' schedules waiting for minutes.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._read: dict[UserName, tuple[int, list[tuple[frozenset[str], Ended]]]] = {}

    def of(self, owner: UserName, what: str, *, since_ms: int) -> Iterator[Ended]:
        """Those of an owner's jobs that one waits for: by its id, its name, or what names are made of."""
        known = self._read.get(owner)
        if known is None or known[0] > since_ms:
            # Triggers of one pass were looked at last a little apart.
            from_ms = since_ms - trigger_state.BACK_MS
            known = self._read[owner] = (from_ms, list(self._all(owner, from_ms)))
        for names, end in known[1]:
            if what in names and end.ended_ms > since_ms:
                yield end

    def _all(self, owner: UserName, since_ms: int) -> Iterator[tuple[frozenset[str], Ended]]:
        where = WorkloadFilter(owner=owner, live=False, ended_after_ms=since_ms)
        for job in stored_jobs(self.service.store, where):
            assert job.ended_ms is not None  # noqa: S101 - it is over
            end = Ended(
                job=job.workload_id,
                name=job.spec.name,
                ended_ms=job.ended_ms,
                failed=job.state is State.FAILED,
                cancelled=job.state is State.CANCELLED,
            )
            yield frozenset((end.job, end.name, base_name(end.name))), end


def sensed(ends: Ends, scheduled: Scheduled, now_ms: Millis) -> Standing:
    """The standing after whatever there was to hear of its triggers."""
    schedule = scheduled.schedule
    if schedule.suspended or not schedule.triggers:
        return scheduled.standing
    changed = {}
    for trigger in schedule.triggers:
        before = trigger_state.sensed_of(scheduled.standing, trigger)
        changed[trigger.key] = _heard(ends, schedule, trigger, before, now_ms)
    return trigger_state.with_sensed(scheduled, changed)


def _heard(
    ends: Ends, schedule: Schedule, trigger: Trigger, before: Sensed, now_ms: Millis
) -> Sensed:
    if trigger.kind is TriggerKind.METRIC:
        return trigger_state.hear_posted(
            trigger, before, trigger_state.posted_of(schedule, trigger)
        )
    if trigger.kind is TriggerKind.AFTER:
        if now_ms < before.checked_ms + trigger_state.ENDS_EVERY_MS:
            return before
        # Since a while before the last time.
        since_ms = max(before.checked_ms, trigger.since_ms) - trigger_state.BACK_MS
        mine = ends.of(schedule.owner, trigger.what, since_ms=since_ms)
        return trigger_state.hear_ends(
            trigger, before, mine, since_ms=schedule.since_ms, now_ms=now_ms
        )
    if before.looking_ms is None:
        return _begun(trigger, before, now_ms)
    try:
        return _looked(ends.service, schedule, trigger, before, now_ms)
    except SchedulerError as error:
        return trigger_state.not_seen(before, str(error), now_ms=now_ms)


def _begun(trigger: Trigger, before: Sensed, now_ms: Millis) -> Sensed:
    """A look is begun where one is due, at a moment that no look had before."""
    if now_ms < before.checked_ms + trigger.every_s * 1000:
        return before
    after_all = Millis(max(before.checked_ms, before.asked_ms) + 1)
    return replace(before, looking_ms=max(now_ms, after_all))


def _looked(
    service: Service, schedule: Schedule, trigger: Trigger, before: Sensed, now_ms: Millis
) -> Sensed:
    key = f"schedule-{schedule.schedule_id}-{trigger.key}-look-{before.looking_ms}"
    job = run_again.scheduled_job(service, schedule.owner, key=key)
    if job is None:
        _submit(service, schedule, trigger, key)
        return replace(before, asked_ms=max(now_ms, before.looking_ms or now_ms))
    job = workload_of(service, job.workload_id)
    if not is_final(job):
        return replace(before, asked_ms=max(now_ms, before.asked_ms))
    if job.state is not State.SUCCEEDED:
        problem = f"The look {job.spec.name} did not end well: {_failure(service, job)}"
        return trigger_state.not_seen(before, problem, now_ms=now_ms)
    version = data_looks.version_in(_lines(service, job))
    if not version:
        problem = f"The look {job.spec.name} printed nothing: its last line is the version."
        return trigger_state.not_seen(before, problem, now_ms=now_ms)
    return trigger_state.hear_version(trigger, before, version, now_ms=now_ms)


def _submit(service: Service, schedule: Schedule, trigger: Trigger, key: str) -> None:
    owner = owner_of(
        service, schedule.owner, by_operator=schedule.by_operator, server=schedule.server
    )
    request = look_request(stored_request(schedule), schedule.name, trigger)
    parent = replace(part_of(schedule), kind=ParentKind.LOOK)
    run_again.submit_of_parent(service, owner, request, key=key, part_of=parent)


def look_request(job: models.JobRequest, schedule: str, trigger: Trigger) -> models.JobRequest:
    """A look in the folder, environment and pools of the job."""
    role = models.RoleRequest(command=data_looks.command_of(trigger))
    labels = {**job.labels, ORIGIN_LABEL: f"{LOOK_ORIGIN}{schedule}"}
    name = f"{schedule[:45]}-look"
    return job.model_copy(update={**_OF_RUNS, "name": name, "roles": [role], "labels": labels})


def _failure(service: Service, job: Workload) -> str:
    """Its own last words, where it left by itself with some."""
    exit_code = job.attempts[-1].exit_code if job.attempts else None
    said = data_looks.last_line(_lines(service, job))[:_MOST_SAID] if exit_code else ""
    return said or f"{job.ended_text or 'no reason was told'}."


def _lines(service: Service, job: Workload) -> list[str]:
    if not job.attempts:
        return []
    last: list[str] = []
    offset = 0
    for _ in range(_LOG_PARTS):
        chunk = service.logs.read(job, job.attempts[-1], rank=0, offset=offset)
        last = [*last, *chunk.lines][-10:]
        if chunk.end or chunk.next_offset == offset:
            return last
        offset = chunk.next_offset
    message = f"{job.spec.name} printed too much: the last line of a short log is the version."
    raise Misconfigured(message)
