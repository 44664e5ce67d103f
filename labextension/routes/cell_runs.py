"""Outputs of cells for pages that were not there when they came."""

from __future__ import annotations

from typing import Annotated

from jupyter_server.auth.decorator import authorized
from pydantic import Field, StringConstraints
from tornado import web

from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.models import Model, View

#: Of a message; pages and kernels make their own.
MessageId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class CellRunList(View):
    """Those of one notebook."""

    runs: list[CellRun]


class ForgetRequest(Model):
    """Runs whose outputs a page has saved."""

    runs: list[MessageId] = Field(max_length=1000)


class CellRunsHandler(ApiHandler):
    """``gpucommons/cell-runs``: for the server's owner, whose cells they are."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """What a page of this notebook may have to show."""
        try:
            self.require_owner()
        except SchedulerError as error:
            self.refuse(error)
            return
        outputs = self.parts.outputs
        kernel, path = self.get_argument("kernel", ""), self.get_argument("path", "")
        runs = []
        if outputs is not None:
            await outputs.caught_up(kernel, path)
            runs = outputs.of(kernel, path)
        self.answer(CellRunList(runs=runs))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """They are in the notebook's file."""
        try:
            self.require_owner()
            request = self.body_as(ForgetRequest)
        except SchedulerError as error:
            self.refuse(error)
            return
        if self.parts.outputs is not None:
            self.parts.outputs.runs.forget(request.runs)
        self.set_status(204)
        self.finish()
