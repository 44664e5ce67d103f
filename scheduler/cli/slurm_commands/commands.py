"""``gpucommons sbatch`` and ``scancel``: what Slurm's own print and take, as far as scripts and hands rely on it."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import say, show
from gpucommons.scheduler.cli.slurm_commands import accounting, options, quantities, queue
from gpucommons.scheduler.cli.slurm_commands.batch import BatchJob, Script, batch_job
from gpucommons.scheduler.cli.slurm_commands.names import (
    array_of,
    corresponding,
    jobs_of,
    live,
    live_arrays,
    name_of_script,
    names_of,
    shown_name,
    tasks_of,
    waited,
)
from gpucommons.scheduler.cli.slurm_commands.queue import is_asked, is_state
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES
from gpucommons.scheduler.client.submission import request_for_file
from gpucommons.scheduler.errors import BadRequest, Conflict
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.parents import TASK_INDEX


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``sbatch``, ``squeue``, ``scancel`` and ``sacct``."""
    # Its options are Slurm's, read by a grammar of their own: nothing of them is taken here.
    batch = commands.add_parser(
        "sbatch", prefix_chars="\0", add_help=False, help="submit a Slurm batch script as a job"
    )
    batch.add_argument("words", nargs=argparse.REMAINDER)
    batch.set_defaults(run=sbatch, url=None, state=None)
    queue.add_commands(commands, shared)
    cancel = commands.add_parser("scancel", parents=[shared], help="cancel jobs")
    cancel.add_argument("jobs", nargs="*", metavar="JOB")
    cancel.add_argument("-u", "--user", help="all of theirs; of named jobs only theirs")
    cancel.add_argument("-n", "--name", help="only those whose name without its number is this")
    cancel.add_argument("-t", "--states", metavar="PD,R", help="only in these states")
    cancel.set_defaults(run=scancel)
    accounting.add_commands(commands, shared)


