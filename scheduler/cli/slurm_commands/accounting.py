"""``gpucommons sacct``: what became of jobs, in the columns and words of Slurm's."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import printable, say, show, table
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.columns import UNLIMITED, cpus_of, memory_of, ran_s
from gpucommons.scheduler.cli.slurm_commands.elsewhere import add_not_here
from gpucommons.scheduler.cli.slurm_commands.names import (
    begun_of,
    jobs_of,
    name_of_script,
    number_of,
    refs_of,
    shown_name,
    tasks_of,
)
from gpucommons.scheduler.cli.slurm_commands.states import asked_states, long_state, take_states
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.errors import BadRequest

_DAY_S = 86_400
_DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"


_BRIEF = "JobID,State,ExitCode"
_LONG = (
    "JobID,JobName,Partition,Account,User,AllocCPUS,ReqMem,AllocTRES,State,ExitCode,Submit,Start,End,Elapsed,"
    "Timelimit,NodeList,Restarts"
)
_PAGE, _MOST = 500, 5_000
_NOT_HERE = {
    "-N --nodelist": "the column NodeList says where a job ran",
    "-q --qos": "the column QOS has each job's",
    "-M --clusters": "there is one scheduler",
    "-f --file": "jobs are asked of the scheduler",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``sacct``."""
    found = commands.add_parser(
        "sacct", parents=[shared], help="what became of jobs, as Slurm tells it"
    )
    found.add_argument("-j", "--jobs", metavar="JOB[,JOB …]", help="default: your newest 100")
    found.add_argument("-u", "--user", "--uid")
    found.add_argument("-a", "--allusers", action="store_true", help="of all whom you may see")
    found.add_argument("-A", "--account", "--accounts", metavar="TEAM")
    found.add_argument("-r", "--partition", metavar="POOL[,POOL …]")
    found.add_argument("--name", metavar="NAME[,NAME …]", help="a job's without its number")
    found.add_argument("-s", "--states", metavar="F,CD,TO")
    found.add_argument(
        "-S", "--starttime", metavar="TIME", help="not over before: 2026-11-30, now-2hours"
    )
    found.add_argument("-E", "--endtime", metavar="TIME", help="submitted before")
    forms = found.add_mutually_exclusive_group()
    forms.add_argument("-o", "--format", default=_DEFAULT, metavar="COLUMN[,COLUMN …]")
    forms.add_argument("-b", "--brief", dest="format", action="store_const", const=_BRIEF)
    forms.add_argument("-l", "--long", dest="format", action="store_const", const=_LONG)
    forms.add_argument("-e", "--helpformat", action="store_true", help="name the columns")
    found.add_argument("-n", "--noheader", action="store_true")
    found.add_argument("-X", "--allocations", action="store_true", help="as it is anyway: no steps")
    found.add_argument("-D", "--duplicates", action="store_true", help=argparse.SUPPRESS)
    lines = found.add_mutually_exclusive_group()
    lines.add_argument("-p", "--parsable", action="store_true", help="columns end with |")
    lines.add_argument("-P", "--parsable2", action="store_true", help="| between columns")
    found.add_argument("--json", dest="output", action="store_const", const="json")
    add_not_here(found, _NOT_HERE)
    found.set_defaults(run=sacct)


def sacct(arguments: argparse.Namespace) -> int:
    """List jobs, also those that are over."""
    take_states(arguments)
    if arguments.helpformat:
        sys.stdout.write("\n".join(COLUMNS) + "\n")
        return 0
    columns = [_column(name) for name in arguments.format.split(",") if name]
    period = _Period.of(arguments)
    with connect(arguments) as scheduler:
        jobs = [
            job for job in _asked(scheduler, arguments, period) if _is_of(job, arguments, period)
        ]
    rows = [tuple(COLUMNS[column](job) for column in columns) for job in jobs]
    show(models.JobList(jobs=jobs), _text(arguments, columns, rows), output=arguments.output)
    return 0


class _Period(NamedTuple):
    """Of which jobs are asked; None = from ever, until now."""

    from_ms: int | None
    to_ms: int | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> _Period:
        now_ms = time.time_ns() // 1_000_000
        given = {"--starttime": arguments.starttime, "--endtime": arguments.endtime}
        return cls(
            *(
                quantities.past_moment_ms(text, now_ms, option=option) if text else None
                for option, text in given.items()
            )
        )

    def has(self, job: models.JobView) -> bool:
        return (self.to_ms is None or job.submitted_ms <= self.to_ms) and (
            self.from_ms is None or job.ended_ms is None or job.ended_ms >= self.from_ms
        )


