"""The scheduler's state in SQL: written by the leader's commit, read by everyone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, select, tuple_, update
from sqlalchemy.sql import ColumnElement

from gpucommons.scheduler.core.lifecycle import LEASES_REMEMBERED_MS, is_final
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.core.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.state import Changes, Cluster
from gpucommons.scheduler.core.types import Kind, Millis, PoolName, TeamName, Workload, WorkloadId
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import Epoch, Page, WorkloadFilter
from gpucommons.scheduler.store.codec import (
    decode,
    encode,
    encode_plain,
    from_plain,
    opened,
    to_plain,
)
from gpucommons.scheduler.store.sql_intents import insert_into
from gpucommons.scheduler.store.tables import documents, leader, workloads

_Usage = Mapping[tuple[TeamName, PoolName], int]
_Blocks = tuple[Block, ...]
_Ask = tuple[int, int, int, int, tuple[str, ...]]
_Counts = tuple[tuple[_Ask, int], ...]
#: Counts, their total, what was known at the last lesson, and when the next one is drawn.
_Demand = tuple[_Counts, int, _Counts, int]

#: What is looked up at once: SQLite allows so many parameters in one statement.
_LOOKUP = 500


# --- leadership --------------------------------------------------------------------------------


def take_lead(connection: Connection, holder: str) -> Epoch:
    """Begin the next epoch."""
    statement = (
        update(leader).values(epoch=leader.c.epoch + 1, holder=holder).returning(leader.c.epoch)
    )
    return Epoch(connection.execute(statement).scalar_one())


def check_lead(connection: Connection, epoch: Epoch) -> int:
    """Hold the leader's row for this transaction; returns the last event's number.

    Raises
    ------
    LeaderLost
        When another epoch has begun.
    """
    row = connection.execute(select(leader).with_for_update()).one()
    if row.epoch != epoch:
        message = f"{row.holder or 'Another scheduler'} has taken over: this one stops writing."
        raise LeaderLost(message)
    return int(row.last_event)


# --- writing -----------------------------------------------------------------------------------


def write(connection: Connection, changes: Changes) -> None:
    """Everything of a cycle but its verdicts and events."""
    _write_workloads(connection, changes.workloads)
    for team in changes.teams:
        _write_document(connection, "team", team.name, encode(team))
    for name in changes.removed_teams:
        connection.execute(
            delete(documents).where(documents.c.kind == "team", documents.c.name == name)
        )
    for pool in changes.pools:
        _write_document(connection, "pool", pool.name, encode(pool))
    for node in changes.nodes:
        _write_document(connection, "node", node.node_id, encode(node))
    if changes.blocks is not None:
        _write_document(connection, "blocks", "", encode(changes.blocks, _Blocks))
    if changes.policy is not None:
        _write_document(connection, "policy", "", encode(changes.policy))
    if changes.usage is not None:
        # Its name is the time up to which it counts.
        connection.execute(delete(documents).where(documents.c.kind == "usage"))
        _write_document(connection, "usage", str(changes.now_ms), encode(changes.usage, _Usage))
    for pool_name, learned in changes.demand.items():
        _write_document(connection, "demand", pool_name, _encoded(learned))


def _write_workloads(connection: Connection, changed: Sequence[Workload]) -> None:
    """All in one statement: when the first of a long line starts, everybody's place in it changes."""
    if not changed:
        return
    rows = [_row_of(workload) for workload in changed]
    statement = insert_into(connection)(workloads)
    new = {name: statement.excluded[name] for name in rows[0] if name != "workload_id"}
    connection.execute(
        statement.on_conflict_do_update(index_elements=[workloads.c.workload_id], set_=new), rows
    )


def _row_of(workload: Workload) -> dict[str, Any]:
    plain = to_plain(workload)
    spec = plain.pop("spec")
    return {
        "workload_id": workload.workload_id,
        "kind": workload.spec.kind.value,
        "state": workload.state.value,
        "live": not is_final(workload),
        "team": workload.spec.team,
        "owner": workload.spec.owner,
        "name": workload.spec.name,
        "submitted_ms": workload.submitted_ms,
        "ended_ms": workload.ended_ms,
        "spec": encode_plain(spec),
        "standing": encode_plain(plain),
    }


def _write_document(connection: Connection, kind: str, name: str, document: str) -> None:
    connection.execute(
        insert_into(connection)(documents)
        .values(kind=kind, name=name, document=document)
        .on_conflict_do_update(
            index_elements=[documents.c.kind, documents.c.name], set_={"document": document}
        )
    )


# --- reading -----------------------------------------------------------------------------------


