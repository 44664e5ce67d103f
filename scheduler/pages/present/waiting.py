"""Who waits and why: jobs in the queue and tickets in one list, longest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpucommons.scheduler.languages.texts import gettext, ngettext
from gpucommons.scheduler.models import ForecastView, JobView, LeaseView, ReasonView
from gpucommons.scheduler.pages.present import words
from gpucommons.scheduler.pages.present.fragmentation import Pieces

_WAITING_JOBS = frozenset({"queued", "nominated"})


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingRow:
    """One waiting workload."""

    workload_id: str
    who: str
    team: str
    #: Job name, or ``notebook``.
    what: str
    asks: str
    pools: tuple[str, ...]
    waited_ms: int
    since: str
    #: ``1st in line``; empty where there is no line yet.
    place: str
    reason_class: str
    reason: str
    #: What would start it now, one sentence each.
    unblock: tuple[str, ...]
    #: ``10–25 min``, ``unknown``, or empty before it was worked out.
    likely: str
    #: How right such windows were (``right 8 of 10``), or why there is none.
    likely_note: str
    #: Where enough is free and it does not fit: what is free.
    pieces: Pieces | None = None


def waiting_rows(
    jobs: Sequence[JobView], leases: Sequence[LeaseView], now_ms: int
) -> tuple[WaitingRow, ...]:
    """Everything that waits, the longest wait first."""
    rows = [_job(job, now_ms) for job in jobs if job.state in _WAITING_JOBS]
    rows += [_ticket(lease, now_ms) for lease in leases if lease.state == "waiting"]
    return tuple(sorted(rows, key=lambda row: -row.waited_ms))


def with_pieces(
    rows: Sequence[WaitingRow], pieces: Callable[[tuple[str, ...]], Pieces]
) -> tuple[WaitingRow, ...]:
    """The same rows; those that only fragmentation keeps waiting say what is free where."""
    return tuple(
        replace(row, pieces=pieces(row.pools))
        if row.reason_class == words.reason_class("fragmentation")
        else row
        for row in rows
    )


def _job(job: JobView, now_ms: int) -> WaitingRow:
    return WaitingRow(
        workload_id=job.id,
        who=words.person(job.owner),
        team=job.team,
        what=job.name,
        asks=_asks(job),
        pools=tuple(job.pools),
        waited_ms=now_ms - job.submitted_ms,
        since=words.duration(now_ms - job.submitted_ms),
        place=_place(job.position),
        **_why(job.reason, job.forecast),
    )


def _ticket(lease: LeaseView, now_ms: int) -> WaitingRow:
    return WaitingRow(
        workload_id=lease.id,
        who=words.person(lease.user),
        team=lease.team,
        what=" ".join(filter(None, (gettext("notebook"), lease.server_name))),
        asks=words.asked(lease.milli_gpu, lease.gpu_kind),
        pools=(lease.pool,),
        waited_ms=now_ms - lease.requested_ms,
        since=words.duration(now_ms - lease.requested_ms),
        place=_place(lease.position),
        **_why(lease.reason, lease.forecast),
    )


def _place(position: int | None) -> str:
    return words.place(position) if position else ""


def _asks(job: JobView) -> str:
    if job.workers <= 1:
        return words.gpus(job.milli_gpu)
    each = job.milli_gpu // job.workers
    if each * job.workers != job.milli_gpu or not each:
        workers = ngettext("%(num)s worker", "%(num)s workers", job.workers)
        return f"{words.gpus(job.milli_gpu)}, {workers}"
    return f"{job.workers} × {words.gpus(each)}"


def _why(reason: ReasonView | None, forecast: ForecastView | None) -> dict[str, Any]:
    unblock = [] if reason is None else [reason.unblock]
    ways = [] if forecast is None else forecast.ways
    return {
        "reason_class": "" if reason is None else words.reason_class(reason.code),
        "reason": gettext("not looked at yet") if reason is None else reason.text,
        "unblock": tuple(dict.fromkeys(text for text in (*unblock, *ways) if text)),
        "likely": words.likely(forecast),
        "likely_note": words.likely_note(forecast),
    }
