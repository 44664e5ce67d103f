"""Publish, list and remove profiles; find the one that a job is started with."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import clock, printable, show, table
from gpucommons.scheduler.client import SchedulerClient, profile_calls
from gpucommons.scheduler.client.documents.mappings import mapping_in, read_content
from gpucommons.scheduler.errors import BadRequest, NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.models.jobs.profiles import (
    PROFILE_LABEL,
    NamedProfile,
    ProfileJob,
    ProfilesFile,
)
from gpucommons.scheduler.models.text.yaml_errors import field_sentences

#: Of a command or value, before a job is started with it.
_SHOWN = 300


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``profile``."""
    own = commands.add_parser(
        "profile",
        help="forms of a team that jobs are started with: list, show, publish, remove",
        description="`gpucommons submit --profile NAME …` starts a job with one.",
    ).add_subparsers(required=True)
    own.add_parser("list", parents=[shared], help="those of your teams").set_defaults(run=listing)
    new = own.add_parser(
        "publish", parents=[shared], help="a YAML file becomes a profile (leads, admins)"
    )
    new.add_argument("file", type=Path, help="team, name, description, job")
    new.set_defaults(run=publish)
    for name, text, run in (
        ("show", "what one says", detail),
        ("remove", "take one away; its jobs stay", remove),
    ):
        command = own.add_parser(name, parents=[shared], help=text)
        command.add_argument("profile", metavar="NAME", help="NAME, or TEAM/NAME")
        command.set_defaults(run=run)


def chosen(scheduler: SchedulerClient, text: str) -> models.ProfileView:
    """The profile that is meant, among those of the caller's teams.

    Raises
    ------
    NotFound, BadRequest
        When there is none, or more than one.
    """
    known = scheduler.send(profile_calls.profiles()).profiles
    found = [one for one in known if text in (one.name, f"{one.team}/{one.name}")]
    if len(found) == 1:
        return found[0]
    if not found:
        names = ", ".join(one.name for one in known) or "none"
        raise NotFound(f"There is no profile {text!r} of your teams. Profiles: {names}.")
    which = ", ".join(f"{one.team}/{one.name}" for one in found)
    raise BadRequest(f"Several teams have a profile {text}: say which: {which}.")


def fields(profile: models.ProfileView) -> dict[str, Any]:
    """What a job gets of it, but for its workers; it keeps the profile's name."""
    labels = {PROFILE_LABEL: profile.name}
    return {**profile.job.options(), "team": profile.team, "labels": labels}


def told(profile: models.ProfileView) -> Iterator[str]:
    """What of it decides which code runs, and with which secrets: that is done in the caller's name."""
    job = profile.job
    yield f"profile: {profile.name} of {profile.team}, published by {profile.published_by}"
    if job.command is not None:
        yield f"  command: {_short(shlex.join(job.command))}"
    if job.environment is not None:
        yield f"  environment: {job.environment}"
    for name, value in (job.env or {}).items():
        yield f"  env: {name}={_short(value)}"
    for name, secret in (job.secrets or {}).items():
        yield f"  secrets: {name}={secret}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def listing(arguments: argparse.Namespace) -> int:
    """Those of the caller's teams."""
    with connect(arguments) as scheduler:
        found = scheduler.send(profile_calls.profiles())
    rows = [
        (one.name, one.team, size(one.job), one.job.launcher or "", one.description)
        for one in found.profiles
    ]
    header = ("NAME", "TEAM", "SIZE", "LAUNCHER", "DESCRIPTION")
    show(found, table(header, rows), output=arguments.output)
    return 0


def detail(arguments: argparse.Namespace) -> int:
    """One profile."""
    with connect(arguments) as scheduler:
        view = chosen(scheduler, arguments.profile)
    show(view, printable("\n".join(_lines(view))), output=arguments.output)
    return 0