def load(connection: Connection) -> Cluster:
    """Everything live, final workloads that live ones depend on, leases that just ended."""
    now_ms = Millis(connection.execute(select(leader.c.now_ms)).scalar_one())
    live = {
        w.workload_id: w for w in _workloads(connection, select(workloads).where(workloads.c.live))
    }
    just_ended = select(workloads).where(
        workloads.c.kind == Kind.NOTEBOOK.value,
        workloads.c.ended_ms > now_ms - LEASES_REMEMBERED_MS,
    )
    ended = {w.workload_id: w for w in _workloads(connection, just_ended)}
    needed = {i for w in live.values() for i in w.spec.after} - live.keys()
    found: dict[str, dict[str, str]] = {}
    for row in connection.execute(select(documents)):
        found.setdefault(row.kind, {})[row.name] = row.document
    usage = found.get("usage", {})
    return Cluster(
        pools=_named(Pool, found.get("pool", {})),
        nodes=_named(Node, found.get("node", {})),
        teams=_named(Team, found.get("team", {})),
        workloads={**by_id(connection, needed), **ended, **live},
        blocks=next((decode(_Blocks, d) for d in found.get("blocks", {}).values()), ()),
        policy=next((decode(Policy, d) for d in found.get("policy", {}).values()), Policy()),
        usage=next((decode(_Usage, d) for d in usage.values()), {}),
        usage_at_ms=Millis(next((int(at_ms) for at_ms in usage), 0)),
        demand={
            PoolName(name): _decoded(document) for name, document in found.get("demand", {}).items()
        },
        now_ms=now_ms,
    )


def _encoded(learned: LearnedDemand) -> str:
    rows = tuple((tuple(ask), count) for ask, count in sorted(learned.counts.items()))
    known = tuple((tuple(ask), count) for ask, count in learned.known)
    return encode((rows, learned.total, known, learned.next_lesson), _Demand)


def _decoded(document: str) -> LearnedDemand:
    rows, total, known, next_lesson = decode(_Demand, document)
    return LearnedDemand(
        counts={Ask(*ask): count for ask, count in rows},
        total=total,
        known=tuple((Ask(*ask), count) for ask, count in known),
        next_lesson=next_lesson,
    )


def _named(kind: type, found: Mapping[str, str]) -> dict[Any, Any]:
    return {name: decode(kind, document) for name, document in found.items()}


def by_id(connection: Connection, ids: Iterable[WorkloadId]) -> dict[WorkloadId, Workload]:
    """Those of these workloads that exist."""
    wanted = sorted(ids)
    found: dict[WorkloadId, Workload] = {}
    for start in range(0, len(wanted), _LOOKUP):
        chunk = wanted[start : start + _LOOKUP]
        statement = select(workloads).where(workloads.c.workload_id.in_(chunk))
        found.update((w.workload_id, w) for w in _workloads(connection, statement))
    return found


def page(
    connection: Connection, where: WorkloadFilter, *, limit: int, cursor: str | None
) -> Page[Workload]:
    """A page, newest first."""
    age = tuple_(workloads.c.submitted_ms, workloads.c.workload_id)
    statement = (
        select(workloads)
        .where(*_conditions(where))
        .order_by(workloads.c.submitted_ms.desc(), workloads.c.workload_id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(age < tuple_(*rules.cursor_key(cursor)))
    found = _workloads(connection, statement)
    items = found[:limit]
    more = len(found) > limit and bool(items)
    return Page(items=items, cursor=rules.cursor_after(items[-1]) if more else None)


def _conditions(where: WorkloadFilter) -> list[ColumnElement[bool]]:
    columns = workloads.c
    conditions: list[ColumnElement[bool]] = []
    if where.kinds:
        conditions.append(columns.kind.in_(sorted(kind.value for kind in where.kinds)))
    if where.states:
        conditions.append(columns.state.in_(sorted(state.value for state in where.states)))
    if where.teams:
        conditions.append(columns.team.in_(sorted(where.teams)))
    if where.owner is not None:
        conditions.append(columns.owner == where.owner)
    if where.name is not None:
        conditions.append(columns.name == where.name)
    if where.live is not None:
        conditions.append(columns.live == where.live)
    return conditions


def _workloads(connection: Connection, statement: Select[Any]) -> tuple[Workload, ...]:
    return tuple(_workload(row) for row in connection.execute(statement))


def _workload(row: Row[Any]) -> Workload:
    plain = {**opened(row.standing), "spec": opened(row.spec)}
    workload: Workload = from_plain(Workload, plain)
    return workload
