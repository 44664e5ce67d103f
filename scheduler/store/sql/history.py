"""What happened, in SQL: events and the usage ledger; and how long all of it is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    Table,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
    update,
)

from gpucommons.scheduler.core.model.state import Changes, Event
from gpucommons.scheduler.core.model.types import HoldClass, Kind, Millis, WorkloadId
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import (
    EventSight,
    LedgerRow,
    LostMinutes,
    StoredEvent,
)
from gpucommons.scheduler.store.codec import decode, encode
from gpucommons.scheduler.store.estimates import UNFORESEEN, Estimate
from gpucommons.scheduler.store.sql.cluster import Lead
from gpucommons.scheduler.store.sql.intents import insert_into
from gpucommons.scheduler.store.sql.replacing import put_rows
from gpucommons.scheduler.store.tables import (
    estimates,
    events,
    intents,
    leader,
    ledger,
    points,
    workloads,
)

#: What one statement drops at most: for as long as it takes, nobody else can write. A workload goes
#: with its whole curve.
ROWS_AT_ONCE, WORKLOADS_AT_ONCE = 5_000, 100

# --- events ------------------------------------------------------------------------------------


#: Made once: to build a statement costs more than to carry it out.
_NEW_EVENTS, _COUNTERS = insert(events), update(leader)


def number_events(connection: Connection, lead: Lead, changes: Changes) -> tuple[StoredEvent, ...]:
    """Write a cycle's events after the last number, and the leader's counters."""
    stored = tuple(
        StoredEvent(number=number, event=event)
        for number, event in enumerate(changes.events, lead.last_event + 1)
    )
    if stored:
        connection.execute(_NEW_EVENTS, [_event_row(item) for item in stored])
    counters = {"last_event": lead.last_event + len(stored), "commits": lead.commit}
    connection.execute(_COUNTERS, {**counters, "now_ms": changes.now_ms})
    return stored


def _event_row(stored: StoredEvent) -> dict[str, Any]:
    return {
        "number": stored.number,
        "at_ms": stored.event.at_ms,
        "kind": stored.event.kind,
        "workload_id": stored.event.workload_id,
        "audience": rules.audience(stored.event),
        "document": encode(stored.event),
    }


def read_events(  # noqa: PLR0913 - the filters of one feed, all named
    connection: Connection,
    *,
    after: int,
    workload_id: WorkloadId | None,
    kinds: frozenset[str],
    sight: EventSight | None,
    order: tuple[int, bool],
) -> tuple[StoredEvent, ...]:
    """Events after a number, oldest first; ``order`` is (limit, the newest ones)."""
    limit, newest = order
    statement = select(events).where(events.c.number > after).limit(limit)
    if workload_id is not None:
        statement = statement.where(events.c.workload_id == workload_id)
    if kinds:
        statement = statement.where(events.c.kind.in_(sorted(kinds)))
    if sight is not None:
        statement = statement.where(*_in_sight(sight))
    number = events.c.number
    rows = connection.execute(statement.order_by(number.desc() if newest else number)).all()
    return tuple(
        StoredEvent(number=row.number, event=decode(Event, row.document))
        for row in (reversed(rows) if newest else rows)
    )


def _in_sight(sight: EventSight) -> Iterator[ColumnElement[bool]]:
    if sight.until is not None:
        yield events.c.number <= sight.until
    yield events.c.audience.in_(sorted(rules.audiences(sight)))


def last_event_number(connection: Connection) -> int:
    """The newest event's number, pruned or not."""
    return int(connection.execute(select(leader.c.last_event)).scalar_one())


# --- ledger ------------------------------------------------------------------------------------


def write_ledger(connection: Connection, rows: Sequence[LedgerRow]) -> None:
    """Add or replace rows by key."""
    put_rows(connection, ledger, [_ledger_values(row) for row in rows])


def mark_lost(connection: Connection, lost: Sequence[LostMinutes]) -> None:
    """In place: the rows of a month are many, and what they hold is known."""
    for one in lost:
        connection.execute(
            update(ledger)
            .where(
                ledger.c.workload_id == one.workload_id,
                ledger.c.minute_ms >= one.from_ms,
                ledger.c.minute_ms < one.to_ms,
            )
            .values(lost_milli_gpu_ms=ledger.c.held_milli_gpu_ms)
        )


