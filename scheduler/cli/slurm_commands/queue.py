"""``gpucommons squeue``: what runs and waits, in the columns and words of Slurm's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import say, show, table
from gpucommons.scheduler.cli.slurm_commands.batch import ORIGIN
from gpucommons.scheduler.cli.slurm_commands.columns import (
    LETTERS,
    Row,
    Waiting,
    formatted,
    row_of,
    rows_of,
)
from gpucommons.scheduler.cli.slurm_commands.elsewhere import add_not_here
from gpucommons.scheduler.cli.slurm_commands.names import (
    array_names,
    live,
    live_arrays,
    name_of_script,
    named,
    names_of,
    shown_name,
)
from gpucommons.scheduler.cli.slurm_commands.states import is_state, live_states, take_states
from gpucommons.scheduler.client import SchedulerClient, calls
from gpucommons.scheduler.models.fields import base_name
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL

_DEFAULT = "iPutMD"
_LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.10l %.6D %R"
_START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %R"
_NOT_HERE = {
    "-O --Format": "write -o with letters, as in -o '%%i %%T'",
    "-S --sort": "pipe the list through sort",
    "-i --iterate": "watch -n 5 gpucommons squeue",
    "-w --nodelist": "gpucommons nodes says who holds what of a node",
    "-s --steps": "a job has no steps here",
    "-q --qos": "gpucommons squeue -o '%%i %%q' prints each job's",
    "-M --clusters": "there is one scheduler",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``squeue``."""
    found = commands.add_parser(
        "squeue", parents=[shared], add_help=False, help="list jobs as Slurm does"
    )
    found.add_argument("--help", action="help")  # ``-h`` is Slurm's for a list without its header
    found.add_argument("--me", action="store_true", help="only your own")
    found.add_argument("-u", "--user", metavar="USER[,USER …]")
    found.add_argument("-j", "--jobs", "--job", metavar="JOB[,JOB …]")
    found.add_argument("-t", "--states", metavar="PD,R,CG")
    found.add_argument("-A", "--account", metavar="TEAM")
    found.add_argument("-p", "--partition", metavar="POOL[,POOL …]")
    found.add_argument("-n", "--name", metavar="NAME[,NAME …]", help="a job's without its number")
    found.add_argument("-h", "--noheader", action="store_true")
    found.add_argument("-r", "--array", action="store_true", help="a line for each task")
    found.add_argument("-a", "--all", action="store_true", help="as it is anyway")
    forms = found.add_mutually_exclusive_group()
    forms.add_argument("-o", "--format", metavar="FORMAT", help="as in '%%i %%T'")
    forms.add_argument(
        "-l", "--long", dest="format", action="store_const", const=_LONG, help="with time limits"
    )
    forms.add_argument("--start", action="store_true", help="when what waits begins at the latest")
    found.add_argument("--json", dest="output", action="store_const", const="json")
    add_not_here(found, _NOT_HERE)
    found.set_defaults(run=squeue)


def squeue(arguments: argparse.Namespace) -> int:
    """List jobs that are not over, and the tasks of arrays that have not begun."""
    take_states(arguments)
    live_states(arguments.states)
    if arguments.start:
        arguments.format, arguments.states = _START, "PENDING"
    with connect(arguments) as scheduler:
        waiting, jobs = _asked(scheduler, arguments)
    now_ms = time.time_ns() // 1_000_000
    rows = [row_of(job, now_ms) for job in jobs]
    rows += [row for one in waiting for row in rows_of(one, apart=arguments.array)]
    if arguments.format is not None:
        text = "\n".join(formatted(arguments.format, rows, header=not arguments.noheader))
    elif arguments.noheader and arguments.output == "text":
        text = "\n".join(table(_default(row), []) for row in rows)
    else:
        text = table((*_default(LETTERS)[:-2], "GPUS", LETTERS["R"]), map(_default, rows))
    show(models.JobList(jobs=jobs), text, output=arguments.output)
    if arguments.start and jobs:
        say(
            "Times are the ends of windows in which jobs likely begin: gpucommons why JOB says more."
        )
    return 0


def _asked(
    scheduler: SchedulerClient, arguments: argparse.Namespace
) -> tuple[list[Waiting], list[models.JobView]]:
    owners = [None] if arguments.user is None else arguments.user.split(",")
    if arguments.me:
        owners = [scheduler.send(calls.whoami()).name]
    waiting: list[Waiting] = []
    jobs: list[models.JobView] = []
    for owner in owners:
        # In this order: a task that begins between the two looks is in the second, not in neither.
        waiting += _waiting(scheduler, owner, arguments)
        jobs += [
            job
            for job in live(scheduler, owner=owner, team=arguments.account)
            if is_asked(job, arguments.jobs, arguments.states)
            and _is_of(job, arguments.partition, arguments.name)
        ]
    begun = {shown_name(job) for job in jobs}
    left = [
        Waiting(array, tuple(one for one in indices if f"{array.name}_{one}" not in begun))
        for array, indices in waiting
    ]
    return [one for one in left if one.indices], jobs


def _is_of(job: models.JobView, pools: str | None, names: str | None) -> bool:
    its_pools = {*job.pools} if job.pool is None else {job.pool}
    return (pools is None or bool(its_pools & {*pools.split(",")})) and (
        names is None or name_of_script(job) in names.split(",")
    )


def _default(row: Row) -> tuple[str, ...]:
    return (*(row[letter] for letter in _DEFAULT), row["b"].rpartition(":")[2], row["R"])


def _waiting(
    scheduler: SchedulerClient, owner: str | None, arguments: argparse.Namespace
) -> Iterator[Waiting]:
    """Of arrays that go on."""
    if not is_state("queued", arguments.states):
        return
    for array in live_arrays(scheduler, owner=owner):
        request = array.request
        if arguments.account not in (None, array.team) or request is None:
            continue
        if request.labels.get(ORIGIN_LABEL) != ORIGIN:
            continue
        pools, names = arguments.partition, arguments.name
        if pools is not None and not {*(request.pools or ())} & {*pools.split(",")}:
            continue
        if names is not None and base_name(array.name) not in names.split(","):
            continue
        left = tuple(array.unbegun)
        if arguments.jobs is not None and not array_names(array) & set(arguments.jobs.split(",")):
            asked = named(arguments.jobs)
            left = tuple(one for one in left if f"{array.name}_{one}" in asked)
        if left:
            yield Waiting(array, left)


def is_asked(job: models.JobView, names: str | None, states: str | None) -> bool:
    """Whether a job is among those of ``--jobs`` and ``--states``."""
    is_named = names is None or names_of(job) & named(names)
    return bool(is_named) and is_state(job.state, states)
