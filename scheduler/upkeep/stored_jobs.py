"""All stored jobs that fit, however many pages of the store they fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.core.model.types import Kind, Workload
from gpucommons.scheduler.store.base import Store, WorkloadFilter

_PAGE = 1000
_JOBS = frozenset({Kind.TRAINING, Kind.RETRAIN})


def stored_jobs(store: Store, where: WorkloadFilter) -> Iterator[Workload]:
    """One after the other; a page is read when its first job is asked for."""
    cursor = None
    while True:
        page = store.workloads(replace(where, kinds=_JOBS), limit=_PAGE, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return
