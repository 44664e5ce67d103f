"""What all stores must agree on, without a database: filters, order, cursors, names, curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.lifecycle import PENDING_STATES, is_final, is_remembered
from gpucommons.scheduler.core.model.state import Changes, Cluster, Event
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    Spec,
    TeamName,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.idempotency import is_part_of_ours
from gpucommons.scheduler.parents import NUMBERED, ParentId
from gpucommons.scheduler.store.base import (
    EventSight,
    LedgerRow,
    LostMinutes,
    Page,
    WorkloadFilter,
)

T = TypeVar("T")

#: Beyond so many points of one curve, or so many bytes of metrics, every second one is dropped.
MAX_POINTS = 20_000
MAX_CURVE_BYTES = 2 << 20

#: Room for the number within the 50 characters of a readable name.
_NAME_BASE_CHARACTERS = 40


def matches(workload: Workload, where: WorkloadFilter) -> bool:
    """Whether a filter lets a workload through."""
    spec = workload.spec
    return (
        (not where.kinds or spec.kind in where.kinds)
        and (not where.states or workload.state in where.states)
        and (not where.teams or spec.team in where.teams)
        and where.owner in (None, spec.owner)
        and where.name in (None, spec.name)
        and where.part_of in (None, parent_of(spec))
        and where.snapshot in (None, spec.snapshot)
        and (not where.labelled or not where.labelled.isdisjoint(spec.labels.items()))
        and where.live in (None, not is_final(workload))
        and (where.ended_after_ms is None or (workload.ended_ms or 0) > where.ended_after_ms)
    )


def applied(cluster: Cluster, changes: Changes) -> Cluster:
    """The cluster after a commit, but for its workloads."""
    teams = {**cluster.teams, **{team.name: team for team in changes.teams}}
    nodes = {**cluster.nodes, **{node.node_id: node for node in changes.nodes}}
    return replace(
        cluster,
        teams={name: team for name, team in teams.items() if name not in changes.removed_teams},
        pools={**cluster.pools, **{pool.name: pool for pool in changes.pools}},
        nodes={name: node for name, node in nodes.items() if name not in changes.removed_nodes},
        blocks=cluster.blocks if changes.blocks is None else changes.blocks,
        policy=changes.policy or cluster.policy,
        usage=cluster.usage if changes.usage is None else dict(changes.usage),
        usage_at_ms=cluster.usage_at_ms if changes.usage is None else changes.now_ms,
        demand={**cluster.demand, **changes.demand},
        badges={
            key: badge
            for key, badge in {**cluster.badges, **changes.badges}.items()
            if key not in changes.removed_badges
        },
        now_ms=changes.now_ms,
    )


def loaded(workloads: Mapping[WorkloadId, Workload], now_ms: Millis) -> dict[WorkloadId, Workload]:
    """Those that live, those that a live one depends on, and those that are remembered."""
    live = {key: one for key, one in workloads.items() if not is_final(one)}
    needed = {
        key: workloads[key] for one in live.values() for key in one.spec.after if key in workloads
    }
    ended = {key: one for key, one in workloads.items() if is_remembered(one, now_ms)}
    return {**needed, **ended, **live}


def audience(event: Event) -> str:
    """Who may see an event: its team, or whoever caused it where it is of no team."""
    return _person(event.by) if event.team is None else _team(event.team)


def audiences(sight: EventSight) -> frozenset[str]:
    """What somebody belongs to, of what :func:`audience` gives."""
    # What a part of ours did is for admins, also where somebody is called as that part is.
    person = () if sight.by is None or is_part_of_ours(sight.by) else (_person(sight.by),)
    return frozenset((*map(_team, sight.teams), *person))


def _team(name: str) -> str:
    return f"team:{name}"


def _person(name: str) -> str:
    return f"user:{name}"


def page(
    workloads: Iterable[Workload], where: WorkloadFilter, *, limit: int, cursor: str | None
) -> Page[Workload]:
    """A page of what is in memory, newest first."""
    before = None if cursor is None else cursor_key(cursor)
    keyed = ((page_key(one, where), one) for one in workloads if matches(one, where))
    found = sorted(
        (pair for pair in keyed if before is None or pair[0] < before),
        key=lambda pair: pair[0],
        reverse=True,
    )
    items = tuple(one for _, one in found[:limit])
    more = len(found) > limit and bool(items)
    return Page(items=items, cursor=cursor_after(items[-1], where) if more else None)


def page_key(workload: Workload, where: WorkloadFilter) -> tuple[int, str]:
    """A list's order, from small to large: by submission, or by the end where that is asked."""
    by_end = where.ended_after_ms is not None
    at_ms = (workload.ended_ms or 0) if by_end else workload.submitted_ms
    return at_ms, workload.workload_id


