"""Turn this notebook into a job: what would be taken along, and the submission itself.

The file's folder becomes a snapshot together with a list of the environment's packages; from then
on the job has its own copy, and editing or stopping the notebook changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
from gpucommons.scheduler.environments.reading import (
    Environment,
    packages_in,
    read_environment,
)
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.launchers import LAUNCHERS, PLAIN
from gpucommons.scheduler.models import JobRequest, JobView, Model, View
from gpucommons.scheduler.scripts import frameworks, parameters, proposed_launcher

#: Fields that the snapshot decides.
_OURS = ("snapshot", "results_to", "links", "links_from")


class Submission(Model):
    """A file, and how it is to run: a job's request without command and snapshot."""

    path: str = Field(min_length=1, max_length=1024)
    request: dict[str, Any] = Field(default_factory=dict)
    function: str | None = Field(default=None, max_length=100)
    #: As one writes them after the script's name; split like a shell does, run by none. Of a notebook
    #: they are its parameters: ``alpha=0.1 epochs=5``.
    arguments: str = Field(default="", max_length=4096)
    #: A notebook's, by name, beside those.
    parameters: dict[str, Any] = Field(default_factory=dict)
    #: Of a script: run as ``python -m`` with this name, from the folder that has it.
    module: str = Field(default="", max_length=200, pattern=r"^([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?$")
    #: What becomes of large files that stay behind: they are linked from the home, or the job goes
    #: without. Must be said where there are such.
    left_out: Literal["link", "without"] | None = None


class FileView(View):
    """A file that comes along."""

    path: str
    size_bytes: int


class ExcludedView(FileView):
    """A file that stays behind."""

    reason: str
    #: The job may need it, and can have a link to where it lies.
    linkable: bool

    @classmethod
    def of(cls, file: snapshot.ExcludedFile) -> ExcludedView:
        """As a page shows it."""
        return cls(
            path=file.path,
            size_bytes=file.size_bytes,
            reason=file.reason,
            linkable=file.linkable,
        )


class PackageView(View):
    """A package that the job's environment lacks or has in another version."""

    name: str
    here: str | None
    job: str | None


class AdviceView(View):
    """What goes wrong with several workers, unless one of these launchers starts them."""

    text: str
    launchers: list[str]


class ProposalView(View):
    """How several workers are joined where nothing else is chosen."""

    launcher: str
    why: str