def sbatch(arguments: argparse.Namespace) -> int:
    """Submit a batch script; an array becomes a map."""
    given = options.of_command_line([*arguments.words, *_after_dashes(arguments)])
    words = list(given.pop("words", []))  # type: ignore[call-overload] # a list of words
    script, passed = _script(given, words)
    asked = {**options.of_script(script.text), **given}
    batch = batch_job(script, passed, asked, folder=Path.cwd(), now_ms=time.time_ns() // 1_000_000)
    lines = {name: at for name, at in options.places(script.text).items() if name not in given}
    say(*options.notes(asked, str(batch.options["name"]), lines))
    with connect(arguments) as scheduler:
        name = _submitted(scheduler, _with_kind(batch, scheduler))
    sys.stdout.write(f"{name}\n" if "parsable" in asked else f"Submitted batch job {name}\n")
    return 0


def _after_dashes(arguments: argparse.Namespace) -> list[str]:
    """The command line takes them apart for `submit`."""
    return ["--", *arguments.arguments] if arguments.arguments else []


def _script(given: dict[str, object], words: list[str]) -> tuple[Script, list[str]]:
    wrapped = given.pop("wrap", None)
    if wrapped is not None and words:
        raise BadRequest("sbatch takes a script or --wrap, not both.")
    if wrapped is not None:
        return Script(text=f"#!/bin/sh\n{wrapped}\n"), []
    if not words:
        text = sys.stdin.read() if not sys.stdin.isatty() else ""
        if not text:
            raise BadRequest("Name a batch script: gpucommons sbatch job.sh.")
        return Script(text=text), []
    path = Path(words[0]).resolve()
    try:
        return Script(text=path.read_text(), path=path), words[1:]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        message = f"{words[0]} cannot be read: {reason}."
        raise BadRequest(message) from None


def _with_kind(batch: BatchJob, scheduler: SchedulerClient) -> BatchJob:
    """A kind as Slurm's scripts write it (``a100``) is the only one that begins so."""
    if not batch.gpu_kind:
        return batch
    kinds = sorted({pool.gpu_kind for pool in scheduler.send(calls.pools()).pools if pool.gpu_kind})
    found = [kind for kind in kinds if kind.lower().startswith(batch.gpu_kind.lower())]
    if len(found) != 1:
        message = f"{batch.gpu_kind} is no single kind of GPU here. There are: {', '.join(kinds) or 'none'}."
        raise BadRequest(message)
    return replace(batch, role={**batch.role, "gpu_kind": found[0]})


def _submitted(scheduler: SchedulerClient, batch: BatchJob) -> str:
    """The name of the job, or of the array."""
    fields = {**batch.options, **waited(scheduler, batch.waits)}
    each = corresponding(scheduler, batch.after_each, batch.indices) if batch.after_each else []
    request, packed = request_for_file(batch.job, fields, batch.role, max_bytes=MAX_SNAPSHOT_BYTES)
    array = _array(batch, request, each) if batch.indices else None
    scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
    key = str(uuid.uuid4())
    if array is None:
        return scheduler.send(calls.submit(request, key=key)).name
    return scheduler.send(sweep_calls.submit_sweep(array, key=key)).name


def _array(
    batch: BatchJob, request: models.JobRequest, after_each: list[str]
) -> models.SweepRequest:
    limit = batch.at_once
    limited = {} if limit is None or limit >= len(batch.indices) else {"max_parallel": limit}
    given = [{TASK_INDEX: index} for index in batch.indices]
    return models.SweepRequest.model_validate(
        {
            "job": request,
            "given": given,
            "after_each": after_each,
            "values_as": "environment",
            **limited,
        }
    )


def scancel(arguments: argparse.Namespace) -> int:
    """Cancel jobs, named or all of a user or name; further options leave some of them out."""
    if not (arguments.jobs or arguments.user or arguments.name):
        raise BadRequest("Name the jobs to cancel, or --user or --name.")
    unbegun: list[str] = []
    with connect(arguments) as scheduler:
        of = _cancelled_named if arguments.jobs else _cancelled
        cancelled = list(of(scheduler, arguments, unbegun))
    lines = [f"{shown_name(job)} {job.state_text}" for job in cancelled]
    text = "\n".join([*lines, *unbegun])
    show(models.JobList(jobs=cancelled), text or "No job is like that.", output=arguments.output)
    return 0


def _leave_out(
    scheduler: SchedulerClient,
    array: models.SweepView,
    numbers: Sequence[int],
    arguments: argparse.Namespace,
    *,
    never: Sequence[int] = (),
) -> Iterator[str]:
    """Tasks that have not begun never do; those that begin meanwhile are cancelled. Of others (``never``)
    that is so already.
    """
    if not (numbers or never):
        return
    name = f"{array.name}_[{quantities.ranges(sorted({*numbers, *never}))}]"
    if (
        arguments.user in (None, array.owner)
        and arguments.name in (None, base_name(array.name))
        and is_state("queued", arguments.states)
    ):
        if numbers:
            request = models.LeaveOutRequest(numbers=list(numbers))
            scheduler.send(sweep_calls.leave_out(array.id, request))
        yield f"{name} cancelled before they began"
    else:
        say(f"{name} is not cancelled: --user, --name or --states leaves it out.")


def _cancelled(
    scheduler: SchedulerClient, arguments: argparse.Namespace, unbegun: list[str]
) -> Iterator[models.JobView]:
    owner = arguments.user or scheduler.send(calls.whoami()).name
    # First what would come in the place of those that end.
    for array in list(live_arrays(scheduler, owner=owner)):
        if arguments.name in (None, base_name(array.name)):
            unbegun += _leave_out(scheduler, array, array.unbegun, arguments)
    for job in list(live(scheduler, owner=owner)):
        if _is_to_be_cancelled(job, arguments):
            try:
                yield scheduler.send(calls.cancel(job.id))
            except Conflict:
                continue  # it ended meanwhile


def _cancelled_named(
    scheduler: SchedulerClient, arguments: argparse.Namespace, unbegun: list[str]
) -> Iterator[models.JobView]:
    for ref in arguments.jobs:
        tasks = tasks_of(scheduler, ref)
        if tasks is None:
            found = jobs_of(scheduler, ref)
        else:
            unbegun += _leave_out(
                scheduler, tasks.array, tasks.unbegun, arguments, never=tasks.never
            )
            found = [scheduler.send(calls.job(one)) for one in tasks.jobs]
        if not (arguments.user or arguments.name or arguments.states or _is_one(found, ref)):
            _stop_array(scheduler, ref, found)
        for job in found:
            if not _is_to_be_cancelled(job, arguments):
                say(
                    f"{shown_name(job)} is not cancelled: --user, --name or --states leaves it out."
                )
                continue
            try:
                yield scheduler.send(calls.cancel(job.id))
            except Conflict:
                if _is_one(found, ref):
                    raise  # else it is one of an array, and ended before


def _is_one(found: list[models.JobView], ref: str) -> bool:
    """Whether a job is named, and neither an array nor several tasks of one."""
    return len(found) == 1 and ref in names_of(found[0], as_its_array=False)


def _stop_array(scheduler: SchedulerClient, ref: str, found: list[models.JobView]) -> None:
    """So that nothing more of it is begun; tasks that are named end alone."""
    if "_" in ref:
        return
    parents = {job.part_of.id for job in found if job.part_of is not None}
    array = array_of(scheduler, parents.pop() if parents else ref)
    if array is not None and array.ended_ms is None:
        scheduler.send(sweep_calls.stop_sweep(array.id))


def _is_to_be_cancelled(job: models.JobView, arguments: argparse.Namespace) -> bool:
    return (
        arguments.user in (None, job.owner)
        and arguments.name in (None, name_of_script(job))
        and is_asked(job, None, arguments.states)
    )
