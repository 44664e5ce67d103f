"""Turn this notebook into a job: what would be taken along, and the submission itself.

The file's folder becomes a snapshot together with a lock file of the kernel's packages; from then
on the job has its own copy, and editing or stopping the notebook changes nothing.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import NoSuchKernel
from pydantic import Field, ValidationError

from gpucommons.labextension import packages
from gpucommons.labextension.requests import sentence_of
from gpucommons.scheduler.client import calls, snapshot
from gpucommons.scheduler.client.submission import (
    SUFFIXES,
    FileJob,
    command_for,
    request_for_file,
    results_below,
)
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models import JobRequest, JobView, Model, View

#: Fields that the snapshot decides.
_OURS = ("snapshot", "results_to")


class Submission(Model):
    """A file, and how it is to run: a job's request without command and snapshot."""

    path: str = Field(min_length=1, max_length=1024)
    request: dict[str, Any] = Field(default_factory=dict)
    function: str | None = Field(default=None, max_length=100)
    #: As one writes them after the script's name; split like a shell does, run by none.
    arguments: str = Field(default="", max_length=4096)


class FileView(View):
    """A file that comes along."""

    path: str
    size_bytes: int


class ExcludedView(FileView):
    """A file that stays behind."""

    reason: str


class PackageView(View):
    """A package that the job's environment lacks or has in another version."""

    name: str
    here: str | None
    job: str | None


class Preview(View):
    """What the snapshot would hold."""

    path: str
    files: list[FileView]
    size_bytes: int
    excluded: list[ExcludedView]
    packages: list[PackageView]


@dataclass(frozen=True, kw_only=True, slots=True)
class Desk:
    """Takes files of one server's root folder."""

    root: Path
    #: Results come back below here.
    home: Path
    #: Spec of a kernel by name, as the server knows it.
    kernel_spec: Callable[[str], Awaitable[Any]]

    async def preview(self, path: str) -> Preview:
        """List what would be taken along.

        Raises
        ------
        BadRequest, NotFound
            When the path is outside the root, missing, or of a kind that cannot run.
        """
        file = await asyncio.to_thread(self.locate, path)
        command_for(FileJob(root=file.parent, path=file.name))
        listing = await asyncio.to_thread(snapshot.preview, file.parent)
        here = await self._packages(file)
        job = await asyncio.to_thread(packages.own_packages)
        unlike = packages.differences(here, job) if here is not None else []
        return Preview(
            path=path,
            files=[FileView(path=f.path, size_bytes=f.size_bytes) for f in listing.files],
            size_bytes=listing.size_bytes,
            excluded=[
                ExcludedView(path=e.path, size_bytes=e.size_bytes, reason=e.reason)
                for e in listing.excluded
            ],
            packages=[PackageView(name=d.name, here=d.here, job=d.job) for d in unlike],
        )

    async def submit(self, submission: Submission, scheduler: Any, *, key: str) -> JobView:
        """Pack, upload, submit.

        Raises
        ------
        SchedulerError
            With what is wrong, nothing submitted.
        """
        file = await asyncio.to_thread(self.locate, submission.path)
        here = await self._packages(file)
        lock = {packages.LOCK_FILE: packages.lock_file(here)} if here is not None else {}
        request, packed = await asyncio.to_thread(self._request, file, submission, lock)
        # A quote first would race; a refused submit leaves only content nobody refers to.
        await scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
        view: JobView = await scheduler.send(calls.submit(request, key=key))
        return view

    def locate(self, path: str) -> Path:
        """The file below the root, with every link followed.

        Raises
        ------
        BadRequest, NotFound
            See :meth:`preview`.
        """
        root = self.root.resolve()
        try:
            file = (root / path.lstrip("/")).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            message = f"There is no file {path!r} below this server's folder. Save it first?"
            raise NotFound(message) from None
        if not file.is_relative_to(root):
            message = f"{path!r} leads out of this server's folder. Choose a file inside it."
            raise BadRequest(message)
        if not file.is_file():
            message = f"{path!r} is not a file; choose one that ends in {', '.join(SUFFIXES)}."
            raise BadRequest(message)
        return file

    def _request(
        self, file: Path, submission: Submission, lock: dict[str, bytes]
    ) -> tuple[JobRequest, snapshot.Packed]:
        options = dict(submission.request)
        roles = options.pop("roles", [{}])
        if not isinstance(roles, list) or len(roles) != 1 or not isinstance(roles[0], dict):
            raise BadRequest("A file runs in one role: send roles with exactly one entry.")
        taken = [name for name in (*_OURS, "command") if name in options or name in roles[0]]
        if taken:
            message = f"{taken[0]} is decided by the file: leave it out."
            raise BadRequest(message)
        function = submission.function or None
        if function is not None and (file.suffix != ".ipynb" or not function.isidentifier()):
            message = f"{function!r} is not a function of a notebook."
            raise BadRequest(message)
        results_to = results_below(self.home, file.parent)
        if results_to is not None:
            options["results_to"] = results_to
        job = FileJob(
            root=file.parent,
            path=file.name,
            function=function,
            arguments=_split(submission.arguments),
        )
        try:
            return request_for_file(
                job, options, roles[0], max_bytes=snapshot.MAX_SNAPSHOT_BYTES, extra=lock
            )
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None

    async def _packages(self, file: Path) -> dict[str, str] | None:
        name = packages.kernel_name_of(file) if file.suffix == ".ipynb" else None
        try:
            spec = await self.kernel_spec(name or "python3")
        except NoSuchKernel:
            return None
        interpreter = packages.interpreter_of(list(spec.argv))
        return await packages.packages_of(interpreter) if interpreter is not None else None


def _split(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        message = f"The arguments cannot be read ({error}): close every quotation mark."
        raise BadRequest(message) from None
