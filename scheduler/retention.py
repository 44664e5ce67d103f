"""Files live as long as the store knows whose they are: attempts' folders, snapshots.

The store forgets old jobs by itself; what they left on disk follows here. A file is dropped only if
it is older than the retention *and* no stored job refers to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from gpucommons.scheduler.core.state import Submit
from gpucommons.scheduler.core.types import Kind, Millis, Spec, Workload
from gpucommons.scheduler.store.base import Store, WorkloadFilter

log = logging.getLogger("gpucommons.scheduler.retention")

_PAGE = 1000


class Prunes(Protocol):
    """Something that keeps files by name."""

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Drop what is older and not needed; returns how many."""
        ...


class Known:
    """What stored jobs refer to; looked up only when there is something old to ask about."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        # Intents first: one that a cycle consumes meanwhile is then found among the jobs.
        asked = [
            i.action.spec for i in self._store.pending_intents() if isinstance(i.action, Submit)
        ]
        return frozenset(_snapshots(asked)) | frozenset(
            name for job in self._jobs() for name in _names(job)
        )

    def _jobs(self) -> Iterator[Workload]:
        where = WorkloadFilter(kinds=frozenset({Kind.TRAINING, Kind.RETRAIN}))
        cursor = None
        while True:
            page = self._store.workloads(where, limit=_PAGE, cursor=cursor)
            yield from page.items
            cursor = page.cursor
            if cursor is None:
                return


def _names(job: Workload) -> Iterator[str]:
    yield from _snapshots([job.spec])
    for attempt in job.attempts:
        yield attempt.attempt_id


def _snapshots(specs: Sequence[Spec]) -> Iterator[str]:
    return (spec.snapshot for spec in specs if spec.snapshot is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """One pass drops what is due."""

    store: Store
    places: Sequence[Prunes]
    now_ms: Callable[[], Millis]
    retention_ms: int

    def step(self) -> int:
        """One pass; returns how many were dropped."""
        known = Known(self.store)
        before_s = (self.now_ms() - self.retention_ms) / 1000
        dropped = sum(
            place.prune(needed=known.__contains__, before_s=before_s) for place in self.places
        )
        if dropped:
            log.info("dropped %s folders and snapshots that no stored job refers to", dropped)
        return dropped
