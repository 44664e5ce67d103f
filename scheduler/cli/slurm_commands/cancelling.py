"""``gpucommons scancel``: jobs, tasks of arrays, and whatever its options leave of them."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.connect import connect
from gpucommons.scheduler.cli.present import say, show
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.elsewhere import add_not_here
from gpucommons.scheduler.cli.slurm_commands.names import (
    array_of,
    jobs_of,
    live,
    live_arrays,
    name_of_script,
    names_of,
    shown_name,
    tasks_of,
)
from gpucommons.scheduler.cli.slurm_commands.states import is_state, take_states
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.errors import BadRequest, Conflict
from gpucommons.scheduler.models.fields import base_name

_LEAVE_OUT = "--user, --name, --states, --account or --partition leaves it out"
_NOT_HERE = {
    "-s --signal": "a job is told with the signal that its --signal names, then with SIGTERM, when it is stopped:"
    " gpucommons pause stops it and keeps it for later",
    "-i --interactive": "nothing is asked; gpucommons squeue takes the same options and shows which they are",
    "-w --nodelist": "gpucommons nodes says who holds what of a node; name those jobs",
    "-q --qos": "gpucommons squeue -o '%%i %%q' prints each job's; name those jobs",
    "-M --clusters": "there is one scheduler",
}


def add_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add ``scancel``."""
    found = commands.add_parser("scancel", parents=[shared], help="cancel jobs")
    found.add_argument("jobs", nargs="*", metavar="JOB")
    whose = found.add_mutually_exclusive_group()
    whose.add_argument("-u", "--user", help="all of theirs; of named jobs only theirs")
    whose.add_argument("--me", action="store_true", help="all of yours; of named jobs only yours")
    found.add_argument(
        "-n", "--name", "--jobname", help="only those whose name without its number is this"
    )
    found.add_argument("-t", "--states", metavar="PD,R", help="only in these states")
    found.add_argument("-A", "--account", metavar="TEAM", help="only of this team")
    found.add_argument("-p", "--partition", metavar="POOL", help="only of this pool")
    for names in ("-v --verbose", "-Q --quiet", "-f --full", "-b --batch"):
        found.add_argument(*names.split(), action="store_true", help=argparse.SUPPRESS)
    add_not_here(found, _NOT_HERE)
    found.set_defaults(run=scancel)


def _filters(arguments: argparse.Namespace) -> bool:
    """Whether options say which jobs, or which of the named ones."""
    given = (
        arguments.user,
        arguments.name,
        arguments.states,
        arguments.account,
        arguments.partition,
    )
    return arguments.me or any(given)


def scancel(arguments: argparse.Namespace) -> int:
    """Cancel jobs, named or all that the options leave."""
    take_states(arguments)
    if not (arguments.jobs or _filters(arguments)):
        raise BadRequest(
            "Name the jobs to cancel, or say which with --me, --user, --name or --states."
        )
    unbegun: list[str] = []
    with connect(arguments) as scheduler:
        if arguments.me:
            arguments.user = scheduler.send(calls.whoami()).name
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
    if _are_left(array, arguments):
        if numbers:
            request = models.LeaveOutRequest(numbers=list(numbers))
            scheduler.send(sweep_calls.leave_out(array.id, request))
        yield _never_begin(array, {*numbers, *never})
    else:
        say(f"{_tasks(array, {*numbers, *never})} is not cancelled: {_LEAVE_OUT}.")


def _are_left(array: models.SweepView, arguments: argparse.Namespace) -> bool:
    """Whether the options mean its tasks that have not begun."""
    pools = array.request.pools if array.request else None
    return (
        arguments.user in (None, array.owner)
        and arguments.name in (None, base_name(array.name))
        and arguments.account in (None, array.team)
        and (arguments.partition is None or arguments.partition in (pools or ()))
        and is_state("queued", arguments.states)
    )


def _tasks(array: models.SweepView, numbers: Collection[int]) -> str:
    text = quantities.ranges(sorted(numbers))
    return f"{array.name}_[{text}]" if len(numbers) > 1 else f"{array.name}_{text}"


def _never_begin(array: models.SweepView, numbers: Collection[int]) -> str:
    they = "they" if len(numbers) > 1 else "it"
    return f"{_tasks(array, numbers)} cancelled before {they} began"


def _cancelled(
    scheduler: SchedulerClient, arguments: argparse.Namespace, unbegun: list[str]
) -> Iterator[models.JobView]:
    owner = arguments.user or scheduler.send(calls.whoami()).name
    # First what would come in the place of those that end.
    for array in list(live_arrays(scheduler, owner=owner)):
        if _are_left(array, arguments):
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
        if not (_filters(arguments) or _is_one(found, ref)):
            unbegun += _stop_array(scheduler, ref, found)
        for job in found:
            if not _is_to_be_cancelled(job, arguments):
                say(f"{shown_name(job)} is not cancelled: {_LEAVE_OUT}.")
                continue
            try:
                yield scheduler.send(calls.cancel(job.id))
            except Conflict:
                if _is_one(found, ref):
                    raise  # else it is one of an array, and ended before


def _is_one(found: list[models.JobView], ref: str) -> bool:
    """Whether a job is named, and neither an array nor several tasks of one."""
    return len(found) == 1 and ref in names_of(found[0], as_its_array=False)


def _stop_array(scheduler: SchedulerClient, ref: str, found: list[models.JobView]) -> Iterator[str]:
    """So that nothing more of it is begun; tasks that are named end alone."""
    if "_" in ref:
        return
    parents = {job.part_of.id for job in found if job.part_of is not None}
    array = array_of(scheduler, parents.pop() if parents else ref)
    if array is not None and array.ended_ms is None:
        scheduler.send(sweep_calls.stop_sweep(array.id))
        if array.unbegun:
            yield _never_begin(array, array.unbegun)


def _is_to_be_cancelled(job: models.JobView, arguments: argparse.Namespace) -> bool:
    pools = job.pools if job.pool is None else [job.pool]
    return (
        arguments.user in (None, job.owner)
        and arguments.name in (None, name_of_script(job))
        and arguments.account in (None, job.team)
        and (arguments.partition is None or arguments.partition in pools)
        and is_state(job.state, arguments.states)
    )
