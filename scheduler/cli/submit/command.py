"""``gpucommons submit``: a script, a notebook or a YAML file becomes a job."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.jobs.logs import follow
from gpucommons.scheduler.cli.present import say, show
from gpucommons.scheduler.cli.profiles import commands as profiles
from gpucommons.scheduler.cli.schedules import commands as schedules
from gpucommons.scheduler.cli.schedules import trigger_options
from gpucommons.scheduler.cli.submit import snapshot_exclusions
from gpucommons.scheduler.cli.submit.options import (
    add_options,
    all_options,
    environment_and_variables,
    given_options,
    given_role,
    role,
)
from gpucommons.scheduler.cli.submit.snapshot_exclusions import told
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.client.documents.jobs import read_job
from gpucommons.scheduler.client.documents.mappings import read_mapping
from gpucommons.scheduler.client.snapshot import Packed
from gpucommons.scheduler.client.submission import FileJob, request_for_file
from gpucommons.scheduler.environments.images import of_this_notebook
from gpucommons.scheduler.environments.reading import NoEnvironment, read_environment
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.scripts.parameters import parse_value

SIGNAL_ENDS_IT = "SIGUSR1 ends a script that does not handle it."
Options = Mapping[str, Any]
#: Packs what is wanted, with the fields that say which environment it runs in.
Wish = Callable[[Options, models.ProfileView | None], tuple[models.JobRequest, Packed | None]]


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``submit``."""
    command = commands.add_parser(
        "submit",
        parents=[shared],
        help="submit a script, notebook, command or YAML file",
        usage="gpucommons submit [options] SCRIPT [-- ARGUMENT …] | -m MODULE [-- ARGUMENT …] |"
        " -- COMMAND … | -f FILE",
    )
    add_options(command)
    command.set_defaults(run=submit)


def submit(arguments: argparse.Namespace) -> int:
    """Submit a script, notebook, module, command or YAML file."""
    arguments.environment, arguments.variables = environment_and_variables(arguments.env)
    schedules.check_when(arguments)
    wish = _wish(arguments)
    with connect(arguments) as scheduler:
        schedules.check_times(scheduler, arguments)
        named = arguments.profile
        profile = None if named is None else profiles.chosen(scheduler, named)
        if profile is not None:
            say(*profiles.told(profile))
        said = arguments.environment or (profile.job.environment if profile else None)
        environment = _environment(said, scheduler)
        request, packed = wish({"environment": environment} if environment else {}, profile)
        if packed is not None and request.snapshot is not None:
            scheduler.send(calls.put_snapshot(request.snapshot, packed.content))
        if trigger_options.is_given(arguments):
            say(*_of_runs(request, scheduler, in_guarantee=arguments.in_guarantee))
            return schedules.put(scheduler, arguments, request.name, job=request)
        say(*_of_quota(request, scheduler))
        view = scheduler.send(calls.submit(request, key=str(uuid.uuid4())))
        _say_shortened(request.name, view.name)
        _say_chosen(request, view)
        say(*(f"warning: {warning}" for warning in view.warnings))
        say(*_of_stops(request))
        show(view, f"{view.name} submitted", output=arguments.output)
        return follow(scheduler, view.id, rank=0) if arguments.follow else 0


def _wish(arguments: argparse.Namespace) -> Wish:
    """What is wanted, to be packed once its environment is known."""
    max_bytes = arguments.max_mib << 20
    file, is_notebook = arguments.file, str(arguments.script).endswith(".ipynb")
    if file is not None and not is_notebook:
        return _from_file(arguments, max_bytes)
    if arguments.profile is not None and not _names_something(arguments):
        return _from_profile(arguments)
    job = _job(arguments)

    def pack(
        environment: Options, profile: models.ProfileView | None
    ) -> tuple[models.JobRequest, Packed]:
        chosen = replace(
            job, links_left_out=snapshot_exclusions.are_linked(job.root, arguments.left_out)
        )
        options = {**all_options(arguments, profile), **environment}
        worker = role(arguments, profile)
        request, packed = request_for_file(chosen, options, worker, max_bytes=max_bytes)
        say(*told(packed, chosen, request))
        say(*snapshot_exclusions.copied(packed, chosen, trigger_options.watched(arguments)))
        return request, packed

    return pack


def _names_something(arguments: argparse.Namespace) -> bool:
    return bool(arguments.script or arguments.module or arguments.arguments)


def _from_profile(arguments: argparse.Namespace) -> Wish:
    """What the profile itself runs."""

    def read(
        environment: Options, profile: models.ProfileView | None
    ) -> tuple[models.JobRequest, None]:
        assert profile is not None  # noqa: S101 - asked for only with one
        if profile.job.command is None:
            message = (
                f"The profile {profile.name} says how, and not what: name a script or notebook, a"
                " module with -m, or a command behind --."
            )
            raise BadRequest(message)
        worker = {**role(arguments, profile), "command": profile.job.command}
        named = {"name": profile.name, **all_options(arguments, profile), **environment}
        return models.JobRequest.model_validate({**named, "roles": [worker]}), None

    return read


