"""Route of the files that a job made elsewhere: fetched again, or to another folder."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from pydantic import Field
from tornado import web

from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import Model, Ref


class FetchRequest(Model):
    """Fetch a job's results again, or to another folder below the home folder."""

    job: Ref
    folder: str | None = Field(default=None, max_length=512)


class FetchResultsHandler(ApiHandler):
    """``POST gpucommons/fetch-results``."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Fetch into this server's files: its owner only."""
        try:
            self.require_owner()
            request = self.body_as(FetchRequest)
            job = await self.scheduler().send(calls.job(request.job))
            found = await self.parts.results.fetch(job, request.folder)
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(found)
