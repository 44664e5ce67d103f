"""The commands: what Slurm's own print and take, as far as scripts and hands rely on it."""

from __future__ import annotations

import argparse
import re
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, say, show, table
from gpucommons.scheduler.cli.slurm_commands import accounting, options
from gpucommons.scheduler.cli.slurm_commands.accounting import LONG_STATES
from gpucommons.scheduler.cli.slurm_commands.batch import BatchJob, Script, batch_job
from gpucommons.scheduler.cli.slurm_commands.names import INDEX, array_of, jobs_of, waited
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.client.snapshot import MAX_SNAPSHOT_BYTES
from gpucommons.scheduler.client.submission import request_for_file
from gpucommons.scheduler.errors import BadRequest, Conflict
from gpucommons.scheduler.models.fields import base_name

#: Slurm's words for states (``man squeue``).
STATES = {
    "queued": "PD", "nominated": "PD", "admitted": "CF", "starting": "CF", "running": "R",
    "preempting": "CG", "pausing": "CG", "cancelling": "CG", "paused": "S",
}  # fmt: skip
_SHORT = {LONG_STATES[state]: short for state, short in STATES.items()}
#: Of ``--format``: ``%.18i`` is a column of 18 characters, aligned on the right.
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>\d{1,3})?(?P<letter>[A-Za-z])")
_PAGE = 500
_DAY_S = 86_400


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
    queue = commands.add_parser(
        "squeue", parents=[shared], add_help=False, help="list jobs as Slurm does"
    )
    queue.add_argument("--help", action="help")  # ``-h`` is Slurm's for a list without its header
    queue.add_argument("--me", action="store_true", help="only your own")
    queue.add_argument("-u", "--user")
    queue.add_argument("-j", "--jobs", metavar="JOB[,JOB …]")
    queue.add_argument("-t", "--states", metavar="PD,R,CG")
    queue.add_argument("-A", "--account", metavar="TEAM")
    queue.add_argument("-h", "--noheader", action="store_true")
    queue.add_argument("-o", "--format", metavar="FORMAT", help="as in '%%i %%T'")
    queue.set_defaults(run=squeue)
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
    request, packed = request_for_file(batch.job, fields, batch.role, max_bytes=MAX_SNAPSHOT_BYTES)
    array = _array(batch, request) if batch.indices else None
    scheduler.send(calls.put_snapshot(packed.sha256, packed.content))
    key = str(uuid.uuid4())
    if array is None:
        return scheduler.send(calls.submit(request, key=key)).name
    return scheduler.send(sweep_calls.submit_sweep(array, key=key)).name


def _array(batch: BatchJob, request: models.JobRequest) -> models.SweepRequest:
    limit = batch.at_once
    limited = {} if limit is None or limit >= len(batch.indices) else {"max_parallel": limit}
    given = [{INDEX: index} for index in batch.indices]
    return models.SweepRequest.model_validate(
        {"job": request, "given": given, "values_as": "environment", **limited}
    )


def squeue(arguments: argparse.Namespace) -> int:
    """List jobs that are not over."""
    with connect(arguments) as scheduler:
        owner = scheduler.send(calls.whoami()).name if arguments.me else arguments.user
        jobs = [
            job
            for job in _live(scheduler, owner=owner, team=arguments.account)
            if _is_asked(job, arguments.jobs, arguments.states)
        ]
    now_ms = time.time_ns() // 1_000_000
    rows = [_row(job, now_ms) for job in jobs]
    if arguments.format is not None:
        text = "\n".join(_formatted(arguments, jobs, now_ms))
    elif arguments.noheader and arguments.output == "text":
        text = "\n".join(table(row, []) for row in rows)
    else:
        header = ("JOBID", "PARTITION", "USER", "ST", "TIME", "NODES", "GPUS", "NODELIST(REASON)")
        text = table(header, rows)
    show(models.JobList(jobs=jobs), text, output=arguments.output)
    return 0


def _formatted(
    arguments: argparse.Namespace, jobs: list[models.JobView], now_ms: int
) -> Iterator[str]:
    """Lines as ``--format`` has them."""
    letters = {match["letter"] for match in _FIELD.finditer(arguments.format)}
    if strange := sorted(letters - _LETTERS.keys()):
        message = f"--format: %{strange[0]} is not known here. There are %{', %'.join(_LETTERS)}."
        raise BadRequest(message)
    rows = [] if arguments.noheader else [_LETTERS]
    for row in (*rows, *(_said_of(job, now_ms) for job in jobs)):
        yield printable(_FIELD.sub(partial(_padded, row), arguments.format))


#: Columns of ``--format``, and their headers.
_LETTERS = {
    "i": "JOBID", "A": "JOBID", "F": "ARRAY_JOB_ID", "K": "ARRAY_TASK_ID", "j": "NAME", "t": "ST",
    "T": "STATE", "u": "USER", "P": "PARTITION", "a": "ACCOUNT", "M": "TIME", "D": "NODES",
    "R": "NODELIST(REASON)", "r": "REASON", "N": "NODELIST", "q": "QOS", "b": "TRES_PER_NODE",
}  # fmt: skip


