"""The route by which *Train* starts a sweep."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from pydantic import Field, ValidationError
from tornado import web

from gpucommons.labextension.requests import sentence_of
from gpucommons.labextension.routes.files import FileHandler, FileOrJob
from gpucommons.scheduler.client import sweep_calls
from gpucommons.scheduler.errors import BadRequest, SchedulerError
from gpucommons.scheduler.models import SweepRequest, SweepView


class Sweeping(FileOrJob):
    """A file, or a job that was asked for before, and what is searched."""

    #: A sweep's fields beside its job.
    sweep: dict[str, Any] = Field(max_length=16)


class SweepHandler(FileHandler):
    """``POST gpucommons/sweep``."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Pack, upload, submit: the server's owner only."""
        try:
            self.require_owner()
            view = await self._submit(self.body_as(Sweeping), self.scheduler())
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)

    async def _submit(self, asked: Sweeping, scheduler: Any) -> SweepView:
        # What is no search is said before a file is packed.
        stand_in = {"name": "sweep", "roles": [{"command": ["true"]}]}
        _request(asked.sweep, asked.job or stand_in)
        job = await self.job_of(asked, scheduler)
        request = _request(asked.sweep, job)
        view: SweepView = await scheduler.send(
            sweep_calls.submit_sweep(request, key=self.idempotency_key())
        )
        return view


def _request(fields: dict[str, Any], job: object) -> SweepRequest:
    if "job" in fields or "given" in fields:
        raise BadRequest("sweep: leave job and given out; a sweep of the form has a search space.")
    try:
        return SweepRequest.model_validate({**fields, "job": job})
    except ValidationError as error:
        raise BadRequest(sentence_of(error)) from None
