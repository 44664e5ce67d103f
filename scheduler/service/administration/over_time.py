"""What was held and used over time, from the ledger: days and weeks of a report, points of a drawing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.models.reports import FinishedWeek, ReportDay, UsePoint
from gpucommons.scheduler.service.costs import in_hours
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.quota_minutes.base import WHOLE_POOL, QuotaMinute
from gpucommons.scheduler.store.reports.base import Steps, UsageSum, written_ms

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS


@dataclass(kw_only=True, slots=True)
class Tally:
    """What is known of one step, in milli-GPU·milliseconds; None = nothing is."""

    held: int | None = None
    used: int | None = None
    idle: int = 0
    borrowed: int = 0
    lost: int = 0
    there: int | None = None
    #: The first minute of it that anything is known of.
    first_ms: int | None = None

    def add(self, one: UsageSum) -> None:
        """Count what somebody held."""
        self.held = (self.held or 0) + one.held
        self.idle += one.idle
        self.borrowed += one.borrowed
        self.lost += one.lost
        if one.used is not None:
            self.used = (self.used or 0) + one.used


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """A span in steps, as the store adds it up: once, for every line that is drawn of it."""

    steps: Steps
    sums: tuple[UsageSum, ...] = ()
    sizes: tuple[QuotaMinute, ...] = ()
    #: The first minute of each step that anything was written of; None = nothing was.
    first: tuple[int | None, ...] = ()
    #: Whose quotas count as what is there; None = all GPUs do.
    teams: frozenset[TeamName] | None = None

    def tallies(
        self, of: Callable[[UsageSum], bool], *, there: Callable[[QuotaMinute], bool]
    ) -> list[Tally]:
        """One for each step. In a minute that was written it is known, too, what nobody held."""
        found = [Tally(held=None if first is None else 0, first_ms=first) for first in self.first]
        for one in filter(of, self.sums):
            found[self.steps.number_of(one.from_ms)].add(one)
        for row in filter(there, self.sizes):
            tally = found[self.steps.number_of(row.minute_ms)]
            tally.there = (tally.there or 0) + row.size
        return found

    def by(self, name: Callable[[UsageSum | QuotaMinute], str]) -> dict[str, Past]:
        """The same in parts, such as teams: each of many lines is drawn of its own part alone."""
        sums: dict[str, list[UsageSum]] = defaultdict(list)
        sizes: dict[str, list[QuotaMinute]] = defaultdict(list)
        for one in self.sums:
            sums[name(one)].append(one)
        for row in self.sizes:
            sizes[name(row)].append(row)
        return {
            part: replace(self, sums=tuple(sums[part]), sizes=tuple(sizes[part]))
            for part in {*sums, *sizes}
        }

    def without(self) -> Past:
        """Of what nobody held anything, and nothing was there."""
        return replace(self, sums=(), sizes=())

    def of_team(self, team: TeamName) -> Past:
        """Of what this team held, measured against its quotas."""
        mine = self.by(lambda one: one.team).get(team, self.without())
        return replace(mine, teams=frozenset({team}))

    def of_steps(self, steps: Steps) -> Past:
        """A later and coarser part of it: each of its own steps lies in one of these."""
        sizes = tuple(row for row in self.sizes if row.minute_ms >= steps.from_ms)
        return replace(
            self,
            steps=steps,
            sums=tuple(one for one in self.sums if one.from_ms >= steps.from_ms),
            sizes=sizes,
            first=_first_minutes(steps, sizes),
        )

    def is_there(self, row: QuotaMinute) -> bool:
        """Whether a row tells of what the readers' lines are measured against."""
        return row.team == WHOLE_POOL if self.teams is None else row.team in self.teams

    def points(self, tallies: Iterable[Tally]) -> list[UsePoint]:
        """Means of each step, over the part of it that is known."""
        return [
            _point(tally, from_ms, to_ms)
            for tally, (from_ms, to_ms) in zip(tallies, _spans(self.steps), strict=True)
        ]


def past_of(service: Service, steps: Steps, teams: frozenset[TeamName] | None) -> Past:
    """Ask the store; pools' and teams' sizes by day at most, of which weeks are made."""
    store = service.store
    sizes = store.quota_minutes.sums(
        from_ms=steps.from_ms, to_ms=steps.to_ms, step_ms=min(steps.length_ms, DAY_MS)
    )
    sums = store.reports.usage(steps, teams=teams)
    first = _first_minutes(steps, sizes)
    return Past(steps=steps, teams=teams, sums=sums, sizes=sizes, first=first)


def _first_minutes(steps: Steps, sizes: Iterable[QuotaMinute]) -> tuple[int | None, ...]:
    first: list[int | None] = [None] * count_of(steps)
    for row in sizes:
        number = steps.number_of(row.minute_ms)
        first[number] = min(row.minute_ms, first[number] or row.minute_ms)
    return tuple(first)


def drawn(
    service: Service, steps: Steps, teams: frozenset[TeamName] | None
) -> tuple[Past, Past | None]:
    """What is drawn, and the weeks that it touches by day: the ledger is read once where days make both."""
    if steps.length_ms < DAY_MS:
        return past_of(service, steps, teams), daily(service, steps.from_ms, steps.to_ms, teams)
    by_day = replace(steps, from_ms=Millis(monday_of(steps.from_ms)), step_ms=DAY_MS)
    whole = past_of(service, by_day, teams)
    return whole.of_steps(steps), whole