def _said_of(job: models.JobView, now_ms: int) -> dict[str, str]:
    name, pool, owner, short, ran, nodes, gpus, where = _row(job, now_ms)
    why = job.reason.text if job.reason else "None"
    index = "N/A" if job.request is None else job.request.env.get(INDEX, "N/A")
    return {
        "i": name, "A": name, "F": job.part_of.name if job.part_of else name, "K": index,
        "j": base_name(name), "t": short, "T": LONG_STATES.get(job.state, short), "u": owner,
        "P": pool, "a": job.team, "M": ran, "D": nodes, "R": where, "r": why,
        "N": "" if where.startswith("(") else where, "q": job.priority, "b": f"gres/gpu:{gpus}",
    }  # fmt: skip


def _padded(row: Mapping[str, str], match: re.Match[str]) -> str:
    text = row[match["letter"]]
    width = int(match["width"] or 0)
    if not width:
        return text
    return text[:width].rjust(width) if match["right"] else text[:width].ljust(width)


def _live(scheduler: SchedulerClient, **of: str | None) -> Iterator[models.JobView]:
    cursor: str | None = None
    while True:
        page = scheduler.send(calls.jobs(live=True, limit=_PAGE, cursor=cursor, **of))
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _is_asked(job: models.JobView, names: str | None, states: str | None) -> bool:
    wanted = {_SHORT.get(word.upper(), word.upper()) for word in (states or "").split(",") if word}
    named = names is None or _names_of(job) & set(names.split(","))
    return bool(named) and (not wanted or STATES.get(job.state) in wanted)


def _names_of(job: models.JobView) -> set[str]:
    """By which it may be named: also as the array that it is of, and as its task."""
    found = {job.name, job.id}
    if job.part_of is not None:
        found |= {job.part_of.name, job.part_of.id}
        if job.request is not None and INDEX in job.request.env:
            found.add(f"{job.part_of.name}_{job.request.env[INDEX]}")
    return found


def _row(job: models.JobView, now_ms: int) -> tuple[str, ...]:
    attempt = next((one for one in reversed(job.attempts) if one.ended_ms is None), None)
    began_ms = None if attempt is None else attempt.started_ms
    where = ",".join(attempt.nodes) if attempt else f"({job.reason.text if job.reason else ''})"
    return (
        job.name, job.pool or ",".join(job.pools), job.owner, STATES.get(job.state, job.state),
        _elapsed(0 if began_ms is None else (now_ms - began_ms) // 1000),
        str(len(attempt.nodes) if attempt else job.workers), f"{job.milli_gpu / 1000:g}", where,
    )  # fmt: skip


def _elapsed(total_s: int) -> str:
    """``0:07``, ``2:05:00``, ``1-02:00:00``, as Slurm has it."""
    days, rest = divmod(max(0, total_s), _DAY_S)
    hours, minutes, seconds = rest // 3600, rest // 60 % 60, rest % 60
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def scancel(arguments: argparse.Namespace) -> int:
    """Cancel jobs, named or all of a user or name; further options leave some of them out."""
    if not (arguments.jobs or arguments.user or arguments.name):
        raise BadRequest("Name the jobs to cancel, or --user or --name.")
    with connect(arguments) as scheduler:
        of = _cancelled_named if arguments.jobs else _cancelled
        cancelled = list(of(scheduler, arguments))
    text = "\n".join(f"{job.name} {job.state_text}" for job in cancelled)
    show(models.JobList(jobs=cancelled), text or "No job is like that.", output=arguments.output)
    return 0


def _cancelled(
    scheduler: SchedulerClient, arguments: argparse.Namespace
) -> Iterator[models.JobView]:
    owner = arguments.user or scheduler.send(calls.whoami()).name
    for job in list(_live(scheduler, owner=owner)):
        if _is_to_be_cancelled(job, arguments):
            try:
                yield scheduler.send(calls.cancel(job.id))
            except Conflict:
                continue  # it ended meanwhile


def _cancelled_named(
    scheduler: SchedulerClient, arguments: argparse.Namespace
) -> Iterator[models.JobView]:
    for ref in arguments.jobs:
        found = jobs_of(scheduler, ref)
        if not (arguments.user or arguments.name or arguments.states) and not _is_one(found, ref):
            _stop_array(scheduler, ref)
        for job in found:
            if not _is_to_be_cancelled(job, arguments):
                say(f"{job.name} is not cancelled: --user, --name or --states leaves it out.")
                continue
            try:
                yield scheduler.send(calls.cancel(job.id))
            except Conflict:
                if _is_one(found, ref):
                    raise  # else it is one of an array, and ended before


def _is_one(found: list[models.JobView], ref: str) -> bool:
    return len(found) == 1 and ref in _names_of(found[0]) - _array_names(found[0])


def _array_names(job: models.JobView) -> set[str]:
    return set() if job.part_of is None else {job.part_of.name, job.part_of.id}


def _stop_array(scheduler: SchedulerClient, ref: str) -> None:
    """So that nothing more of it is begun."""
    array = array_of(scheduler, ref)
    if array is not None and array.ended_ms is None:
        scheduler.send(sweep_calls.stop_sweep(array.id))


def _is_to_be_cancelled(job: models.JobView, arguments: argparse.Namespace) -> bool:
    return (
        arguments.user in (None, job.owner)
        and arguments.name in (None, base_name(job.name))
        and _is_asked(job, None, arguments.states)
    )
