"""*No thanks* to the offer to make a notebook a job."""

from __future__ import annotations

from typing import Annotated, Any

from jupyter_server.auth.decorator import authorized
from pydantic import StringConstraints
from tornado import web

from gpucommons.labextension.routes.files import FileHandler
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import Model


class NoOfferRequest(Model):
    """A notebook that shall not be offered again."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class NoJobOfferHandler(FileHandler):
    """``POST gpucommons/no-job-offer``: the server's owner only."""

    @web.authenticated
    @authorized
    async def post(self, *_: Any) -> None:
        """Remember it."""
        try:
            self.require_owner()
            request = self.body_as(NoOfferRequest)
            if self.parts.offering is not None:
                await self.parts.offering.refuse(request.path)
        except SchedulerError as error:
            self.refuse(error)
            return
        self.set_status(204)
        self.finish()
