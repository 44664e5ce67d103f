"""Closing what is said of a kernel whose variables were lost."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.scheduler.errors import SchedulerError


class LostKernelHandler(ApiHandler):
    """``DELETE gpucommons/lost-kernels/KERNEL``."""

    @web.authenticated
    @authorized
    async def delete(self, kernel_id: str) -> None:
        """It was read: no page says it any more. The server's owner only."""
        try:
            self.require_owner()
        except SchedulerError as error:
            self.refuse(error)
            return
        if self.parts.hibernation is not None:
            self.parts.hibernation.keeper.losses.close(kernel_id)
        self.set_status(204)
        self.finish()