#: Of more workloads than this all rows of a span are read: databases take only so many names.
_NAMED = 500
_OF_SPAN = (
    select(ledger)
    .where(ledger.c.minute_ms >= bindparam("from_ms"), ledger.c.minute_ms < bindparam("to_ms"))
    .order_by(ledger.c.minute_ms, ledger.c.workload_id)
)
_OF_NAMED = _OF_SPAN.where(ledger.c.workload_id.in_(bindparam("named", expanding=True)))

_LEDGER_FIELDS = tuple(field.name for field in dataclasses.fields(LedgerRow))


def _ledger_values(row: LedgerRow) -> dict[str, Any]:
    # Every minute there is one for all that runs; `asdict` would copy each value as deep as it may be.
    values = {name: getattr(row, name) for name in _LEDGER_FIELDS}
    # Enumerations go in by value: drivers differ in what they make of them.
    return values | {"kind": row.kind.value, "hold_class": row.hold_class.value}


def read_ledger(
    connection: Connection, *, from_ms: Millis, to_ms: Millis, of: frozenset[WorkloadId] | None
) -> tuple[LedgerRow, ...]:
    """Rows of a span, by minute."""
    statement = _OF_SPAN
    asked: dict[str, object] = {"from_ms": from_ms, "to_ms": to_ms}
    if of is not None and len(of) <= _NAMED:
        statement, asked = _OF_NAMED, {**asked, "named": sorted(of)}
    return tuple(
        LedgerRow(**{**row, "kind": Kind(row["kind"]), "hold_class": HoldClass(row["hold_class"])})
        for row in connection.execute(statement, asked).mappings()
        if of is None or row["workload_id"] in of
    )


# --- forecasts ---------------------------------------------------------------------------------


def write_estimates(connection: Connection, new: Sequence[Estimate]) -> None:
    """Add or replace estimates by key."""
    if not new:
        return
    statement = insert_into(connection)(estimates)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[estimates.c.workload_id, estimates.c.made_ms],
            set_={"document": statement.excluded.document},
        ),
        [
            {
                "workload_id": one.workload_id,
                "made_ms": one.made_ms,
                "wait_class": one.wait_class,
                "document": encode(one),
            }
            for one in new
        ],
    )


def read_estimates(connection: Connection, limit: int) -> tuple[Estimate, ...]:
    """The newest ones, oldest first; waits that were told no range push out none of the others."""
    key = (estimates.c.made_ms.desc(), estimates.c.workload_id.desc())
    is_unforeseen = estimates.c.wait_class.endswith(UNFORESEEN)
    found: list[Estimate] = []
    for which in (is_unforeseen, ~is_unforeseen):
        newest = select(estimates.c.document).where(which).order_by(*key).limit(limit)
        found += [decode(Estimate, row.document) for row in connection.execute(newest)]
    return tuple(sorted(found, key=lambda one: (one.made_ms, one.workload_id)))


# --- retention ---------------------------------------------------------------------------------


def old_workloads(connection: Connection, before_ms: Millis) -> list[WorkloadId]:
    """Final workloads that ended before a time."""
    old = select(workloads.c.workload_id).where(
        workloads.c.ended_ms < before_ms, workloads.c.live.is_(False)
    )
    return [WorkloadId(found) for found in connection.execute(old).scalars()]


def drop_workloads(connection: Connection, workload_ids: Sequence[WorkloadId]) -> int:
    """Drop workloads and their curves; returns how many rows."""
    statements = (
        delete(points).where(points.c.workload_id.in_(workload_ids)),
        delete(workloads).where(workloads.c.workload_id.in_(workload_ids)),
    )
    return sum(connection.execute(statement).rowcount for statement in statements)


def olds(before_ms: Millis) -> tuple[Delete, ...]:
    """What is older, of each kind a part: to be executed as long as it finds something."""
    estimate = (estimates.c.workload_id, estimates.c.made_ms)
    minute = (ledger.c.workload_id, ledger.c.minute_ms)
    return (
        _some(events, (events.c.number,), events.c.at_ms < before_ms),
        _some(estimates, estimate, estimates.c.made_ms < before_ms),
        _some(ledger, minute, ledger.c.minute_ms < before_ms),
        _some(
            intents,
            (intents.c.intent_id,),
            (intents.c.at_ms < before_ms) & intents.c.verdict.is_not(None),
        ),
    )


def _some(table: Table, key: Sequence[Column[Any]], old: ColumnElement[bool]) -> Delete:
    return delete(table).where(tuple_(*key).in_(select(*key).where(old).limit(ROWS_AT_ONCE)))
