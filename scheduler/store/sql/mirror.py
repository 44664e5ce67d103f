"""What a replica that does not lead sees: read once whole, then only what commits have changed.

A cluster of thousands of jobs takes seconds to read and changes many times a second, a few rows at
a time; so every row says which commit wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, or_, select
from sqlalchemy.sql import ColumnElement

from gpucommons.scheduler.core.model.lifecycle import is_final, is_remembered
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, Workload, WorkloadId
from gpucommons.scheduler.store.sql import cluster
from gpucommons.scheduler.store.tables import documents, leader, workloads


class SqlMirror:
    """See :class:`gpucommons.scheduler.store.base.Mirror`."""

    def __init__(self, read: Callable[[Callable[[Connection], Cluster]], Cluster]) -> None:
        #: Runs a query on one consistent view.
        self._read = read
        self._seen = -1
        self._documents: dict[tuple[str, str], Any] = {}
        self._workloads: dict[WorkloadId, Workload] = {}
        self._cluster = Cluster()

    def refresh(self) -> Cluster:
        """What was committed last."""
        return self._read(self._refreshed)

    def _refreshed(self, connection: Connection) -> Cluster:
        row = connection.execute(select(leader.c.commits, leader.c.now_ms)).one()
        if row.commits == self._seen:
            return self._cluster
        now_ms = Millis(row.now_ms)
        self._read_documents(connection)
        self._read_workloads(connection, now_ms)
        self._seen = int(row.commits)
        found = dict(self._documents)
        self._cluster = cluster.cluster_of(found, dict(self._workloads), now_ms)
        return self._cluster

    def _read_documents(self, connection: Connection) -> None:
        changed = connection.execute(select(documents).where(documents.c.written > self._seen))
        for row in changed:
            self._documents[row.kind, row.name] = cluster.value_of(row.kind, row.document)
        there = {
            tuple(row) for row in connection.execute(select(documents.c.kind, documents.c.name))
        }
        for gone in self._documents.keys() - there:
            del self._documents[gone]

    def _read_workloads(self, connection: Connection, now_ms: Millis) -> None:
        for workload in cluster.workloads_where(connection, *self._new(now_ms)):
            self._workloads[workload.workload_id] = workload
        live = {i: w for i, w in self._workloads.items() if not is_final(w)}
        needed = {i for workload in live.values() for i in workload.spec.after} - live.keys()
        absent = needed - self._workloads.keys()
        known = {**self._workloads, **cluster.by_id(connection, absent)}
        self._workloads = {
            i: w for i, w in known.items() if i in live or i in needed or is_remembered(w, now_ms)
        }

    def _new(self, now_ms: Millis) -> tuple[ColumnElement[bool], ...]:
        """The first time all that is live, from then on all that was written."""
        if self._seen >= 0:
            return (workloads.c.written > self._seen,)
        return (or_(workloads.c.live, cluster.just_ended(now_ms)),)