def _from_file(arguments: argparse.Namespace, max_bytes: int) -> Wish:
    if _names_something(arguments):
        message = (
            "Name one thing to run: a script or notebook, a module with -m, a command behind --, or"
            " a YAML file with -f. What the file runs gets its arguments from the file."
        )
        raise BadRequest(message)
    _check_unused(arguments)

    def read(
        environment: Options, profile: models.ProfileView | None
    ) -> tuple[models.JobRequest, Packed | None]:
        also = (
            {} if profile is None else {**profiles.fields(profile), "roles": [profile.job.worker()]}
        )
        job, request, packed = read_job(
            arguments.file,
            max_bytes=max_bytes,
            also={**also, **environment},
            left_out=arguments.left_out or "without",
        )
        if packed is not None and job is not None:
            say(*told(packed, job, request))
        return request, packed

    return read


def _check_unused(arguments: argparse.Namespace) -> None:
    """A file says how its job runs; what is given beside it must not vanish."""
    given = [*given_role(arguments), *given_options(arguments)]
    given += [name for name in ("function", "parameter") if getattr(arguments, name)]
    if given:
        message = (
            f"{arguments.file} says how its job runs, so write into it what you gave as options:"
            f" {', '.join(given)}."
        )
        raise BadRequest(message)


def _job(arguments: argparse.Namespace) -> FileJob:
    """The script, module or command that was named."""
    if arguments.script is not None and arguments.module is not None:
        raise BadRequest("Name one thing to run: a script or a module, not both.")
    if arguments.script is not None:
        script = arguments.script.resolve()
        return FileJob(
            root=script.parent,
            path=script.name,
            arguments=tuple(arguments.arguments),
            function=arguments.function,
            parameters=_parameters(arguments),
        )
    if arguments.module is None and not arguments.arguments:
        message = (
            "Name one thing to run: a script or notebook, a module with -m, a command behind --"
            " (gpucommons submit -- torchrun train.py), or a YAML file with -f."
        )
        raise BadRequest(message)
    words = tuple(arguments.arguments)
    given = {"function": arguments.function, "parameters": _parameters(arguments)}
    if arguments.module is not None:
        return FileJob(root=Path.cwd(), module=arguments.module, arguments=words, **given)
    return FileJob(root=Path.cwd(), command=words, **given)


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of a file first; those named one by one win.

    Raises
    ------
    BadRequest
        Where a name or value is missing.
    """
    found = {} if arguments.file is None else read_mapping(arguments.file, of="parameters")
    for word in arguments.parameter:
        name, equals, text = word.partition("=")
        if not (name.isidentifier() and equals):
            typed = f"-p {word}".rstrip()
            message = (
                f"{typed} is no parameter with a value: write -p NAME VALUE, as in -p"
                f" {name if name.isidentifier() else 'lr'} 0.5. A value that begins with a dash is"
                " written NAME=VALUE."
            )
            raise BadRequest(message)
        found = {**found, name: parse_value(text)}
    return found


def _environment(asked: str | None, scheduler: SchedulerClient) -> str:
    """What was named, else the environment that is active in this terminal."""
    if asked is not None:
        return asked if "/" not in asked else str(Path(asked).expanduser().absolute())
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or ""
    if not active or scheduler.send(calls.whoami()).environments != "folder":
        return ""
    try:
        found = read_environment(active)
    except NoEnvironment:
        return ""
    if found.path != os.path.realpath(sys.prefix):
        say(f"runs in: {found.text()}, the environment that is active here (else: --env)")
    return found.path


def _say_chosen(request: models.JobRequest, view: models.JobView) -> None:
    """The image and the launcher that nobody named."""
    chosen = "" if view.request is None else view.request.environment
    if chosen and not request.environment:
        say(f"runs in: {of_this_notebook(chosen)} (else: --env)")
    if view.launcher_text:
        say(f"launcher: {view.launcher_text} (else: --launcher)")


def _of_quota(request: models.JobRequest, scheduler: SchedulerClient) -> Iterable[str]:
    """Whether others can stop it, whether it is known to go on, and what its memory comes to, before anything
    is asked for.
    """
    quoted = scheduler.send(calls.quote_job(request))
    if quoted.hold_class == "over-quota" or any(role.gpu_memory_mib for role in request.roles):
        yield quoted.text
    if quoted.drill_text:
        yield quoted.drill_text


def _of_runs(
    request: models.JobRequest, scheduler: SchedulerClient, *, in_guarantee: bool
) -> Iterable[str]:
    """The same of a schedule's runs, none of which starts now: what is free then is not known."""
    kind = "training" if in_guarantee else "retrain"
    quoted = scheduler.send(calls.quote_job(request.model_copy(update={"kind": kind})))
    is_borrowed = quoted.hold_class == "over-quota" and not in_guarantee
    if is_borrowed or any(role.gpu_memory_mib for role in request.roles):
        yield quoted.quota_text
    if quoted.drill_text:
        yield quoted.drill_text


def _of_stops(request: models.JobRequest) -> Iterable[str]:
    """What was asked for when it is to leave, as the form says it."""
    if request.notice_signal == "SIGUSR1":
        yield SIGNAL_ENDS_IT
    if request.exit_after_signal == "success":
        yield "An exit with status 0 after a signal means that it has succeeded: it does not go on later."


def _say_shortened(asked: str, given: str) -> None:
    """A name ends in a number; one that leaves no room for it is not what the job is called."""
    if not given.startswith(f"{asked}-"):
        say(f"{asked} is too long with a number behind it: everywhere, the job is called {given}")
