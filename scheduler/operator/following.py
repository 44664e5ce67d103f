"""From the scheduler's feed to the objects' status: one task for all objects, however many.

Events say which jobs to look at again; a pass over all live jobs at longer intervals brings what
has no event (places in line) and ends jobs whose object is gone, as one that was deleted while no
operator ran.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client.exceptions import ApiException

from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import InvalidTransition, NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.models import JobView
from gpucommons.scheduler.operator import status
from gpucommons.scheduler.operator.cluster import Objects
from gpucommons.scheduler.operator.objects import ObjectRef, made_of, ref_of
from gpucommons.scheduler.operator.status import Said
from gpucommons.scheduler.threads.repeating import Troubles

log = logging.getLogger("gpucommons.operator")

_PAGE = 500
#: The API server answers, and does not take this status: bad, too large, invalid.
_ABOUT_THE_OBJECT = (400, 413, 422)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How patient the operator is, in seconds."""

    #: One long poll of the feed.
    poll_s: float = 20.0
    #: Between two passes over all live jobs.
    pass_s: float = 15.0
    #: Before a refused job is submitted again, and a refused team saved again.
    refused_s: float = 60.0
    #: Before the scheduler is tried again when it could not be reached.
    away_s: float = 5.0
    #: A deletion waits so long for the scheduler, or for the job to end.
    give_up_s: float = 300.0
    #: Objects say that the scheduler is away when it has been for so long.
    say_away_s: float = 30.0


@dataclass(slots=True)
class Known:
    """An object, as it was last seen or written."""

    ref: ObjectRef
    status: dict[str, Any]


@dataclass(slots=True)
class LiveObjects:
    """Which object is which job. Lost with the process, and read anew from the cluster."""

    by_uid: dict[str, Known] = field(default_factory=dict)
    #: The uid of the object of this kind that a job was made of; empty for every other job.
    made_of: Callable[[JobView], str] = made_of

    def see(self, body: Mapping[str, Any]) -> None:
        """An object was added or changed."""
        ref = ref_of(body)
        self.by_uid[ref.uid] = Known(ref=ref, status=dict(body.get("status") or {}))

    def forget(self, body: Mapping[str, Any]) -> None:
        """An object is gone."""
        self.by_uid.pop(ref_of(body).uid, None)

    def of_job(self, job_ids: Iterable[str]) -> list[Known]:
        """The objects of these jobs."""
        wanted = set(job_ids)
        return [one for one in self.by_uid.values() if one.status.get("jobId") in wanted]

    def live(self) -> list[Known]:
        """Objects whose job was submitted and has not been seen to end."""
        return [
            one
            for one in self.by_uid.values()
            if one.status.get("jobId") and one.status.get("state") not in status.FINAL
        ]