def publish(arguments: argparse.Namespace) -> int:
    """Publish what a file says."""
    content = read_content(arguments.file)
    document = mapping_in(content, arguments.file, of="a profile's fields (team, name, job, …)")
    try:
        named = NamedProfile.model_validate(document)
    except ValidationError as error:
        message = f"{arguments.file}: {field_sentences(content, error)}"
        raise BadRequest(message) from None
    with connect(arguments) as scheduler:
        view = put(scheduler, named)
    show(view, f"{view.name} of {view.team} published", output=arguments.output)
    return 0


def put(scheduler: SchedulerClient, named: NamedProfile) -> models.ProfileView:
    """Publish one of a file.

    Raises
    ------
    SchedulerError
        A refusal, which names the profile.
    """
    asked = profile_calls.put_profile(named.team, named.name, named.published())
    try:
        return scheduler.send(asked)
    except SchedulerError as error:
        raise type(error)(f"Profile {named.name} of {named.team}: {error}") from error


def put_all(scheduler: SchedulerClient, wanted: list[NamedProfile], *, also: bool) -> None:
    """Publish those of a file; one that is refused keeps no other from it. ``also``: more was applied before.

    Raises
    ------
    SchedulerError
        What was refused, and that all else of the file is in force.
    """
    refused: list[SchedulerError] = []
    for one in wanted:
        try:
            put(scheduler, one)
        except Unavailable:
            raise  # whether it was published nobody knows
        except SchedulerError as error:
            refused.append(error)
    if refused:
        rest = " All else that the file says was applied." if also or wanted[len(refused) :] else ""
        raise type(refused[0])(f"{' '.join(map(str, refused))}{rest}")


def changes(scheduler: SchedulerClient, wanted: list[NamedProfile]) -> list[str]:
    """What publishing these would change, one sentence each."""
    found = scheduler.send(profile_calls.profiles()).profiles if wanted else []
    known = {(one.team, one.name): one for one in found}
    told = []
    for one in wanted:
        before = known.get((one.team, one.name))
        said = (one.description, one.callback, one.job)
        if before is None:
            told.append(f"profile {one.name} of {one.team}: published")
        elif (before.description, before.callback, before.job) != said:
            told.append(f"profile {one.name} of {one.team}: published anew")
    return told


def remove(arguments: argparse.Namespace) -> int:
    """Take one away."""
    with connect(arguments) as scheduler:
        found = chosen(scheduler, arguments.profile)
        view = scheduler.send(profile_calls.drop_profile(found.team, found.name))
    show(view, f"{view.name} of {view.team} removed; its jobs stay", output=arguments.output)
    return 0


def taken_from(path: Path, content: bytes, document: dict[str, Any]) -> list[NamedProfile]:
    """The profiles of a file for ``apply``, which are taken out of what else it says."""
    try:
        return ProfilesFile.model_validate(
            {"profiles": document.pop("profiles", None) or []}
        ).profiles
    except ValidationError as error:
        message = f"{path}: {field_sentences(content, error)}"
        raise BadRequest(message) from None


def size(job: ProfileJob) -> str:
    """``2 × 1 GPU``; empty where it says none."""
    if job.gpu_memory_mib is not None and not job.milli_gpu:
        each = f"{job.gpu_memory_mib / 1024:g} GiB of GPU"
    elif job.milli_gpu is None:
        each = ""
    else:
        each = format_gpus(job.milli_gpu) if job.milli_gpu else "CPU"
    if job.workers in (None, 1):
        return each
    return f"{job.workers} × {each}" if each else f"{job.workers} workers"


def _lines(view: models.ProfileView) -> Iterator[str]:
    yield f"{view.name}  team {view.team}, published by {view.published_by} {clock(view.published_ms)}"
    if view.description:
        yield f"  {view.description}"
    for field, value in view.job.model_dump(exclude_none=True).items():
        yield f"  {field}: {value}"
    if view.callback_line:
        yield f"  {view.callback}, in the script: {view.callback_line}"
