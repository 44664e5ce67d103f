"""The scheduler's state in SQL: written by the leader's commit, read by everyone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    not_,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.sql import ColumnElement

from gpucommons.scheduler.core.events.job_size import as_submitted, with_size
from gpucommons.scheduler.core.going_on.drill_verdict import confined
from gpucommons.scheduler.core.model.going_on import Badge
from gpucommons.scheduler.core.model.lifecycle import (
    LEASES_REMEMBERED_MS,
    WITHDRAWALS_REMEMBERED_MS,
    is_final,
    is_remembered,
)
from gpucommons.scheduler.core.model.resources import Block, Node, Policy, Pool, Team
from gpucommons.scheduler.core.model.state import Changes, Cluster
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    PoolName,
    Spec,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.learning import LearnedDemand
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import Epoch, Page, WorkloadFilter
from gpucommons.scheduler.store.codec import (
    decode,
    encode,
    encode_plain,
    entry_in_document,
    from_plain,
    opened,
    to_plain,
)
from gpucommons.scheduler.store.sql.replacing import put_rows
from gpucommons.scheduler.store.tables import documents, leader, workloads

_Usage = Mapping[tuple[TeamName, PoolName], int]
_Blocks = tuple[Block, ...]
_Ask = tuple[int, int, int, int, tuple[str, ...]]
_Counts = tuple[tuple[_Ask, int], ...]
#: Counts, their total, what was known at the last lesson, and when the next one is drawn.
_Demand = tuple[_Counts, int, _Counts, int]

_KINDS: Mapping[str, Any] = {
    "pool": Pool,
    "node": Node,
    "team": Team,
    "blocks": _Blocks,
    "policy": Policy,
    "usage": _Usage,
    "badge": Badge,
}

#: What is looked up at once: SQLite allows so many parameters in one statement.
_LOOKUP = 500
_LEAD = select(leader).with_for_update()
#: What of a workload is not written with where it stands.
_NOT_STANDING = frozenset({"spec", "submitted_pools"})


# --- leadership --------------------------------------------------------------------------------


def take_lead(connection: Connection, holder: str) -> Epoch:
    """Begin the next epoch."""
    statement = (
        update(leader).values(epoch=leader.c.epoch + 1, holder=holder).returning(leader.c.epoch)
    )
    return Epoch(connection.execute(statement).scalar_one())


#: Made once, as all that each cycle carries out: to build a statement costs more than to carry it out.
_DROP_USAGE = delete(documents).where(
    documents.c.kind == "usage", documents.c.name != bindparam("kept")
)


class Lead(NamedTuple):
    """The counters that a transaction of the leader moves."""

    last_event: int
    #: Of the commit that this transaction makes, if it makes one.
    commit: int


def check_lead(connection: Connection, epoch: Epoch) -> Lead:
    """Hold the leader's row for this transaction.

    Raises
    ------
    LeaderLost
        When another epoch has begun.
    """
    row = connection.execute(_LEAD).one()
    if row.epoch != epoch:
        message = f"{row.holder or 'Another scheduler'} has taken over: this one stops writing."
        raise LeaderLost(message)
    return Lead(last_event=int(row.last_event), commit=int(row.commits) + 1)


def holder(connection: Connection) -> str:
    """Who took the lead last."""
    return str(connection.execute(select(leader.c.holder)).scalar_one())


def clock_ms(connection: Connection) -> Millis:
    """The time of PostgreSQL's machine."""
    seconds = connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    return Millis(int(seconds * 1000))


# --- writing -----------------------------------------------------------------------------------


def write(connection: Connection, changes: Changes, number: int) -> None:
    """Everything of a cycle but its verdicts and events, as the commit of this number."""
    _write_workloads(connection, changes.workloads, number)
    _write_documents(connection, _documents_of(changes), number)
    for kind, removed in (
        ("team", changes.removed_teams),
        ("node", changes.removed_nodes),
        ("badge", changes.removed_badges),
    ):
        for name in removed:
            connection.execute(
                delete(documents).where(documents.c.kind == kind, documents.c.name == name)
            )
    if changes.usage is not None:
        # Its name is the time up to which it counts.
        connection.execute(_DROP_USAGE, {"kept": str(changes.now_ms)})


def _documents_of(changes: Changes) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of what is not a workload."""
    for team in changes.teams:
        yield "team", team.name, encode(team)
    for pool in changes.pools:
        yield "pool", pool.name, encode(pool)
    for node in changes.nodes:
        yield "node", node.node_id, encode(node)
    if changes.blocks is not None:
        yield "blocks", "", encode(changes.blocks, _Blocks)
    if changes.policy is not None:
        yield "policy", "", encode(changes.policy)
    if changes.usage is not None:
        yield "usage", str(changes.now_ms), encode(changes.usage, _Usage)
    for pool_name, learned in changes.demand.items():
        yield "demand", pool_name, _encoded(learned)
    for key, badge in changes.badges.items():
        yield "badge", key, encode(badge)


def _write_workloads(connection: Connection, changed: Sequence[Workload], number: int) -> None:
    """All in one statement: when the first of a long line starts, everybody's place in it changes."""
    put_rows(connection, workloads, [_row_of(one) | {"written": number} for one in changed])


def _row_of(workload: Workload) -> dict[str, Any]:
    # What was submitted is never written over: its size now is in ``resized``, and where its image
    # can be woken is found again in the first cycle.
    standing = to_plain(workload, without=_NOT_STANDING)
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
        "spec": _document_of(_Same(as_submitted(workload))),
        "standing": encode_plain(standing),
        "part_of": rules.parent_of(workload.spec),
        "snapshot": workload.spec.snapshot,
    }