def cursor_after(workload: Workload, where: WorkloadFilter) -> str:
    """Where the next page begins."""
    at_ms, workload_id = page_key(workload, where)
    return f"{at_ms}.{workload_id}"


def cursor_key(cursor: str) -> tuple[int, str]:
    """Read a cursor.

    Raises
    ------
    BadRequest
        When it was not made here.
    """
    submitted_ms, _, workload_id = cursor.partition(".")
    if not submitted_ms.isascii() or not submitted_ms.isdigit() or len(submitted_ms) > 18:  # noqa: PLR2004 - fits 64 bits
        message = f"{cursor[:80]!r} is not a cursor: leave it out to start from the newest."
        raise BadRequest(message)
    return int(submitted_ms), workload_id


def marked(row: LedgerRow, lost: Iterable[LostMinutes]) -> LedgerRow:
    """The row, with all that it holds lost where that is said of its minute."""
    is_lost = any(
        one.workload_id == row.workload_id and one.from_ms <= row.minute_ms < one.to_ms
        for one in lost
    )
    return replace(row, lost_milli_gpu_ms=row.held_milli_gpu_ms) if is_lost else row


def submitted_id(intent: Intent) -> WorkloadId | None:
    """Which workload an intent creates, if any."""
    return intent.action.workload_id if isinstance(intent.action, Submit) else None


def job_owner(intent: Intent) -> UserName | None:
    """Whose job an intent asks for, if for one."""
    action = intent.action
    if not isinstance(action, Submit) or action.spec.kind is Kind.NOTEBOOK:
        return None
    return action.spec.owner


def parent_of(spec: Spec) -> ParentId | None:
    """What a job is part of, if of anything."""
    return None if spec.part_of is None else spec.part_of.parent_id


def asked_part_of(intent: Intent) -> ParentId | None:
    """What the job is part of that an intent asks for."""
    return parent_of(intent.action.spec) if isinstance(intent.action, Submit) else None


def is_pending_job(workload: Workload) -> bool:
    """Whether it counts against what its owner may have waiting."""
    return workload.state in PENDING_STATES and workload.spec.kind is not Kind.NOTEBOOK


def named(intent: Intent, next_name: Callable[[TeamName, str, int | None], str]) -> Intent:
    """The submit of a job under the next name of its base; a trial's with its own number."""
    action = intent.action
    assert isinstance(action, Submit)  # noqa: S101 - nothing else has an owner
    spec, parent = action.spec, action.spec.part_of
    number = parent.number if parent is not None and parent.kind in NUMBERED else None
    spec = replace(spec, name=next_name(spec.team, spec.name, number))
    return replace(intent, action=replace(action, spec=spec))


def name_base(base: str) -> str:
    """The part of a readable name before its number, short enough for both."""
    return base[:_NAME_BASE_CHARACTERS].rstrip("-")


def is_too_long(points: int, characters: int) -> bool:
    """Whether a curve of so many points, with so much text in them, is to be thinned."""
    return points > 1 and (points > MAX_POINTS or characters > MAX_CURVE_BYTES)


def kept_of(curve: Sequence[tuple[T, int]]) -> list[T]:
    """The keys that stay of a curve's keys and sizes in order: every second, until it fits."""
    while is_too_long(len(curve), sum(size for _, size in curve)):
        curve = curve[::2]
    return [key for key, _ in curve]


def thinned(items: Sequence[T], limit: int) -> tuple[T, ...]:
    """At most ``limit`` of them, evenly spread, first and last included."""
    if len(items) <= limit:
        return tuple(items)
    if limit <= 1:
        return tuple(items[-1:]) if limit else ()
    last = len(items) - 1
    return tuple(items[index * last // (limit - 1)] for index in range(limit))