def _is_of(job: models.JobView, arguments: argparse.Namespace, period: _Period) -> bool:
    states = asked_states(arguments.states)
    pools, names = arguments.partition, arguments.name
    return (
        (not states or long_state(job) in states)
        and (pools is None or (job.pool or ",".join(job.pools)) in pools.split(","))
        and (names is None or name_of_script(job) in names.split(","))
        and period.has(job)
    )


def _asked(
    scheduler: SchedulerClient, arguments: argparse.Namespace, period: _Period
) -> list[models.JobView]:
    if arguments.jobs:
        return [job for ref in refs_of(arguments.jobs) for job in _named(scheduler, ref)]
    owner = arguments.user
    if owner is None and arguments.account is None and not arguments.allusers:
        owner = scheduler.send(calls.whoami()).name
    if not (any(period) or arguments.states or arguments.name or arguments.partition):
        return scheduler.send(calls.jobs(owner=owner, team=arguments.account)).jobs
    return _newest(scheduler, owner, arguments.account)


def _newest(
    scheduler: SchedulerClient, owner: str | None, team: str | None
) -> list[models.JobView]:
    """Among which is looked: what was submitted long ago may still run."""
    found: list[models.JobView] = []
    cursor: str | None = None
    while len(found) < _MOST:
        page = scheduler.send(calls.jobs(owner=owner, team=team, limit=_PAGE, cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found
    say(f"Looked among the newest {len(found):,} jobs only. Others: name them with -j.")
    return found


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
        message = (
            f"--format: {name} is no column here; what a job used of its GPU and memory, gpucommons show JOB"
            f" says. There are {', '.join(COLUMNS)}."
        )
        raise BadRequest(message)
    return found


def elapsed(total_s: int) -> str:
    """``00:00:07``, ``1-02:00:00``."""
    days, rest = divmod(max(0, total_s), _DAY_S)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _exit_code(job: models.JobView) -> str:
    code = job.attempts[-1].exit_code if job.attempts else None
    code = code or 0
    return f"0:{-code}" if code < 0 else f"{code}:0"


def _moment(at_ms: int | None) -> str:
    return (
        "Unknown" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000):%Y-%m-%dT%H:%M:%S}"
    )


def _elapsed_s(job: models.JobView) -> int:
    return ran_s(job, time.time_ns() // 1_000_000)


def _time_limit(job: models.JobView) -> str:
    limit_s = job.request.max_run_s if job.request else None
    return UNLIMITED if limit_s is None else elapsed(limit_s)


def _tres(job: models.JobView) -> str:
    gpus = f",gres/gpu={job.milli_gpu / 1000:g}" if job.milli_gpu else ""
    return f"cpu={cpus_of(job.request)},mem={memory_of(job.request)},node={job.workers}{gpus}"


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
    "QOS": lambda job: job.priority,
    "AllocCPUS": lambda job: str(cpus_of(job.request)),
    "ReqCPUS": lambda job: str(cpus_of(job.request)),
    "NCPUS": lambda job: str(cpus_of(job.request)),
    "ReqMem": lambda job: memory_of(job.request),
    "ReqTRES": _tres,
    "AllocTRES": _tres,
    "NNodes": lambda job: str(job.workers),
    "State": long_state,
    "ExitCode": _exit_code,
    "Elapsed": lambda job: elapsed(_elapsed_s(job)),
    "ElapsedRaw": lambda job: str(_elapsed_s(job)),
    "Timelimit": _time_limit,
    "CPUTime": lambda job: elapsed(_elapsed_s(job) * cpus_of(job.request)),
    "Submit": lambda job: _moment(job.submitted_ms),
    "Start": lambda job: _moment(_started_ms(job)),
    "End": lambda job: _moment(job.ended_ms),
    "NodeList": lambda job: ",".join(job.attempts[-1].nodes) if job.attempts else "None assigned",
    "Restarts": lambda job: str(max(0, len(job.attempts) - 1)),
    "Reason": lambda job: job.reason.text if job.reason else "None",
}