def count_of(steps: Steps) -> int:
    """How many there are."""
    return -(-(steps.to_ms - steps.from_ms) // steps.length_ms)


def simulated(service: Service, pools: Iterable[str]) -> list[str]:
    """Those of these pools whose GPUs are simulated, as far as they are still there."""
    asked, there = frozenset(pools), service.loop.cluster.pools
    return sorted(name for name, pool in there.items() if pool.simulated and name in asked)


def daily(
    service: Service, from_ms: int, to_ms: int, teams: frozenset[TeamName] | None
) -> Past | None:
    """The whole weeks that a span touches, by day, as far as they are over; None where none of it is.

    The ledger of a month has millions of rows: it is read once, for days, weeks and sums.
    """
    first_ms = monday_of(from_ms)
    end_ms = min(monday_of(to_ms - 1) + WEEK_MS, written_ms(service.now_ms()))
    if end_ms <= from_ms:
        return None
    steps = Steps(from_ms=Millis(first_ms), to_ms=Millis(end_ms), step_ms=DAY_MS)
    return past_of(service, steps, teams)


def sums_of(past: Past, from_ms: int, to_ms: int) -> list[UsageSum] | None:
    """Of a part of it, as one step; None where the part begins or ends within a day, or outside."""
    begins = past.steps.from_ms <= from_ms and from_ms % DAY_MS == 0
    if not (begins and (to_ms % DAY_MS == 0 or to_ms >= past.steps.to_ms)):
        return None
    found: dict[tuple[str, ...], UsageSum] = {}
    for one in past.sums:
        if from_ms <= one.from_ms < to_ms:
            key = (one.team, one.owner, one.pool, one.project)
            known = found.get(key)
            found[key] = (
                replace(one, from_ms=Millis(from_ms)) if known is None else _both(known, one)
            )
    return [found[key] for key in sorted(found)]


def _both(one: UsageSum, other: UsageSum) -> UsageSum:
    used = [of.used for of in (one, other) if of.used is not None]
    return replace(
        one,
        held=one.held + other.held,
        used=sum(used) if used else None,
        idle=one.idle + other.idle,
        borrowed=one.borrowed + other.borrowed,
        lost=one.lost + other.lost,
        parked=one.parked + other.parked,
    )


def days(past: Past, from_ms: int, to_ms: int) -> list[ReportDay]:
    """A report's days, each whole; those that are still to come are none."""
    tallies = past.tallies(lambda one: True, there=lambda row: row.team == WHOLE_POOL)
    return [
        ReportDay(
            from_ms=day_ms,
            held_milli_gpu_h=in_hours(tally.held or 0),
            used_milli_gpu_h=None if tally.used is None else in_hours(tally.used),
            idle_milli_gpu_h=in_hours(tally.idle),
            borrowed_milli_gpu_h=in_hours(tally.borrowed),
            lost_milli_gpu_h=in_hours(tally.lost),
            there_milli_gpu_h=(
                None if past.teams is not None or tally.there is None else in_hours(tally.there)
            ),
        )
        for tally, (day_ms, end_ms) in zip(tallies, _spans(past.steps), strict=True)
        if from_ms < end_ms and day_ms < to_ms
    ]


def weeks(service: Service, past: Past) -> list[FinishedWeek]:
    """Its weeks from Monday on: how much was finished, and held for it."""
    steps = replace(past.steps, step_ms=WEEK_MS)
    finished: dict[int, int] = defaultdict(int)
    held: dict[int, int] = defaultdict(int)
    for one in service.store.reports.finished(steps, teams=past.teams):
        finished[one.from_ms] += one.count
    for of in past.sums:
        held[steps.start_of(steps.number_of(of.from_ms))] += of.held
    return [
        FinishedWeek(
            from_ms=start_ms,
            to_ms=stop_ms,
            finished=finished[start_ms],
            held_milli_gpu_h=in_hours(held[start_ms]),
        )
        for start_ms, stop_ms in _spans(steps)
    ]


def monday_of(at_ms: int) -> int:
    """When the week of a moment began, UTC."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return int((day - timedelta(days=day.weekday())).timestamp()) * 1000


def of_pool(pool: PoolName | None) -> Callable[[UsageSum | QuotaMinute], bool]:
    """Whether something was in a pool; None = in any."""
    return lambda one: pool is None or one.pool == pool


def _spans(steps: Steps) -> Iterator[tuple[int, int]]:
    for number in range(count_of(steps)):
        start_ms = steps.start_of(number)
        yield start_ms, min(start_ms + steps.length_ms, steps.to_ms)


def _point(tally: Tally, from_ms: int, to_ms: int) -> UsePoint:
    # The first step of a new scheduler is known from its first minute on.
    known_ms = max(1, to_ms - max(from_ms, tally.first_ms or from_ms))
    return UsePoint(
        from_ms=from_ms,
        known_ms=known_ms,
        allocated_milli_gpu=None if tally.held is None else round(tally.held / known_ms),
        used_milli_gpu=None if tally.used is None else round(tally.used / known_ms),
        there_milli_gpu=None if tally.there is None else round(tally.there / known_ms),
    )
