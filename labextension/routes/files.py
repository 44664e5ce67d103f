"""Routes of "Turn this notebook into a job"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from gpucommons.labextension.routes.handlers import ApiHandler
from gpucommons.labextension.submission import Desk, Submission
from gpucommons.scheduler.errors import BadRequest, SchedulerError


class FileHandler(ApiHandler):
    """Knows the folder and the kernels of this server."""

    def desk(self) -> Desk:
        """What takes files."""
        root = getattr(self.contents_manager, "root_dir", "")
        if not root:
            raise BadRequest(
                "This server keeps its files elsewhere than in a folder: submit with the command"
                " line or the widget instead."
            )

        async def kernel_spec(name: str) -> Any:
            return await ensure_async(self.kernel_spec_manager.get_kernel_spec(name))

        return Desk(root=Path(root), home=Path.home(), kernel_spec=kernel_spec)


class FilesHandler(FileHandler):
    """``GET gpucommons/files?path=train.ipynb``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """What would be taken along."""
        try:
            path = self.get_query_argument("path", "")
            environment = self.get_query_argument("environment", "")
            self.answer(await self.desk().preview(path, environment))
        except SchedulerError as error:
            self.refuse(error)


class SubmitFileHandler(FileHandler):
    """``POST gpucommons/submit-file``."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Pack, upload, submit: the server's owner only."""
        try:
            self.require_owner()
            submission = self.body_as(Submission)
            view = await self.desk().submit(
                submission, self.scheduler(), key=self.idempotency_key()
            )
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)
            await self.show_soon()
