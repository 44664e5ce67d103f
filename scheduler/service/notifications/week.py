"""One user's week in sums: those of the report, and the jobs that ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from gpucommons.scheduler.core.model.types import Millis, State, UserName
from gpucommons.scheduler.models import ReportRow
from gpucommons.scheduler.models.text.report_rows import gpu_hours, simulated_note
from gpucommons.scheduler.money import money_words
from gpucommons.scheduler.notifications.preferences import About, Telling
from gpucommons.scheduler.service import costs
from gpucommons.scheduler.service.administration import over_time
from gpucommons.scheduler.service.administration.usage_report import priced_sums
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.history import report_rows
from gpucommons.scheduler.store.base import WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_jobs

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
#: The first day of 1970 was a Thursday.
_FIRST_MONDAY_MS = 4 * DAY_MS
#: Jobs of one user that are counted one by one.
_MOST_JOBS = 10_000
_OUTCOMES = (
    (State.SUCCEEDED, "finished"),
    (State.FAILED, "failed"),
    (State.CANCELLED, "cancelled"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """What all held in a week."""

    rows: Mapping[UserName, list[ReportRow]]
    #: Where they held it.
    pools: Mapping[UserName, set[str]]


def monday(at_ms: int) -> Millis:
    """When the week of a moment began, UTC."""
    return Millis(at_ms - (at_ms - _FIRST_MONDAY_MS) % WEEK_MS)


def sums(service: Service, end_ms: Millis) -> Sums:
    """Rows of the report of the week up to then, by user; one look at the ledger for all."""
    priced = priced_sums(service, Millis(end_ms - WEEK_MS), end_ms, None)
    rows: dict[UserName, list[ReportRow]] = defaultdict(list)
    for row in report_rows(priced, costs.currency_of(service.loop.cluster.pools.values())):
        rows[UserName(row.owner)].append(row)
    pools: dict[UserName, set[str]] = defaultdict(set)
    for one, _ in priced:
        if one.held:
            pools[UserName(one.owner)].add(one.pool)
    return Sums(rows=rows, pools=pools)


def telling(service: Service, owner: UserName, found: Sums, end_ms: Millis) -> Telling:
    """The summary of one user."""
    from_ms = end_ms - WEEK_MS
    jobs = _jobs(service, owner, from_ms, end_ms)
    rows = found.rows.get(owner, [])
    simulated = simulated_note(over_time.simulated(service, found.pools.get(owner, ())))
    currency = costs.currency_of(service.loop.cluster.pools.values())
    days = f"{_day(from_ms)} to {_day(end_ms - DAY_MS)} (UTC)"
    counted = ", ".join(f"{jobs[state]} {words}" for state, words in _OUTCOMES)
    held = [*_held(rows), *([simulated] if simulated else []), *_cost(rows, currency)]
    lines = [f"Your week, {days}.", *held, f"Jobs: {counted}."]
    return Telling(
        owner=owner,
        about=About.WEEK,
        source=f"week {end_ms}",
        at_ms=end_ms,
        subject=f"your week, {days}",
        text="\n".join(lines),
        facts={
            "from_ms": from_ms,
            "to_ms": end_ms,
            "held_milli_gpu_h": sum(row.held_milli_gpu_h for row in rows),
            **{words: jobs[state] for state, words in _OUTCOMES},
        },
    )


def _held(rows: list[ReportRow]) -> list[str]:
    if not rows:
        return ["You held no GPU."]
    used = [row.used_milli_gpu_h for row in rows if row.used_milli_gpu_h is not None]
    parts = [
        f"used {gpu_hours(sum(used))}" if used else "use not measured",
        f"idle {gpu_hours(sum(row.idle_milli_gpu_h for row in rows))}",
        f"borrowed {gpu_hours(sum(row.borrowed_milli_gpu_h for row in rows))}",
        f"lost to stops {gpu_hours(sum(row.lost_milli_gpu_h for row in rows))}",
    ]
    held = gpu_hours(sum(row.held_milli_gpu_h for row in rows))
    parked = sum(row.parked_milli_gpu_h for row in rows)
    others = f" Parked, for others to have: {gpu_hours(parked)}." if parked else ""
    return [f"GPU-hours: held {held}, of these {', '.join(parts)}.{others}"]


def _cost(rows: list[ReportRow], currency: str) -> list[str]:
    if not currency or not rows:
        return []
    unpriced = sum(row.unpriced_milli_gpu_h for row in rows)
    without = f" {gpu_hours(unpriced)} GPU-hours had no price." if unpriced else ""
    cost = money_words(sum(row.cost_micro or 0 for row in rows), currency)
    return [f"Cost: {cost}.{without}"]


def _jobs(service: Service, owner: UserName, from_ms: int, end_ms: int) -> Counter[State]:
    where = WorkloadFilter(owner=owner, live=False, ended_after_ms=from_ms - 1)
    jobs = stored_jobs(service.store, where)
    states = (one.state for one in jobs if (one.ended_ms or 0) < end_ms)
    return Counter(islice(states, _MOST_JOBS))


def _day(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%B %Y}"
