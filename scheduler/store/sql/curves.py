"""The curves of jobs, in SQL. Each report of each job adds to one, so none of them may look at all of it.

A curve beyond its cap loses every second point. Whether it is, is looked up when what was added since
the last time could have brought it there, and not for less than a twentieth of the cap: by so much
a curve may be longer for a while.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, bindparam, delete, func, select, tuple_

from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.store import rules
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.store.sql.replacing import put_rows
from gpucommons.scheduler.store.tables import points

#: Jobs of which it is remembered how much room their curves have.
_REMEMBERED = 10_000
#: Made once: to build a statement costs more than to carry it out.
_MINE = points.c.workload_id == bindparam("of")
_SIZE = select(func.count(), func.coalesce(func.sum(func.length(points.c.metrics)), 0)).where(_MINE)
_SOURCES = select(points.c.source, func.count()).where(_MINE).group_by(points.c.source)
_CURVE = (
    select(points)
    .where(_MINE, points.c.source == bindparam("from"), points.c.at_ms >= bindparam("from_ms"))
    .order_by(points.c.attempt_number, points.c.step)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Room:
    """What may be added before a curve is looked at again."""

    points: int
    characters: int

    def less(self, rows: Sequence[dict[str, object]]) -> _Room:
        """What is left of it after these; points that are replaced count as new ones."""
        characters = sum(len(str(row["metrics"])) for row in rows)
        return replace(
            self, points=self.points - len(rows), characters=self.characters - characters
        )

    @property
    def is_used_up(self) -> bool:
        return self.points < 0 or self.characters < 0


def _room_of(count: int, characters: int) -> _Room:
    return _Room(
        points=max(rules.MAX_POINTS - count, rules.MAX_POINTS // 20),
        characters=max(rules.MAX_CURVE_BYTES - characters, rules.MAX_CURVE_BYTES // 20),
    )


class Curves:
    """Written by one thread, as long as its process leads; whatever else is written is to be forgotten."""

    def __init__(self) -> None:
        self._rooms: dict[WorkloadId, _Room] = {}

    def forget(self) -> None:
        """Others wrote, or what was written is taken back."""
        self._rooms.clear()

    def write(
        self, connection: Connection, curves: Mapping[WorkloadId, Sequence[LogPoint]]
    ) -> None:
        """Add points; of a curve beyond the cap every second one goes."""
        rows = {one: [_row(one, point) for point in new] for one, new in curves.items() if new}
        put_rows(connection, points, [row for each in rows.values() for row in each])
        for workload_id, new in rows.items():
            self._take_room(connection, workload_id, new)

    def _take_room(
        self, connection: Connection, workload_id: WorkloadId, rows: Sequence[dict[str, object]]
    ) -> None:
        room = self._rooms.get(workload_id)
        room = None if room is None else room.less(rows)
        if room is None or room.is_used_up:
            room = _thin(connection, workload_id)
        if len(self._rooms) >= _REMEMBERED:
            self._rooms.clear()
        self._rooms[workload_id] = room


def _row(workload_id: WorkloadId, point: LogPoint) -> dict[str, object]:
    return {
        "workload_id": workload_id,
        "source": point.source,
        "attempt_number": point.attempt_number,
        "step": point.step,
        "at_ms": point.at_ms,
        "metrics": json.dumps(point.metrics),
        "unit": point.unit,
    }


def _thin(connection: Connection, workload_id: WorkloadId) -> _Room:
    """Bring a curve below its cap; returns the room that it has then."""
    count, characters = connection.execute(_SIZE, {"of": workload_id}).one()
    if not rules.is_too_long(count, characters):
        # PostgreSQL adds whole numbers up to decimal ones.
        return _room_of(count, int(characters))
    mine, size = points.c.workload_id == workload_id, func.length(points.c.metrics)
    # By source first, or of two that tell the same steps one would lose all.
    key = (points.c.source, points.c.attempt_number, points.c.step)
    rows = connection.execute(select(*key, size).where(mine).order_by(*key)).all()
    sizes = {(row[0], row[1], row[2]): int(row[3]) for row in rows}
    stays = set(rules.kept_of(list(sizes.items())))
    dropped = [each for each in sizes if each not in stays]
    for start in range(0, len(dropped), 200):
        chunk = dropped[start : start + 200]
        connection.execute(delete(points).where(mine, tuple_(*key).in_(chunk)))
    return _room_of(len(stays), sum(sizes[each] for each in stays))


def read_points(
    connection: Connection, workload_id: WorkloadId, source: str, from_ms: int, limit: int
) -> tuple[LogPoint, ...]:
    """A curve, thinned evenly."""
    asked = {"of": workload_id, "from": source, "from_ms": from_ms}
    rows = connection.execute(_CURVE, asked).all()
    return tuple(
        LogPoint(
            attempt_number=row.attempt_number,
            step=row.step,
            at_ms=row.at_ms,
            metrics=json.loads(row.metrics),
            source=row.source,
            unit=row.unit,
        )
        for row in rules.thinned(rows, limit)
    )


def read_sources(connection: Connection, workload_id: WorkloadId) -> dict[str, int]:
    """How many points there are of each source."""
    rows = connection.execute(_SOURCES, {"of": workload_id})
    return {row[0]: row[1] for row in rows}
