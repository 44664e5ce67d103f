"""Use cases about what a job says and does: its log, its metric curve, its use of GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Attempt, Millis, Workload
from gpucommons.scheduler.core.whatif import quotes
from gpucommons.scheduler.curves.shown_curve import best_source, in_order
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import find_job, workload_of
from gpucommons.scheduler.service.service import Pending, Service
from gpucommons.scheduler.service.views.history import curve_view
from gpucommons.scheduler.service.views.use import use_view
from gpucommons.scheduler.store.base import LogPoint

#: Logs grow without a cycle: while somebody waits, they are looked at so often.
_POLL_S = 0.2
_MINUTE_MS = 60_000
#: Of a log, by one request: the next one goes on there.
READ_AT_ONCE_BYTES = 256 << 10
#: So many jobs that were run again from where they stood make one curve.
_GONE_ON_FROM = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPosition:
    """From where to read a log."""

    #: None = the newest.
    attempt: int | None = None
    rank: int = 0
    offset: int = 0
    wait_s: float = 0


def log(
    service: Service, principal: Principal, ref: str, where: LogPosition
) -> Pending[models.LogView]:
    """Lines of one worker's log; waits for new ones, also for the first attempt."""
    found = find_job(service, principal, ref)
    authorization.jobs.log(principal, found)
    attempt = _attempt_of(found, where.attempt)

    def read() -> models.LogView:
        now = workload_of(service, found.workload_id)
        read_from = attempt or (now.attempts[0] if now.attempts else None)
        if read_from is None:
            return models.LogView(lines=[], attempt=0, next_offset=0, end=is_final(now))
        return _log_view(service, now, read_from, where)

    def probe() -> models.LogView | None:
        view = read()
        return view if view.lines or view.end or where.wait_s <= 0 else None

    return Pending(probe=probe, timeout_s=where.wait_s, meanwhile=read, poll_s=_POLL_S)


def _attempt_of(workload: Workload, number: int | None) -> Attempt | None:
    if number is None:
        return workload.attempts[-1] if workload.attempts else None
    for attempt in workload.attempts:
        if attempt.number == number:
            return attempt
    message = f"{workload.spec.name} has {len(workload.attempts)} attempts: there is no {number}."
    raise NotFound(message)


def _log_view(
    service: Service, workload: Workload, attempt: Attempt, where: LogPosition
) -> models.LogView:
    workers = len(attempt.placements)
    if where.rank >= max(1, workers):
        message = f"Attempt {attempt.number} has {workers} workers: there is no rank {where.rank}."
        raise NotFound(message)
    chunk = service.logs.read(workload, attempt, rank=where.rank, offset=where.offset)
    return models.LogView(
        lines=list(chunk.lines),
        attempt=attempt.number,
        next_offset=chunk.next_offset,
        end=chunk.end,
    )


def curve(
    service: Service, principal: Principal, ref: str, *, source: str | None = None
) -> models.Curve:
    """A job's metric curve, from the source that is asked for or else the best one."""
    found = find_job(service, principal, ref)
    authorization.jobs.curve(principal, found)
    known = service.store.curve_sources(found.workload_id)
    chosen = source or best_source(known)
    points = service.store.points(found.workload_id, source=chosen)
    return curve_view([*_before(service, found, chosen), *points], chosen, in_order(known))


def _before(service: Service, job: Workload, source: str) -> list[LogPoint]:
    """The curve of the jobs that it goes on from, up to the step at which it does: as one curve.

    They are of the same owner and team, or could not have been gone on from. Their attempts have
    numbers of their own, so all of it stands before this job's first one.
    """
    found: list[LogPoint] = []
    for _ in range(_GONE_ON_FROM):
        earlier_id, step = job.spec.resume_from, _began_at(job)
        stored = None if earlier_id is None else service.store.workload(earlier_id)
        if stored is None or step is None:
            break
        points = service.store.points(stored.workload_id, source=source)
        found[:0] = [replace(one, attempt_number=0) for one in points if one.step <= step]
        job = stored
    return found


def _began_at(job: Workload) -> int | None:
    """The step of another job's checkpoint from which this one began."""
    first = job.attempts[0].resumed_from if job.attempts else job.checkpoint
    return None if first is None else first.step


def job_use(service: Service, principal: Principal, ref: str) -> models.JobUse:
    """What a job used of the GPUs that it asked for, from the minutes of the ledger."""
    found = find_job(service, principal, ref)
    authorization.jobs.job_use(principal, found)
    rows = service.store.ledger(
        from_ms=Millis(found.submitted_ms - _MINUTE_MS),
        to_ms=Millis(service.now_ms() + _MINUTE_MS),
        of=frozenset({found.workload_id}),
    )
    cluster, now_ms = service.loop.cluster, service.now_ms()
    return use_view(found, rows, now_ms=now_ms, cluster=cluster).model_copy(
        update={"borrowed_text": quotes.why_borrowed(cluster, found, now_ms)}
    )
