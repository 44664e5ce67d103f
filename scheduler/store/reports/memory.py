"""Sums for reports without a disk: for tests, simulation and replays."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import (
    Millis,
    PoolName,
    State,
    TeamName,
    UserName,
    Workload,
)
from gpucommons.scheduler.store.base import LedgerRow
from gpucommons.scheduler.store.reports.base import FinishedJobs, Steps, UsageSum

_Key = tuple[int, TeamName, UserName, PoolName, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryReports:
    """See :class:`.base.ReportStore`."""

    #: Of a span.
    rows: Callable[[Millis, Millis], Sequence[LedgerRow]]
    workloads: Callable[[], Collection[Workload]]

    def usage(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[UsageSum, ...]:
        """By step, team, owner, pool and project."""
        found: dict[_Key, list[LedgerRow]] = defaultdict(list)
        for row in self.rows(steps.from_ms, steps.to_ms):
            if teams is None or row.team in teams:
                number = steps.number_of(row.minute_ms)
                found[number, row.team, row.owner, row.pool, row.project].append(row)
        return tuple(_summed(steps.start_of(key[0]), found[key]) for key in sorted(found))

    def finished(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[FinishedJobs, ...]:
        """By step and team."""
        found = Counter(
            (steps.number_of(one.ended_ms), one.spec.team)
            for one in self.workloads()
            if one.ended_ms is not None
            and steps.from_ms <= one.ended_ms < steps.to_ms
            and one.state is State.SUCCEEDED
            and not is_lease(one)
            and (teams is None or one.spec.team in teams)
        )
        return tuple(
            FinishedJobs(from_ms=steps.start_of(number), team=team, count=count)
            for (number, team), count in sorted(found.items())
        )


def _summed(from_ms: Millis, rows: Sequence[LedgerRow]) -> UsageSum:
    first, held = rows[0], [(row, row.held_milli_gpu_ms) for row in rows]
    used = [
        mine * row.compute_percent_mean // 100
        for row, mine in held
        if row.compute_percent_mean is not None
    ]
    return UsageSum(
        from_ms=from_ms,
        team=first.team,
        owner=first.owner,
        pool=first.pool,
        project=first.project,
        held=sum(mine for _, mine in held),
        used=sum(used) if used else None,
        idle=sum(mine for row, mine in held if row.idle),
        borrowed=sum(row.borrowed_milli_gpu_ms for row in rows),
        lost=sum(row.lost_milli_gpu_ms for row in rows),
        parked=sum(row.parked_milli_gpu_ms for row in rows),
    )