class Preview(View):
    """What the snapshot would hold, and what was read of the file."""

    path: str
    #: What goes along, below the server's own folder.
    folder: str
    files: list[FileView]
    size_bytes: int
    excluded: list[ExcludedView]
    packages: list[PackageView]
    #: Of the notebook's kernel, or this server's own: what the job runs with by default. "" where
    #: the place of jobs has images instead.
    environment: str = ""
    environment_name: str = ""
    #: Names that the notebook's cell tagged parameters sets; None for other files.
    parameters: list[str] | None = None
    advice: list[AdviceView]
    proposal: ProposalView
    #: Folder below the home that results come back to; None = they stay with the job.
    results_to: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wish:
    """What is to be packed."""

    job: FileJob
    options: dict[str, Any]
    role: dict[str, Any]

    def pack(self) -> tuple[JobRequest, snapshot.Packed]:
        try:
            return request_for_file(
                self.job, self.options, self.role, max_bytes=snapshot.MAX_SNAPSHOT_BYTES
            )
        except ValidationError as error:
            raise BadRequest(sentence_of(error)) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Desk:
    """Takes files of one server's root folder."""

    root: Path
    #: Results come back below here.
    home: Path
    #: Spec of a kernel by name, as the server knows it.
    kernel_spec: Callable[[str], Awaitable[Any]]
    #: What the page that started this server calls its environment; "" = not known.
    environment_name: str = ""

    async def preview(self, path: str, environment: str = "", module: str = "") -> Preview:
        """List what would be taken along; packages are compared with those of ``environment``.

        With a module it is the folder that has it.

        Raises
        ------
        BadRequest, NotFound
            When the path is outside the root, missing, or of a kind that cannot run.
        """
        file = await asyncio.to_thread(self.locate, path)
        command_for(FileJob(root=file.parent, path=file.name))
        kernel = await self._kernel(file)
        return await asyncio.to_thread(self._preview, path, kernel, environment, module.strip())

    def _name_of(self, own: Environment) -> str:
        """One environment has one name, on the page that starts a server and here."""
        is_servers = own.path == os.path.realpath(sys.prefix)
        return (is_servers and self.environment_name) or own.text()

    def _folder(self, file: Path, module: str) -> Path:
        """What goes along: the file's folder, or the nearest one above it that has the module."""
        first, root = module.partition(".")[0], self.root.resolve()
        for above in file.parents if first else ():
            has_it = (above / first).is_dir() or (above / f"{first}.py").is_file()
            if has_it and above.is_relative_to(root):
                return above
        # One that is installed runs from where the file lies.
        return file.parent

    def _preview(self, path: str, kernel: str | None, environment: str, module: str) -> Preview:
        file = self.locate(path)
        folder = self._folder(file, module)
        listing = snapshot.preview(folder)
        with file.open("rb") as opened:
            content = opened.read(frameworks.MAX_BYTES + 1)
        script = frameworks.read_script(file.name, content)
        proposed = proposed_launcher.of_script(file.name, script)
        known = parameters.known_parameters(content) if file.suffix == ".ipynb" else None
        own = read_environment(kernel or sys.prefix)
        return Preview(
            path=path,
            folder=below(self.root.resolve(), folder),
            files=[FileView(path=f.path, size_bytes=f.size_bytes) for f in listing.files],
            size_bytes=listing.size_bytes,
            excluded=[ExcludedView.of(each) for each in listing.excluded],
            packages=_differences(kernel, environment),
            environment=own.path,
            environment_name=self._name_of(own),
            parameters=None if known is None else list(known),
            advice=_advice(file.name, script),
            proposal=ProposalView(launcher=proposed.launcher, why=proposed.why),
            results_to=results_below(self.home, folder),
        )

    async def submit(self, submission: Submission, scheduler: Any, *, key: str) -> JobView:
        """Pack, upload, submit.

        Raises
        ------
        SchedulerError
            With what is wrong, nothing submitted.
        """
        request = await self.pack(submission, scheduler)
        view: JobView = await scheduler.send(calls.submit(request, key=key))
        return view

    async def pack(self, submission: Submission, scheduler: Any) -> JobRequest:
        """Pack and upload; the job that it would be.

        Raises
        ------
        SchedulerError
            With what is wrong, nothing submitted.
        """
        file = await asyncio.to_thread(self.locate, submission.path)
        wish = await asyncio.to_thread(self._wish, file, submission)
        if not wish.options.get("environment"):
            wish.options["environment"] = await self._default_environment(file, scheduler)
        request, packed = await asyncio.to_thread(wish.pack)
        # A quote first would race; a refused submit leaves only content nobody refers to.
        await scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
        return request

    def locate(self, path: str, *, suffixes: Sequence[str] = SUFFIXES) -> Path:
        """The file below the root, with every link followed; without ``suffixes`` of any kind.

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
        if not file.is_file() or (suffixes and file.suffix not in suffixes):
            wrong = "is of another kind" if file.is_file() else "is not a file"
            kind = f" that ends in {', '.join(suffixes)}" if suffixes else ""
            message = f"{path!r} {wrong}; choose one{kind}."
            raise BadRequest(message)
        return file

    async def _default_environment(self, file: Path, scheduler: Any) -> str:
        """The notebook's kernel, where jobs run on this machine; a script has the default."""
        kernel = await self._kernel(file)
        if kernel is None or (await scheduler.send(calls.whoami())).environments != "folder":
            return ""
        return kernel

    def _wish(self, file: Path, submission: Submission) -> _Wish:
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
        module, is_notebook = submission.module, file.suffix == ".ipynb"
        if module and file.suffix != ".py":
            message = f"{file.name} runs as it is: leave module out, or choose a script of Python."
            raise BadRequest(message)
        folder = self._folder(file, module)
        results_to = results_below(self.home, folder)
        if results_to is not None:
            options["results_to"] = results_to
        words = _split(submission.arguments)
        if submission.left_out is None:
            _ask_about(folder)
        job = FileJob(
            root=folder,
            path="" if module else file.name,
            module=module or None,
            function=function,
            arguments=() if is_notebook else words,
            parameters={**(_parameters(words) if is_notebook else {}), **submission.parameters},
            links_left_out=submission.left_out == "link",
        )
        return _Wish(job=job, options=options, role=roles[0])

    async def _kernel(self, file: Path) -> str | None:
        """The environment of the notebook's kernel; None where it is none, or there is no such kernel.

        A script runs with this server's own Python.
        """
        if file.suffix != ".ipynb":
            return None
        name = packages.kernel_name_of(file)
        try:
            spec = await self.kernel_spec(name or "python3")
        except NoSuchKernel:
            return None
        return await asyncio.to_thread(packages.environment_of, list(spec.argv))


def below(root: Path, folder: Path) -> str:
    """What JupyterLab calls a folder below its own, which is "" itself."""
    named = folder.relative_to(root).as_posix()
    return "" if named == "." else named


def _differences(kernel: str | None, environment: str) -> list[PackageView]:
    if kernel is None or environment in ("", kernel):
        return []
    found = packages.differences(packages_in(kernel), packages_in(environment))
    return [PackageView(name=d.name, here=d.here, job=d.job) for d in found]


def _advice(name: str, script: frameworks.Script) -> list[AdviceView]:
    alone = frameworks.each_alone(name, script)
    joined = [one for one in LAUNCHERS if one != PLAIN]
    return [
        AdviceView(text=frameworks.sentence(name, start), launchers=list(start.framework.launchers))
        for start in script.starts
    ] + ([] if alone is None else [AdviceView(text=alone, launchers=joined)])


def _ask_about(folder: Path) -> None:
    left = [file.path for file in snapshot.preview(folder).excluded if file.linkable]
    if left:
        message = (
            f"{', '.join(left[:3])}{' …' if left[3:] else ''} would stay behind: say left_out: link to"
            " link it from your home, or left_out: without to go without it."
        )
        raise BadRequest(message)


def _parameters(words: tuple[str, ...]) -> dict[str, Any]:
    """Of a notebook: ``alpha=0.1 epochs=5``."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            message = f"{word!r} is no parameter: write NAME=VALUE, as in epochs=5."
            raise BadRequest(message)
        found[name] = parameters.parse_value(text)
    return found


def _split(arguments: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(arguments))
    except ValueError as error:
        message = f"The arguments cannot be read ({error}): close every quotation mark."
        raise BadRequest(message) from None
