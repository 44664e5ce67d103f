"""Sums for reports in SQL, added up by the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select, case, func, select

from gpucommons.scheduler.core.model.types import HoldClass, Kind, State, TeamName
from gpucommons.scheduler.store.reports.base import FinishedJobs, Steps, UsageSum
from gpucommons.scheduler.store.sql.transactions import Transactions
from gpucommons.scheduler.store.tables import ledger, workloads

_SUMS = ("held", "used", "idle", "borrowed", "lost", "parked")
_NAMES = ("team", "owner", "pool", "project")


class SqlReports:
    """See :class:`.base.ReportStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._in = transactions

    def usage(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[UsageSum, ...]:
        """By step, team, owner, pool and project."""
        return self._in.read(lambda connection: _usage(connection, steps, teams))

    def finished(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[FinishedJobs, ...]:
        """By step and team."""
        return self._in.read(lambda connection: _finished(connection, steps, teams))


def _within(
    statement: Select[Any],
    at: Column[Any],
    steps: Steps,
    of: tuple[Column[Any], frozenset[TeamName] | None],
) -> Select[Any]:
    column, teams = of
    found = statement.where(at >= steps.from_ms, at < steps.to_ms)
    return found if teams is None else found.where(column.in_(sorted(teams)))


def _usage(
    connection: Connection, steps: Steps, teams: frozenset[TeamName] | None
) -> tuple[UsageSum, ...]:
    held, key = ledger.c.held_milli_gpu_ms, [ledger.c[name] for name in _NAMES]
    step = ((ledger.c.minute_ms - steps.from_ms) // steps.length_ms).label("step")
    over = ledger.c.hold_class == HoldClass.OVER_QUOTA.value
    statement = select(
        step,
        *key,
        func.sum(held).label("held"),
        # Whole numbers, row by row; nothing where no row has a reading.
        func.sum(held * ledger.c.compute_percent_mean // 100).label("used"),
        func.sum(case((ledger.c.idle, held), else_=0)).label("idle"),
        func.sum(case((over, held), else_=ledger.c.surplus_milli_gpu_ms)).label("borrowed"),
        func.sum(ledger.c.lost_milli_gpu_ms).label("lost"),
        func.sum(ledger.c.parked_milli_gpu_ms).label("parked"),
    ).group_by(step, *key)
    asked = _within(statement, ledger.c.minute_ms, steps, (ledger.c.team, teams))
    found = [_usage_sum(row, steps) for row in connection.execute(asked).mappings()]
    # Each database sorts texts its own way.
    return tuple(sorted(found, key=lambda o: (o.from_ms, o.team, o.owner, o.pool, o.project)))


def _usage_sum(row: RowMapping, steps: Steps) -> UsageSum:
    # PostgreSQL adds whole numbers up to decimal ones.
    numbers = {n: None if row[n] is None else int(row[n]) for n in _SUMS}
    named = {name: row[name] for name in _NAMES}
    return UsageSum(from_ms=steps.start_of(int(row["step"])), **named, **numbers)  # type: ignore[arg-type] # only used may be None


def _finished(
    connection: Connection, steps: Steps, teams: frozenset[TeamName] | None
) -> tuple[FinishedJobs, ...]:
    of = workloads.c
    step = ((of.ended_ms - steps.from_ms) // steps.length_ms).label("step")
    statement = (
        select(step, of.team, func.count().label("count"))
        .where(of.state == State.SUCCEEDED.value, of.kind != Kind.NOTEBOOK.value)
        .group_by(step, of.team)
    )
    asked = _within(statement, of.ended_ms, steps, (of.team, teams))
    found = [
        FinishedJobs(
            from_ms=steps.start_of(int(row["step"])), team=row["team"], count=int(row["count"])
        )
        for row in connection.execute(asked).mappings()
    ]
    return tuple(sorted(found, key=lambda one: (one.from_ms, one.team)))
