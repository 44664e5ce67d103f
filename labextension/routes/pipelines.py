"""The route that shows a file of steps, and runs it: as the command line does, below this server's folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_server.auth.decorator import authorized
from pydantic import Field
from tornado import web

from gpucommons.labextension.routes.files import FileHandler
from gpucommons.labextension.submission import ExcludedView, below
from gpucommons.scheduler.client import calls, pipeline_calls
from gpucommons.scheduler.client.documents.jobs import Bounds
from gpucommons.scheduler.client.documents.pipelines import (
    Folder,
    ReadPipeline,
    read_pipeline,
    steps_in_order,
)
from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES, Packing, list_only, pack
from gpucommons.scheduler.client.submission import LOCK_FILE
from gpucommons.scheduler.errors import Conflict, SchedulerError
from gpucommons.scheduler.models import (
    InputRequest,
    JobRequest,
    Model,
    Name,
    PipelineView,
    StepRequest,
    View,
)
from gpucommons.scheduler.models.text.job_summary import all_that_runs

_SUFFIXES = (".yaml", ".yml")
#: Fields of a job, and of a role, that have a place of their own; the name is that of what runs.
_SHOWN = {"name", "roles", "snapshot", "environment", "secrets", "env", "links", "links_from"}
_SHOWN |= {"results_to"}
_SHOWN_OF_ROLE = {"name", "count", "milli_gpu", "command"}


class PipelineFile(Model):
    """A file of steps, and who pays where it names nobody."""

    path: str = Field(min_length=1, max_length=1024)
    team: Name | None = None
    #: Of :class:`PipelinePreview`: nothing else runs than what was shown.
    seen: str | None = Field(default=None, max_length=64)


class StepPreview(View):
    """A step of the file."""

    name: str
    #: Size and command of each of its roles, whole: whoever looks agrees to them.
    runs: list[str]
    #: How many combinations of values it runs with.
    copies: int
    after: dict[str, str]
    #: What it reads of other steps: ``clean/data.csv``.
    inputs: list[str]
    #: Name, path or image; "" is the default.
    environment: str
    #: ``HF_TOKEN=hugging-face``: the variable, and the secret that it is told.
    secrets: list[str]
    #: ``EPOCHS=5``.
    variables: list[str]
    #: Below the owner's home.
    links: list[str]
    results_to: str | None
    #: All else that the file says of it: ``pools=a100, h100``.
    others: list[str]


class FolderPreview(View):
    """A folder that goes along with steps."""

    #: Below the server's own folder.
    folder: str
    files: int
    size_bytes: int
    excluded: list[ExcludedView]
    #: What can be linked from the home is linked.
    linked: bool


class PipelinePreview(View):
    """What would run."""

    path: str
    name: str
    team: str | None
    #: Each behind those that it needs.
    steps: list[StepPreview]
    folders: list[FolderPreview]
    #: Hash of all of it, with the files of the folders as they are now.
    seen: str


class PipelineHandler(FileHandler):
    """``GET`` and ``POST gpucommons/pipeline``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The steps of a file, and what would go along."""
        try:
            asked = PipelineFile.model_construct(path=self.get_query_argument("path", ""))
            root, read = await self._read(asked, list_only)
            self.answer(_preview(asked.path, root, read))
        except SchedulerError as error:
            self.refuse(error)

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Pack, upload, submit: the server's owner only."""
        try:
            self.require_owner()
            view = await self._run(self.body_as(PipelineFile), self.scheduler())
        except SchedulerError as error:
            self.refuse(error)
        else:
            self.answer(view)

    async def _run(self, asked: PipelineFile, scheduler: Any) -> PipelineView:
        _, read = await self._read(asked, pack)
        if asked.seen not in (None, _seen(read)):
            message = (
                "The file, or what goes along with it, has changed since its steps were shown. Look"
                " again."
            )
            raise Conflict(message)
        for sha256, folder in read.folders.items():
            await scheduler.send(calls.put_snapshot(sha256, folder.packed.content))
        view: PipelineView = await scheduler.send(
            pipeline_calls.submit_pipeline(read.request, key=self.idempotency_key())
        )
        return view

    async def _read(self, asked: PipelineFile, packing: Packing) -> tuple[Path, ReadPipeline]:
        desk = self.desk()
        root = desk.root.resolve()
        file = await asyncio.to_thread(desk.locate, asked.path, suffixes=_SUFFIXES)
        bounds = Bounds(
            max_bytes=MAX_SNAPSHOT_BYTES,
            within=root,
            most_bytes=MAX_SNAPSHOT_BYTES,
            packing=packing,
        )
        with _named_below(root):
            read = await asyncio.to_thread(read_pipeline, file, team=asked.team, bounds=bounds)
            steps_in_order(read.request)  # said before anything is uploaded
            return root, read


@contextmanager
def _named_below(root: Path) -> Iterator[None]:
    """Files are called in sentences as JupyterLab calls them."""
    try:
        yield
    except SchedulerError as error:
        raise type(error)(str(error).replace(f"{root}/", "")) from None


def _preview(path: str, root: Path, read: ReadPipeline) -> PipelinePreview:
    return PipelinePreview(
        path=path,
        name=read.request.name,
        team=read.request.team,
        steps=[_step(each, read) for each in steps_in_order(read.request)],
        folders=[_folder(root, each) for each in read.folders.values()],
        seen=_seen(read),
    )


def _seen(read: ReadPipeline) -> str:
    """What would run, whoever pays: a step names its folder by the hash of its listing."""
    said = read.request.model_dump_json(exclude={"team"})
    for sha256, folder in read.folders.items():
        said = said.replace(sha256, folder.packed.listed_sha256)
    return hashlib.sha256(said.encode()).hexdigest()


def _step(step: StepRequest, read: ReadPipeline) -> StepPreview:
    job = step.job
    return StepPreview(
        name=step.name,
        runs=all_that_runs(job),
        copies=step.combinations,
        after=dict(step.after),
        inputs=[_input(each) for each in step.inputs],
        environment=job.environment,
        secrets=[f"{name}={secret}" for name, secret in job.secrets.items()],
        variables=[
            *(f"{name}={value}" for name, value in job.env.items()),
            *(f"{name}={' or '.join(values)}" for name, values in step.each.items()),
        ],
        links=[str(PurePosixPath(job.links_from or "", each)) for each in job.links],
        results_to=job.results_to,
        others=list(_others(job, read)),
    )


def _input(each: InputRequest) -> str:
    place = f"{each.step}/{each.path}".removesuffix("/.")
    return place if each.to is None else f"{place} as {each.to}"


def _others(job: JobRequest, read: ReadPipeline) -> Iterator[str]:
    """What a step says beside that: whoever looks agrees to it, too."""
    said = job.model_dump(mode="json", exclude_defaults=True, exclude=_SHOWN)
    if job.snapshot is not None and job.snapshot not in read.folders:
        said["snapshot"] = job.snapshot
    for number, role in enumerate(job.roles):
        fields = role.model_dump(mode="json", exclude_defaults=True, exclude=_SHOWN_OF_ROLE)
        said |= {f"roles.{number}.{name}": value for name, value in fields.items()}
    for name, value in said.items():
        yield f"{name}={', '.join(map(str, value)) if isinstance(value, list) else value}"


def _folder(root: Path, folder: Folder) -> FolderPreview:
    files = [file for file in folder.packed.files if file.path != LOCK_FILE]
    return FolderPreview(
        folder=below(root, folder.first.root),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        excluded=[ExcludedView.of(one) for one in folder.packed.excluded if not one.is_result],
        linked=bool(folder.request.links),
    )
