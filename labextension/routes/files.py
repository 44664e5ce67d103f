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
from gpucommons.scheduler.models import JobRequest, Model


class FileOrJob(Model):
    """What is to run: a file, or a job that was asked for before."""

    file: Submission | None = None
    job: JobRequest | None = None


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

        return Desk(
            root=Path(root),
            home=Path.home(),
            kernel_spec=kernel_spec,
            environment_name=self.parts.context.environment_name,
        )

    async def job_of(self, asked: FileOrJob, scheduler: Any) -> JobRequest:
        """The job that runs it; a file is packed and uploaded."""
        if asked.file is not None:
            return await self.desk().pack(asked.file, scheduler)
        if asked.job is not None:
            return asked.job
        raise BadRequest("Say what is to run: file or job.")


class FilesHandler(FileHandler):
    """``GET gpucommons/files?path=train.ipynb``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """What would be taken along."""
        try:
            path = self.get_query_argument("path", "")
            environment = self.get_query_argument("environment", "")
            module = self.get_query_argument("module", "")
            self.answer(await self.desk().preview(path, environment, module))
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
