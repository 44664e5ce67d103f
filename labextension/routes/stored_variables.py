"""Stored variables for the page: which there are, and loading them into a kernel, by a press."""

from __future__ import annotations

import asyncio

from jupyter_server.auth.decorator import authorized
from tornado import web

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.labextension.variables.folders import StoredVariables
from gpucommons.labextension.variables.inside import NotKept
from gpucommons.labextension.variables.loading import Loaded, load
from gpucommons.scheduler.errors import BadRequest, Conflict, NotFound, SchedulerError
from gpucommons.scheduler.models import Id, Model, View


class StoredList(View):
    """What earlier kernels of this user left, newest first."""

    stored: list[StoredVariables]


class LoadRequest(Model):
    """Into which kernel: the user's choice."""

    stored: Id
    kernel: Id


class LoadedView(View):
    """What became of it."""

    result: Loaded


class StoredVariablesHandler(ApiHandler):
    """For the server's owner only: loading runs code."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List them."""
        try:
            self.require_owner()
            found = await asyncio.to_thread(self.parts.stored.listed)
            now_ms = wall_clock_ms()
            self.answer(StoredList(stored=[one for one in found if one.until_ms > now_ms]))
        except SchedulerError as error:
            self.refuse(error)

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Load them."""
        try:
            self.require_owner()
            request = self.body_as(LoadRequest)
            self.answer(LoadedView(result=await self._load(request)))
        except SchedulerError as error:
            self.refuse(error)

    async def _load(self, request: LoadRequest) -> Loaded:
        if request.kernel not in self.kernel_manager:
            raise NotFound("There is no such kernel any more: open the notebook, and try again.")
        kernel = self.kernel_manager.get_kernel(request.kernel)
        spec = kernel.kernel_spec
        if spec is None or spec.language.lower() != "python":
            raise BadRequest("Variables of Python are loaded into a kernel of Python only.")
        try:
            now_ms = wall_clock_ms()
            return await load(self.parts.stored, request.stored, kernel, now_ms=now_ms)
        except NotKept as error:
            raise Conflict(str(error)) from error