class _Same:
    """A spec by its identity: what is written in it is not looked through to know it again."""

    __slots__ = ("spec",)

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.spec is other.spec


@lru_cache(maxsize=10_000)
def _document_of(same: _Same) -> str:
    """A job is written a dozen times while it runs, and what was submitted stays as it is."""
    return encode(same.spec)


def _write_documents(
    connection: Connection, changed: Iterable[tuple[str, str, str]], number: int
) -> None:
    rows = [
        {"kind": kind, "name": name, "document": document, "written": number}
        for kind, name, document in changed
    ]
    put_rows(connection, documents, rows)


# --- reading -----------------------------------------------------------------------------------


def load(connection: Connection) -> Cluster:
    """Everything live, final workloads that live ones depend on, and those that are remembered."""
    now_ms = Millis(connection.execute(select(leader.c.now_ms)).scalar_one())
    live = {w.workload_id: w for w in workloads_where(connection, workloads.c.live)}
    ended = {
        w.workload_id: w
        for w in workloads_where(connection, just_ended(now_ms))
        if is_remembered(w, now_ms)
    }
    needed = {i for w in live.values() for i in w.spec.after} - live.keys()
    found = {
        (row.kind, row.name): value_of(row.kind, row.document)
        for row in connection.execute(select(documents))
    }
    return cluster_of(found, {**by_id(connection, needed), **ended, **live}, now_ms)


def just_ended(now_ms: Millis) -> ColumnElement[bool]:
    """Those of which some are remembered; of all that ended in the last hour few need be read."""
    standing = workloads.c.standing
    withdrew = and_(
        standing.contains('"withdrawn_ms":[', autoescape=True),
        not_(standing.contains('"withdrawn_ms":[]', autoescape=True)),
    )
    lease = workloads.c.kind == Kind.NOTEBOOK.value
    return or_(
        and_(lease, workloads.c.ended_ms > now_ms - LEASES_REMEMBERED_MS),
        and_(workloads.c.ended_ms > now_ms - WITHDRAWALS_REMEMBERED_MS, withdrew),
    )


def cluster_of(
    found: Mapping[tuple[str, str], Any], known: Mapping[WorkloadId, Workload], now_ms: Millis
) -> Cluster:
    """One value of all that was read."""
    named: dict[str, dict[Any, Any]] = defaultdict(dict)
    for (kind, name), value in found.items():
        named[kind][name] = value
    usage = named["usage"]
    return Cluster(
        pools=named["pool"],
        nodes=named["node"],
        teams=named["team"],
        workloads=known,
        blocks=next(iter(named["blocks"].values()), ()),
        policy=next(iter(named["policy"].values()), Policy()),
        usage=next(iter(usage.values()), {}),
        usage_at_ms=Millis(next((int(at_ms) for at_ms in usage), 0)),
        demand=named["demand"],
        badges=named["badge"],
        now_ms=now_ms,
    )


def value_of(kind: str, document: str) -> Any:
    """What a document of this kind says."""
    if kind == "demand":
        return _decoded(document)
    return decode(_KINDS[kind], document)


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
    columns = workloads.c
    at_ms = columns.submitted_ms if where.ended_after_ms is None else columns.ended_ms
    statement = (
        select(workloads)
        .where(*_conditions(where))
        .order_by(at_ms.desc(), columns.workload_id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        key = tuple_(at_ms, columns.workload_id)
        statement = statement.where(key < tuple_(*rules.cursor_key(cursor)))
    found = _workloads(connection, statement)
    items = found[:limit]
    more = len(found) > limit and bool(items)
    return Page(items=items, cursor=rules.cursor_after(items[-1], where) if more else None)


def _conditions(where: WorkloadFilter) -> list[ColumnElement[bool]]:
    columns = workloads.c
    conditions: list[ColumnElement[bool]] = []
    if where.kinds:
        conditions.append(columns.kind.in_(sorted(kind.value for kind in where.kinds)))
    if where.states:
        conditions.append(columns.state.in_(sorted(state.value for state in where.states)))
    if where.teams:
        conditions.append(columns.team.in_(sorted(where.teams)))
    for column, value in (
        (columns.owner, where.owner),
        (columns.name, where.name),
        (columns.part_of, where.part_of),
        (columns.snapshot, where.snapshot),
        (columns.live, where.live),
    ):
        if value is not None:
            conditions.append(column == value)
    if where.labelled:
        written = (entry_in_document(*one) for one in sorted(where.labelled))
        conditions.append(or_(*(columns.spec.contains(one, autoescape=True) for one in written)))
    if where.ended_after_ms is not None:
        conditions.append(columns.ended_ms > where.ended_after_ms)
    return conditions


def workloads_where(
    connection: Connection, *conditions: ColumnElement[bool]
) -> tuple[Workload, ...]:
    """Those for which all of this is so."""
    return _workloads(connection, select(workloads).where(*conditions))


def _workloads(connection: Connection, statement: Select[Any]) -> tuple[Workload, ...]:
    return tuple(_workload(row) for row in connection.execute(statement))


def _workload(row: Row[Any]) -> Workload:
    plain = {**opened(row.standing), "spec": opened(row.spec)}
    workload: Workload = confined(from_plain(Workload, plain))
    if workload.resized is None:
        return workload
    return replace(workload, spec=with_size(workload.spec, workload.resized.now))
