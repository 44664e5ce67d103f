"""``gpucommons sbatch``: what Slurm's own prints and takes, as far as scripts and hands rely on it."""

from __future__ import annotations

import argparse
import os
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import say
from gpucommons.scheduler.cli.slurm_commands import accounting, cancelling, options, queue
from gpucommons.scheduler.cli.slurm_commands.batch import BatchJob, Script, batch_job
from gpucommons.scheduler.cli.slurm_commands.dependencies import (
    ANY_END,
    corresponding,
    same_name,
    waited,
)
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES
from gpucommons.scheduler.client.submission import request_for_file
from gpucommons.scheduler.errors import BadRequest
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
    cancelling.add_commands(commands, shared)
    accounting.add_commands(commands, shared)


def sbatch(arguments: argparse.Namespace) -> int:
    """Submit a batch script; an array becomes a map."""
    given = options.of_command_line([*arguments.words, *_after_dashes(arguments)])
    words = list(given.pop("words", []))  # type: ignore[call-overload] # a list of words
    script, passed = _script(given, words)
    asked = {**options.of_script(script.text), **options.of_environment(os.environ), **given}
    batch = batch_job(script, passed, asked, folder=Path.cwd(), now_ms=time.time_ns() // 1_000_000)
    with connect(arguments) as scheduler:
        name = _submitted(scheduler, _with_kind(batch, scheduler))
    lines = {name: at for name, at in options.places(script.text).items() if name not in given}
    # Its job, or of an array its first one, is called so for all other commands.
    job = f"{name}-{batch.indices[0]}" if batch.indices else name
    say(*options.notes(asked, job, lines))
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
    waits = waited(scheduler, batch.waits)
    fields = {**batch.options, **waits}
    if batch.is_singleton and (earlier := same_name(scheduler, str(fields["name"]))):
        fields[ANY_END] = [*waits.get(ANY_END, ()), *earlier]
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
