"""All stored workloads that fit, however many pages of the store they fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.core.model.types import Kind, Workload
from gpucommons.scheduler.store.base import Store, WorkloadFilter

_PAGE = 1000
_JOBS = frozenset({Kind.TRAINING, Kind.RETRAIN})


def stored_workloads(store: Store, where: WorkloadFilter) -> Iterator[Workload]:
    """One after the other; a page is read when its first one is asked for."""
    cursor = None
    while True:
        page = store.workloads(where, limit=_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


def stored_jobs(store: Store, where: WorkloadFilter) -> Iterator[Workload]:
    """The jobs among them."""
    return stored_workloads(store, replace(where, kinds=_JOBS))
