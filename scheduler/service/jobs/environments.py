"""What a job would run with, settled before it is stored; and what its script tells of itself."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import PurePosixPath

from gpucommons.scheduler import launchers, models
from gpucommons.scheduler.environments.base import Joining, Wanted
from gpucommons.scheduler.errors import SchedulerError
from gpucommons.scheduler.files.confined_files import ShortHeaders
from gpucommons.scheduler.intake.own_arguments import replaced_by
from gpucommons.scheduler.launchers.launcher import NOTEBOOK_RUNNER
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.scripts import frameworks, proposed_launcher
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs.budgets import budget_warning
from gpucommons.scheduler.service.service import Service

#: Reads the script of one request.
Reader = Callable[[], frameworks.Script]

#: Found in every environment, or put there.
_PYTHON = frozenset({"python", "python3"})
_ALWAYS = _PYTHON | {"sh"}
#: Variables that lead to packages elsewhere.
_PATHS = frozenset({"PYTHONPATH", "SPARK_HOME"})
#: Further into a snapshot its script is not looked for.
_MAX_READ_BYTES, _MAX_MEMBERS = 256 << 20, 10_000


def environments(service: Service, principal: Principal) -> models.EnvironmentList:
    """What the caller's jobs may run with."""
    authorization.jobs.environments(principal)
    found = service.environments.listed(principal.name)
    return models.EnvironmentList(
        kind=service.environments.kind,
        environments=[
            models.EnvironmentView(environment=one.path, name=one.name, python=one.python)
            for one in found
        ],
        default=service.environments.default(principal.name, principal.server_name),
        launchers=list(launchers.LAUNCHERS),
    )


def script_reader(service: Service, request: models.JobRequest) -> Reader:
    """Reads the request's script when it is first asked for, and never again while it is remembered."""
    return cache(lambda: _script(service, request))


def settled(
    service: Service,
    principal: Principal,
    request: models.JobRequest,
    read: Reader,
    *,
    is_stored: bool = False,
) -> tuple[str, ...]:
    """The environment that a job really gets, under each word that a rule may name it by.

    ``is_stored``: the request is that of a job that was settled before.
    """
    commands = [role.command for role in request.roles]
    script = frameworks.Script()
    if request.environment and service.environments.kind == "folder":
        script = read()
    wanted = Wanted(
        environment=request.environment,
        programs=tuple(
            dict.fromkeys(
                command[0]
                for command in commands
                if "/" not in command[0] and command[0] not in _ALWAYS
            )
        ),
        runs_notebook=any(NOTEBOOK_RUNNER in command for command in commands),
        uses_training=script.uses_ours,
        links=bool(request.links),
        server=_server(principal, request),
        is_stored=is_stored,
        joining=_joining(request, read),
    )
    found = service.environments.settle(request.user or principal.name, wanted)
    return service.environments.same_as(found)


def _server(principal: Principal, request: models.JobRequest) -> str | None:
    """The notebook that asks, where the job is its user's."""
    return principal.server_name if request.user in (None, principal.name) else None


_NO_PLAN = (
    "The plan that it names is not kept any more, so this job is not compared with one: ask for advice"
    " anew to have it compared."
)


def with_warnings(
    service: Service,
    principal: Principal,
    request: models.JobRequest,
    view: models.JobView,
    read: Reader,
) -> models.JobView:
    """What was submitted, with what likely goes wrong, and how its workers are joined."""
    chosen = None if view.request is None else view.request.environment
    found = proposal(request, read)
    warned = warnings(service, principal, request, chosen, read)
    if request.plan is not None and view.request is not None and view.request.plan is None:
        warned = [*warned, _NO_PLAN]
    plan = None if request.plan is None else service.store.plans.offered(request.plan)
    if plan is not None and (said := replaced_by(plan, tuple(request.roles[0].command))):
        warned = [*warned, said]
    if (spent := budget_warning(service.loop.cluster, view.team)) is not None:
        warned = [spent, *warned]
    return view.model_copy(
        update={
            "warnings": warned,
            "launcher_text": "" if found is None else f"{found.launcher}, as {found.why}",
        }
    )


