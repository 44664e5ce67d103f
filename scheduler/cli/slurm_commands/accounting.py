"""``gpucommons sacct``: what became of jobs, in the columns and words of Slurm's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from datetime import datetime

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, say, show, table
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.names import (
    begun_of,
    jobs_of,
    name_of_script,
    number_of,
    refs_of,
    shown_name,
    tasks_of,
)
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest

_DAY_S = 86_400
_DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
#: Slurm's words for states (``man sacct``).
LONG_STATES = {
    "queued": "PENDING", "nominated": "PENDING", "admitted": "CONFIGURING",
    "starting": "CONFIGURING", "running": "RUNNING", "preempting": "COMPLETING",
    "pausing": "COMPLETING", "cancelling": "COMPLETING", "paused": "SUSPENDED",
    "succeeded": "COMPLETED", "failed": "FAILED", "cancelled": "CANCELLED",
}  # fmt: skip


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``sacct``."""
    found = commands.add_parser(
        "sacct", parents=[shared], help="what became of jobs, as Slurm tells it"
    )
    found.add_argument("-j", "--jobs", metavar="JOB[,JOB …]", help="default: your newest 100")
    found.add_argument("-u", "--user")
    found.add_argument("-A", "--account", metavar="TEAM")
    found.add_argument("-o", "--format", default=_DEFAULT, metavar="COLUMN[,COLUMN …]")
    found.add_argument("-n", "--noheader", action="store_true")
    found.add_argument("-X", "--allocations", action="store_true", help="as it is anyway: no steps")
    lines = found.add_mutually_exclusive_group()
    lines.add_argument("-p", "--parsable", action="store_true", help="columns end with |")
    lines.add_argument("-P", "--parsable2", action="store_true", help="| between columns")
    found.set_defaults(run=sacct)


def sacct(arguments: argparse.Namespace) -> int:
    """List jobs, also those that are over."""
    columns = [_column(name) for name in arguments.format.split(",") if name]
    with connect(arguments) as scheduler:
        jobs = _asked(scheduler, arguments)
    rows = [tuple(COLUMNS[column](job) for column in columns) for job in jobs]
    show(models.JobList(jobs=jobs), _text(arguments, columns, rows), output=arguments.output)
    return 0


def _asked(scheduler: SchedulerClient, arguments: argparse.Namespace) -> list[models.JobView]:
    if arguments.jobs:
        return [job for ref in refs_of(arguments.jobs) for job in _named(scheduler, ref)]
    owner = arguments.user
    if owner is None and arguments.account is None:
        owner = scheduler.send(calls.whoami()).name
    return scheduler.send(calls.jobs(owner=owner, team=arguments.account)).jobs


def _named(scheduler: SchedulerClient, ref: str) -> list[models.JobView]:
    tasks = tasks_of(scheduler, ref)
    if tasks is None:
        return jobs_of(scheduler, ref)
    if tasks.never:
        name = f"{tasks.array.name}_[{quantities.ranges(tasks.never)}]"
        say(f"{name} was cancelled before it began: there is no job to tell of.")
    return [scheduler.send(calls.job(one)) for one in begun_of(tasks)]


def _text(arguments: argparse.Namespace, columns: list[str], rows: list[tuple[str, ...]]) -> str:
    header = [] if arguments.noheader else [tuple(columns)]
    if arguments.parsable or arguments.parsable2:
        end = "|" if arguments.parsable else ""
        return printable("\n".join("|".join(row) + end for row in (*header, *rows)))
    first, *others = (*header, *rows) or [()]
    return table(first, others)


def _column(text: str) -> str:
    name = text.partition("%")[0]
    found = next((known for known in COLUMNS if known.lower() == name.lower()), None)
    if found is None:
        message = f"--format: {name} is no column here. There are {', '.join(COLUMNS)}."
        raise BadRequest(message)
    return found


def elapsed(total_s: int) -> str:
    """``00:00:07``, ``1-02:00:00``."""
    days, rest = divmod(max(0, total_s), _DAY_S)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def state_of(job: models.JobView) -> str:
    """The long word for where it stands, or how it ended."""
    last = job.attempts[-1] if job.attempts else None
    if job.state == "failed" and last and last.stop and last.stop.why == "timeout":
        return "TIMEOUT"
    return LONG_STATES.get(job.state, job.state.upper())


def _exit_code(job: models.JobView) -> str:
    code = job.attempts[-1].exit_code if job.attempts else None
    code = code or 0
    return f"0:{-code}" if code < 0 else f"{code}:0"


def _ran_s(job: models.JobView) -> int:
    spans = (
        (one.ended_ms or job.ended_ms or one.started_ms) - one.started_ms
        for one in job.attempts
        if one.started_ms is not None
    )
    return sum(spans) // 1000


def _moment(at_ms: int | None) -> str:
    return (
        "Unknown" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%dT%H:%M:%S}"
    )


def _cpus(job: models.JobView) -> str:
    roles = [] if job.request is None else job.request.roles
    return f"{sum(max(1000, role.cpu_milli or 0) * role.count for role in roles) // 1000 or 1}"


def _started_ms(job: models.JobView) -> int | None:
    return next((one.started_ms for one in job.attempts if one.started_ms is not None), None)


#: How each column is read of a job.
COLUMNS: Mapping[str, Callable[[models.JobView], str]] = {
    "JobID": shown_name,
    "JobIDRaw": lambda job: str(number_of(job.id)),
    "JobName": name_of_script,
    "Partition": lambda job: job.pool or ",".join(job.pools),
    "Account": lambda job: job.team,
    "User": lambda job: job.owner,
    "AllocCPUS": _cpus,
    "NNodes": lambda job: str(job.workers),
    "State": state_of,
    "ExitCode": _exit_code,
    "Elapsed": lambda job: elapsed(_ran_s(job)),
    "Submit": lambda job: _moment(job.submitted_ms),
    "Start": lambda job: _moment(_started_ms(job)),
    "End": lambda job: _moment(job.ended_ms),
    "NodeList": lambda job: ",".join(job.attempts[-1].nodes) if job.attempts else "None assigned",
    "Restarts": lambda job: str(max(0, len(job.attempts) - 1)),
    "Reason": lambda job: job.reason.text if job.reason else "None",
}
