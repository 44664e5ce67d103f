"""Which jobs the tabs show: all that live, and those that ended last.

The scheduler lists jobs by when they were submitted, so a long one that ends in a busy team is among
no newest ones. Whatever was live at the last look and is listed no more is asked for by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pydantic import BaseModel

from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.client.calls import Call
from gpucommons.scheduler.errors import NotFound

R = TypeVar("R", bound=BaseModel)

NEWEST_FINAL = 20
#: As many as the scheduler gives at once.
LIVE_PAGE = 500
MOST_LIVE_PAGES = 4
#: Where a team cancels a thousand, a few at each look.
MOST_ASKED = 20


class SendsCalls(Protocol):
    """The scheduler's asyncio client, or a fake of it."""

    async def send(self, call: Call[R]) -> R:
        """Send a call."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One look."""

    live: tuple[models.JobView, ...]
    #: Who ended last comes first.
    final: tuple[models.JobView, ...]


class ShownJobs:
    """Looks, and remembers what it saw alive and what it saw end."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        #: None before the first look.
        self._alive: set[str] | None = None
        self._ended: dict[str, models.JobView] = {}

    async def look(self, scheduler: SendsCalls) -> Shown:
        """Read everything that may have changed."""
        live, newest, own = await asyncio.gather(
            _all_live(scheduler),
            scheduler.send(calls.jobs(live=False, limit=NEWEST_FINAL)),
            self._own_of_before(scheduler),
        )
        listed = {job.id for job in (*live, *newest.jobs, *own)}
        gone = sorted((self._alive or set()) - listed)
        found = await asyncio.gather(*(_one(scheduler, ref) for ref in gone[:MOST_ASKED]))
        still = [job for job in found if job is not None and job.ended_ms is None]
        self._alive = {job.id for job in (*live, *still)} | set(gone[MOST_ASKED:])
        ended = [job for job in (*own, *found) if job is not None and job.ended_ms is not None]
        self._remember(ended)
        final = {**self._ended, **{job.id: job for job in newest.jobs}}
        # The lists are read side by side: what ends between the two is in both. A page keeps a row
        # for each, and loses sight of one of them.
        not_over = tuple(job for job in (*live, *still) if job.id not in final)
        return Shown(live=not_over, final=tuple(_by_end(final.values())))

    async def _own_of_before(self, scheduler: SendsCalls) -> Sequence[models.JobView]:
        """What the owner's jobs came to while this server was off."""
        if self._alive is not None or not self._owner:
            return ()
        mine = calls.jobs(owner=self._owner, live=False, limit=NEWEST_FINAL)
        return (await scheduler.send(mine)).jobs

    def _remember(self, ended: Sequence[models.JobView]) -> None:
        known = {**self._ended, **{job.id: job for job in ended}}
        self._ended = {job.id: job for job in _by_end(known.values())[:NEWEST_FINAL]}


async def _all_live(scheduler: SendsCalls) -> list[models.JobView]:
    found: list[models.JobView] = []
    cursor = None
    for _ in range(MOST_LIVE_PAGES):
        page = await scheduler.send(calls.jobs(live=True, limit=LIVE_PAGE, cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    return found


async def _one(scheduler: SendsCalls, job_id: str) -> models.JobView | None:
    try:
        return await scheduler.send(calls.job(job_id))
    except NotFound:
        return None


def _by_end(jobs: Iterable[models.JobView]) -> list[models.JobView]:
    return sorted(jobs, key=lambda job: job.ended_ms or job.since_ms, reverse=True)