def warnings(
    service: Service,
    principal: Principal,
    request: models.JobRequest,
    chosen: str | None,
    read: Reader,
) -> list[str]:
    """What likely goes wrong, given the environment that was chosen for it; None = not known."""
    wanted = Wanted(
        environment=request.environment,
        server=_server(principal, request),
        joining=_joining(request, read),
    )
    remarks = [] if chosen is None else service.environments.remarks(wanted, chosen)
    return [*remarks, *_of_workers(request, read)]


def of_workers(service: Service, view: models.JobView) -> list[str]:
    """What likely goes wrong with several workers of a job that was submitted, for whoever may see its files."""
    request = view.request
    if request is None or request.snapshot is None or request.roles[0].count <= 1:
        return []
    return _of_workers(request, script_reader(service, request))


def _of_workers(request: models.JobRequest, read: Reader) -> list[str]:
    """What likely goes wrong with several workers."""
    role = request.roles[0]
    name = frameworks.script_in(role.command)
    if role.count <= 1 or name is None:
        return []
    launcher: str = request.launcher
    if launcher == launchers.AUTO:
        launcher = proposed_launcher.of_script(name, read()).launcher
    return frameworks.warnings(name, read(), workers=role.count, launcher=launcher)


def _joining(request: models.JobRequest, read: Reader) -> Joining | None:
    """What its launcher must find where its Python is the environment's own."""
    name = launcher_of(request, read) if request.launcher == launchers.AUTO else request.launcher
    found = launchers.LAUNCHERS.get(name)
    is_elsewhere = request.roles[0].command[0] not in _PYTHON or not _PATHS.isdisjoint(request.env)
    if found is None or is_elsewhere or not (found.module or found.program):
        return None
    return Joining(launcher=name, module=found.module, program=found.program)


def launcher_of(request: models.JobRequest, read: Reader) -> str:
    """What a job gets that names no launcher."""
    found = proposal(request, read)
    return launchers.PLAIN if found is None else found.launcher


def proposal(request: models.JobRequest, read: Reader) -> proposed_launcher.Proposal | None:
    """The launcher that is proposed, and why; None where one was chosen, and where none is needed."""
    if request.launcher != launchers.AUTO or sum(role.count for role in request.roles) <= 1:
        return None
    role = request.roles[0]
    if (told := proposed_launcher.of_command(role.command)) is not None:
        return told
    name = frameworks.script_in(role.command)
    return None if name is None else proposed_launcher.of_script(name, read())


def _script(service: Service, request: models.JobRequest) -> frameworks.Script:
    name = frameworks.script_in(request.roles[0].command)
    if name is None or request.snapshot is None:
        return frameworks.Script()
    snapshot, wanted = request.snapshot, str(PurePosixPath(request.working_dir, name))
    try:
        return service.read_scripts.of(
            snapshot, wanted, lambda: _read(service.snapshots.chunks(snapshot), wanted)
        )
    except (SchedulerError, OSError):
        # Not remembered: these files may come, or the disk answer again.
        return frameworks.Script()


def _read(chunks: Iterator[bytes], name: str) -> frameworks.Script:
    try:
        return frameworks.read_script(name, _member(chunks, name))
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        # Anybody may have made that archive: Python raises a bare ValueError for some of its headers.
        return frameworks.Script()


def _member(chunks: Iterator[bytes], name: str) -> bytes:
    """One file of a tar; b"" where it is not there."""
    stream = io.BufferedReader(_Stream(chunks))
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=ShortHeaders) as archive:
        for member in islice(archive, _MAX_MEMBERS):
            if member.name == name and member.isreg():
                file = archive.extractfile(member)
                return b"" if file is None else file.read(frameworks.MAX_BYTES + 1)
    return b""


class _Stream(io.RawIOBase):
    """Chunks as a file, cut off where they are too many."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self._left = _MAX_READ_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # any buffer of bytes
        if not self._rest:
            self._rest = next(self._chunks, b"") if self._left > 0 else b""
            self._left -= len(self._rest)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
