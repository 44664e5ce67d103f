"""Files live as long as the store knows whose they are: attempts' folders, snapshots.

The store forgets old jobs by itself; what they left on disk follows here. A file is dropped only if
it is old *and* no stored job refers to it. Attempts' files are old after the retention; a snapshot
that no job was submitted with is of no use to anybody after a day. A job that is over, however it
ended, refers to its snapshot for a while only: everybody may bring gigabytes a day, submit, and cancel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from gpucommons.scheduler.core.model.intents import Submit
from gpucommons.scheduler.core.model.types import Checkpoint, Millis, Spec, Workload
from gpucommons.scheduler.store.base import Store, WorkloadFilter
from gpucommons.scheduler.store.stored_jobs import stored_jobs

log = logging.getLogger("gpucommons.scheduler.background_tasks.old_job_files")

#: What was uploaded just now may be about to get its name.
_UPLOAD_MS = 3_600_000


class Prunes(Protocol):
    """Something that keeps files by name."""

    def prune(self, *, needed: Callable[[str], bool], before_s: float) -> int:
        """Drop what is older and not needed; returns how many."""
        ...


class Known:
    """What stored jobs refer to; looked up only when there is something old to ask about."""

    def __init__(self, store: Store, *, ran_since_ms: int = 0) -> None:
        self._store = store
        #: Who ended earlier needs its snapshot no more.
        self._ran_since_ms = ran_since_ms

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        # Intents first: one that a cycle consumes meanwhile is then found among the jobs.
        asked = [i.action for i in self._store.asked().intents if isinstance(i.action, Submit)]
        found = set(_snapshots([action.spec for action in asked]))
        found.update(_checkpoints([action.checkpoint for action in asked]))
        found.update(
            name
            for job in stored_jobs(self._store, WorkloadFilter())
            for name in self._names_of(job)
        )
        scheduled = [one.schedule.snapshot for one in self._store.schedules.all()]
        found.update(name for name in scheduled if name is not None)
        since_ms = Millis(self._ran_since_ms)
        found.update(self._store.pipelines.needed(ended_since_ms=since_ms))
        found.update(self._store.sweeps.needed(ended_since_ms=since_ms))
        return frozenset(found)

    def _names_of(self, job: Workload) -> Iterator[str]:
        if job.ended_ms is None or job.ended_ms >= self._ran_since_ms:
            yield from _snapshots([job.spec])
        for attempt in job.attempts:
            yield attempt.attempt_id
        # They may be of the job whose place it took.
        yield from _checkpoints([job.checkpoint, *(one.resumed_from for one in job.attempts)])


def _checkpoints(checkpoints: Iterable[Checkpoint | None]) -> Iterator[str]:
    return (one.attempt_id for one in checkpoints if one is not None)


def _snapshots(specs: Sequence[Spec]) -> Iterator[str]:
    return (spec.snapshot for spec in specs if spec.snapshot is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A place, and how old its files are at least before they go."""

    place: Prunes
    for_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """One pass drops what is due."""

    store: Store
    places: Sequence[Kept]
    #: After a job's end.
    snapshots_for_ms: int
    #: Whether a snapshot is there: those who uploaded it are forgotten with it.
    has_snapshot: Callable[[str], bool]
    now_ms: Callable[[], Millis]

    def step(self) -> int:
        """One pass; returns how many were dropped."""
        now_ms = self.now_ms()
        known = Known(self.store, ran_since_ms=now_ms - self.snapshots_for_ms)
        dropped = sum(
            kept.place.prune(needed=known.__contains__, before_s=(now_ms - kept.for_ms) / 1000)
            for kept in self.places
        )
        self.store.drop_uploads(
            before_ms=Millis(now_ms - _UPLOAD_MS), is_gone=lambda name: not self.has_snapshot(name)
        )
        if dropped:
            log.info("dropped %s folders and snapshots that no stored job refers to", dropped)
        return dropped