class Follower:
    """Keeps every object's status up to date, until it is cancelled."""

    def __init__(
        self,
        scheduler: AsyncSchedulerClient,
        objects: Objects,
        live_objects: LiveObjects,
        *,
        pace: Pace,
        now_ms: Callable[[], int],
    ) -> None:
        self._scheduler = scheduler
        self._objects = objects
        self._live_objects = live_objects
        self._pace = pace
        self._now_ms = now_ms
        self._away_since_ms: int | None = None
        self._odd = Troubles("keeping the status of an object")

    async def run(self) -> None:
        """Follow the feed. A scheduler or an API server that is away is tried again."""
        cursor: int | None = None
        passed_ms, troubles = 0, Troubles("following the feed")
        while True:
            try:
                if cursor is None:
                    cursor = (await self._scheduler.send(calls.events(newest=1))).last
                if self._now_ms() - passed_ms >= self._pace.pass_s * 1000:
                    await self.look_at_all()
                    passed_ms = self._now_ms()
                cursor = await self._follow(cursor)
                self._away_since_ms = None
                troubles.over()
            except Unavailable as error:
                await self._is_away(error)
                await asyncio.sleep(self._pace.away_s)
            except (SchedulerError, ApiException, OSError) as error:
                log.warning("the feed could not be followed: %s", error)
                await asyncio.sleep(self._pace.away_s)
            except Exception as error:  # noqa: BLE001 - one odd object must not end it for all
                troubles.note(error)
                await asyncio.sleep(self._pace.away_s)

    async def _follow(self, cursor: int) -> int:
        """Wait for events and look at their jobs; returns the next cursor."""
        poll_s = min(self._pace.poll_s, self._pace.pass_s)
        found = await self._scheduler.send(calls.events(after=cursor, wait_s=poll_s))
        changed = {one.workload_id for one in found.events if one.workload_id}
        for known in self._live_objects.of_job(changed):
            await self._aside(self._look_at(known))
        return found.last

    async def look_at_all(self) -> None:
        """Bring all live jobs up to date, and end those whose object is gone."""
        ours = await self._live_jobs()
        # All at once: of thousands, a look through all objects for each would take minutes.
        found = [(known, ours[known.status["jobId"]]) for known in self._live_objects.of_job(ours)]
        for known, view in found:
            if self._live_objects.made_of(view) == known.ref.uid:
                await self._aside(self._tell(known, view))
        for known in self._live_objects.live():
            its = ours.get(known.status["jobId"])
            if its is None or self._live_objects.made_of(its) != known.ref.uid:
                await self._aside(self._look_at(known))
        await self._end_orphans(ours.values())

    async def _live_jobs(self) -> dict[str, JobView]:
        """Every live job that this operator has made of an object."""
        found: dict[str, JobView] = {}
        me = (await self._scheduler.send(calls.whoami())).name
        cursor: str | None = None
        while True:
            page = await self._scheduler.send(calls.jobs(live=True, limit=_PAGE, cursor=cursor))
            # Lists leave out what is long of a request, and that may be its labels.
            views = [
                await self._scheduler.send(calls.job(one.id))
                if "labels" in one.request_lacks
                else one
                for one in page.jobs
            ]
            ours = [
                one for one in views if self._live_objects.made_of(one) and one.submitted_by == me
            ]
            found.update({one.id: one for one in ours})
            cursor = page.cursor
            if cursor is None:
                return found

    async def _aside(self, of_one: Awaitable[None]) -> None:
        """What is odd about one object ends nothing for the others; it is tried again."""
        try:
            await of_one
        except ApiException as error:
            if error.status not in _ABOUT_THE_OBJECT:
                raise
            self._odd.note(error)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self._odd.note(error)

    async def _look_at(self, known: Known) -> None:
        try:
            view = await self._scheduler.send(calls.job(known.status["jobId"]))
        except NotFound:
            text = "The scheduler knows this job no more: its history was cleaned up."
            await self._fail(known, "Forgotten", text)
            return
        if self._live_objects.made_of(view) == known.ref.uid:
            await self._tell(known, view)
        else:
            text = f"The job {view.id} was not made of this object: nothing is done with it."
            await self._fail(known, "NotItsJob", text)

    async def _fail(self, known: Known, reason: str, message: str) -> None:
        said = Said(kind=status.FOLLOWED, holds=False, reason=reason, message=message)
        await self._write(known, status.of_failure(known.status, said, now_ms=self._now_ms()))

    async def _tell(self, known: Known, view: JobView) -> None:
        await self._write(known, status.of_job(view, known.status, now_ms=self._now_ms()))

    async def _write(self, known: Known, after: status.Status) -> None:
        changed = status.changes(known.status, after)
        if changed:
            await asyncio.to_thread(self._objects.write_status, known.ref, changed)
            known.status |= changed

    async def _end_orphans(self, ours: Iterable[JobView]) -> None:
        """Cancel jobs whose object was deleted while nobody could be told."""
        suspects = [
            one for one in ours if self._live_objects.made_of(one) not in self._live_objects.by_uid
        ]
        if not suspects:
            return
        # What was seen may lag; only the API server can say that an object is gone.
        bodies = await asyncio.to_thread(self._objects.jobs)
        there = {body["metadata"]["uid"] for body in bodies}
        for view in suspects:
            if self._live_objects.made_of(view) not in there:
                log.warning("%s is cancelled: its object was deleted", view.name)
                await self._cancel(view.id)

    async def _cancel(self, job_id: str) -> None:
        try:
            await self._scheduler.send(calls.cancel(job_id))
        except (InvalidTransition, NotFound):
            return

    async def _is_away(self, error: Unavailable) -> None:
        """Say so in the objects, once it is more than a restart."""
        now_ms = self._now_ms()
        if self._away_since_ms is None:
            self._away_since_ms = now_ms
            log.warning("%s", error)
        if now_ms - self._away_since_ms < self._pace.say_away_s * 1000:
            return
        since = status.time_text(self._away_since_ms)
        said = Said(
            kind=status.FOLLOWED,
            holds=False,
            reason="SchedulerUnavailable",
            message=f"The scheduler cannot be reached since {since}: this may be out of date.",
        )
        for known in self._live_objects.live():
            before = known.status.get("conditions") or []
            found = status.conditions(before, said, now_ms=now_ms)
            try:
                await self._write(known, {"conditions": found})
            except (ApiException, OSError) as problem:
                log.warning("%s/%s: %s", known.ref.namespace, known.ref.name, problem)
                return
