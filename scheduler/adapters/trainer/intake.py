"""TrainJobs handed in: each that is made in our namespaces waits suspended, for a job of ours in line.

A client of the API like the operator, whose follower it shares: that writes how jobs stand into their
objects, and ends jobs whose object is gone. What is known of a TrainJob stands in its annotations, so
that one who was killed goes on; a job is submitted with its TrainJob's uid and size as the key.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gpucommons.scheduler.adapters.trainer import trainjobs
from gpucommons.scheduler.adapters.trainer.cluster_view import WatchedTrainJobs
from gpucommons.scheduler.adapters.trainer.settings import TrainerSettings
from gpucommons.scheduler.adapters.trainer.trainjobs import Asked, Document
from gpucommons.scheduler.client import AsyncSchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest, InvalidTransition, NotFound, SchedulerError
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    Connection,
)
from gpucommons.scheduler.models import JobRequest, JobView
from gpucommons.scheduler.operator import status
from gpucommons.scheduler.operator.cluster import refusal
from gpucommons.scheduler.operator.following import Known, LiveObjects
from gpucommons.scheduler.operator.objects import ObjectRef, ref_of
from gpucommons.scheduler.threads.repeating import Troubles

_LOG = logging.getLogger(__name__)
#: States of a job in which its TrainJob runs, or is about to.
_RUNS = frozenset({"starting", "running", "stopping", "cancelling"})
#: What of a job's status its TrainJob says, and where.
_NOTES = {"state": trainjobs.STATE, "reason": trainjobs.REASON}
_FORBIDDEN = 403
_LONGEST_NAME, _LONGEST_TEXT = 50, 4_000


def made_of(view: JobView) -> str:
    """The uid of the TrainJob that a job was made of; empty for every other job."""
    ref = trainjobs.ref_in({} if view.request is None else view.request.labels)
    return "" if ref is None else ref.uid


def request_of(trainjob: Document, asked: Asked, *, user: str) -> JobRequest:
    """The job that stands for a TrainJob in line."""
    ref = ref_of(trainjob)
    trainer = trainjob["spec"].get("trainer") or {}
    words = [*(trainer.get("command") or ()), *(trainer.get("args") or ())]
    role = {
        "count": asked.nodes,
        "milli_gpu": asked.milli_gpu,
        "cpu_milli": asked.cpu_milli,
        "memory_mib": asked.memory_mib,
        # What pages show; nobody starts it, so no scheduler looks for the program where it is itself.
        "command": ["sh", "-c", (shlex.join(words) or f"# trainjob {ref.name}")[:_LONGEST_TEXT]],
    }
    document: dict[str, Any] = {
        "name": ref.name[:_LONGEST_NAME].strip("-"),
        "user": user,
        "team": asked.team,
        "pools": list(asked.pools),
        "roles": [role],
        "launcher": "plain",
        "hibernation": False,
        "labels": trainjobs.label_of(ref),
    }
    if asked.priority is not None:
        document["priority"] = asked.priority
    return JobRequest.model_validate(document)


class TrainJobs:
    """See :class:`gpucommons.scheduler.operator.cluster.Objects`."""

    def __init__(self, connection: Connection, namespaces: Iterable[str]) -> None:
        self._connection = connection
        self._namespaces = tuple(namespaces)

    def team_of(self, namespace: str) -> str | None:
        """None: a file of the admin's says it."""
        return None

    def jobs(self) -> list[dict[str, Any]]:
        """See the protocol."""
        with _as_of_objects():
            answers = [self._connection.get(trainjobs.path_of(one)) for one in self._namespaces]
        return [body for answer in answers for body in answer["items"]]

    def write_status(self, ref: ObjectRef, said: dict[str, Any]) -> None:
        """How its job stands, as annotations: its status is Trainer's."""
        notes = {_NOTES[key]: value for key, value in said.items() if key in _NOTES}
        if notes:
            with _as_of_objects():
                self.note(ref, notes)

    def is_there(self, ref: ObjectRef) -> bool:
        """Ask the API server whether it is still there, and not a newer one of its name."""
        try:
            found = self._connection.get(trainjobs.path_of(ref.namespace, ref.name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return bool(found["metadata"]["uid"] == ref.uid)

    def note(self, ref: ObjectRef, notes: dict[str, str | None]) -> None:
        """Write annotations; one that is gone needs none."""
        self.patch(ref, trainjobs.noting(notes))

    def patch(self, ref: ObjectRef, patch: dict[str, Any]) -> None:
        """Change it; one that is gone needs no change."""
        # The uid makes the server refuse a newer one of the same name.
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": ref.uid}}
        try:
            self._connection.merge_patch(trainjobs.path_of(ref.namespace, ref.name), body)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise


@contextmanager
def _as_of_objects() -> Iterator[None]:
    """Errors as the follower knows them: those about one TrainJob hold up no other."""
    try:
        yield
    except ApiError as error:
        if error.status == CONFLICT:
            return  # A newer one has its name by now.
        # Trainer's webhook says 403 of a TrainJob that may not be changed as it is.
        status = UNPROCESSABLE if error.status == _FORBIDDEN else error.status
        raise refusal(status, error.message) from error


class Intake:
    """Looks at every TrainJob, and does what is due."""

    def __init__(
        self,
        scheduler: AsyncSchedulerClient,
        watched: WatchedTrainJobs,
        objects: TrainJobs,
        live_objects: LiveObjects,
        settings: TrainerSettings,
    ) -> None:
        self._scheduler = scheduler
        self._watched = watched
        self._objects = objects
        self._live_objects = live_objects
        self._settings = settings
        self._odd = Troubles("handing in a TrainJob")
        #: The version of each in which nothing was due.
        self._done: dict[str, str] = {}
        #: What each was handed in for: the watch may not have seen yet what was noted of it.
        self._handed_in: dict[str, str] = {}

    async def look(self, *, anew: bool = False) -> None:
        """Once at each that changed, or at all; what is odd about one holds up no other."""
        if anew:
            # Its runtime may have changed, or a job may have ended that it waits for.
            self._done.clear()
        found = [
            one
            for one in self._watched.trainjobs()
            if one["metadata"]["namespace"] in self._settings.namespaces
        ]
        there = {one["metadata"]["uid"] for one in found}
        for uid in self._live_objects.by_uid.keys() - there:
            self._done.pop(uid, None)
            self._handed_in.pop(uid, None)
            await self._end_job_of(self._live_objects.by_uid.pop(uid))
        for trainjob in found:
            meta = trainjob["metadata"]
            if self._done.get(meta["uid"]) == meta["resourceVersion"]:
                continue
            try:
                await self._see(trainjob)
                self._done[meta["uid"]] = meta["resourceVersion"]
            except ApiError as error:
                if error.status != CONFLICT:  # It was changed meanwhile, and is seen again.
                    self._odd.note(error)
            except (SchedulerError, ValueError, LookupError, TypeError) as error:
                self._odd.note(error)

    async def _see(self, trainjob: Document) -> None:
        ref, notes = ref_of(trainjob), trainjobs.notes_of(trainjob)
        known = self._live_objects.by_uid.setdefault(ref.uid, Known(ref=ref, status={}))
        if trainjobs.finished(trainjob) is not None or not trainjobs.is_ours(trainjob):
            return
        if not known.status.get("jobId"):
            known.status["jobId"] = await self._own_job(trainjob, notes.get(trainjobs.JOB))
        try:
            asked = await asyncio.to_thread(self._asked, trainjob)
        except BadRequest as error:
            await self._refuse(known, trainjob, str(error))
            return
        is_new = not known.status["jobId"]
        if is_new and not trainjobs.is_suspended(trainjob):
            # Its overrides can be changed once its pods are gone.
            await self._patch(ref, trainjobs.suspending())
        elif is_new and not trainjobs.is_gated(trainjob, asked.target):
            await self._patch(ref, trainjobs.taking_charge(trainjob, asked.target))
        elif is_new or self._handed_in.get(ref.uid, notes.get(trainjobs.ASKED)) != asked.mark:
            await self._hand_in(known, trainjob, asked)

    async def _own_job(self, trainjob: Document, job_id: str | None) -> str | None:
        """The job that its annotation names; None where that was made of something else.

        Whoever may edit a TrainJob may write any job there, and we may cancel every job.
        """
        if not job_id:
            return None
        try:
            view = await self._scheduler.send(calls.job(job_id))
        except NotFound:
            # One whose history was cleaned up is over, and has left its TrainJob suspended.
            return job_id if trainjobs.is_suspended(trainjob) else None
        return job_id if made_of(view) == trainjob["metadata"]["uid"] else None

    def _asked(self, trainjob: Document) -> Asked:
        try:
            runtime = self._watched.runtime_of(trainjob)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            message = f"There is no runtime {trainjob['spec']['runtimeRef']['name']}: make it, or name one."
            raise BadRequest(message) from None
        return trainjobs.asked_for(trainjob, runtime, self._settings)

    async def _refuse(self, known: Known, trainjob: Document, text: str) -> None:
        """It waits suspended, with the sentence, until it is changed or deleted."""
        if not trainjobs.is_suspended(trainjob) and not known.status.get("jobId"):
            await self._patch(known.ref, trainjobs.suspending())
        if known.status.get("reason") != text:
            said = {"state": "refused", "reason": text}
            notes: dict[str, str | None] = {_NOTES[key]: value for key, value in said.items()}
            await asyncio.to_thread(self._objects.note, known.ref, notes)
            known.status |= said

    async def _hand_in(self, known: Known, trainjob: Document, asked: Asked) -> None:
        """Submit it; one that was edited while it waited gives its place up for its new size."""
        before = known.status.get("jobId") or ""
        if before and not await self._is_over(before):
            return
        ref = known.ref
        request = request_of(trainjob, asked, user=self._settings.namespaces[ref.namespace].user)
        try:
            view = await self._scheduler.send(
                calls.submit(request, key=f"{ref.uid}-{asked.mark}-{before}")
            )
        except SchedulerError as error:
            await self._refuse(known, trainjob, str(error))
            raise
        edited = f"It was edited: it waits as {view.name} now, at a new place." if before else None
        notes = {trainjobs.JOB: view.id, trainjobs.ASKED: asked.mark, trainjobs.EDITED: edited}
        await asyncio.to_thread(self._objects.note, ref, notes)
        known.status, self._handed_in[ref.uid] = {"jobId": view.id}, asked.mark

    async def _end_job_of(self, gone: Known) -> None:
        """Its TrainJob was deleted: whoever waits behind it is not to wait for the follower's next pass."""
        job_id, ref = gone.status.get("jobId"), gone.ref
        if not job_id:
            return
        try:
            # What was seen may lag; only the API server can say that it is gone.
            is_there = await asyncio.to_thread(self._objects.is_there, ref)
            view = await self._scheduler.send(calls.job(job_id))
            if not is_there and made_of(view) == ref.uid and view.state not in status.FINAL:
                _LOG.info("%s is cancelled: its TrainJob was deleted", view.name)
                await self._scheduler.send(calls.cancel(job_id))
        except (InvalidTransition, NotFound):
            return
        except (SchedulerError, ApiError) as error:
            self._odd.note(error)

    async def _is_over(self, job_id: str) -> bool:
        """Whether a job gave its place up; one that runs keeps it, and what it was admitted for."""
        try:
            view = await self._scheduler.send(calls.job(job_id))
            if view.state in status.FINAL:
                return True
            if view.state in _RUNS:
                return False
            view = await self._scheduler.send(calls.cancel(job_id))
        except (InvalidTransition, NotFound):
            return True
        return view.state in status.FINAL

    async def _patch(self, ref: ObjectRef, patch: dict[str, Any]) -> None:
        await asyncio.to_thread(self._objects.patch, ref, patch)
