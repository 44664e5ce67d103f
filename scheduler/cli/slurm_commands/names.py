"""What people and scripts name: jobs, arrays, and tasks of arrays (``train-3_7``, ``train-3_[2-5]``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.errors import NotFound
from gpucommons.scheduler.models.fields import name_by_itself
from gpucommons.scheduler.parents import TASK_INDEX

#: No job's name has a line below.
_TASK = re.compile(r"(?P<array>.+)_(?:(?P<index>\d{1,9})|\[(?P<several>[^\]]*)\])")
#: Between the names of a list; not between the tasks of one.
_COMMA = re.compile(r",(?![^\[]*\])")
_PAGE = 500


def number_of(job_id: str) -> int:
    """What a job or an array has as ``SLURM_JOB_ID``: programs read that as a number (``job_files/run``)."""
    return int(job_id[-7:], 16)


def shown_name(job: models.JobView) -> str:
    """As the commands of Slurm print it: of a task ``ARRAY_INDEX``."""
    index = None if job.request is None else job.request.env.get(TASK_INDEX)
    return job.name if job.part_of is None or index is None else f"{job.part_of.name}_{index}"


def name_of_script(job: models.JobView) -> str:
    """What it was called when it was submitted, without numbers."""
    return name_by_itself(job.name, None if job.part_of is None else job.part_of.kind)


def names_of(job: models.JobView, *, as_its_array: bool = True) -> set[str]:
    """By which it may be named: also as the array that it is of."""
    found = {job.name, job.id, shown_name(job), str(number_of(job.id))}
    if as_its_array and job.part_of is not None:
        found |= {job.part_of.name, job.part_of.id, str(number_of(job.part_of.id))}
    return found


def array_names(array: models.SweepView) -> set[str]:
    """By which an array may be named."""
    return {array.name, array.id, str(number_of(array.id))}


def named(text: str) -> set[str]:
    """What a list of names means: ``a-1,b-2_[0-1]`` are ``a-1``, ``b-2_0`` and ``b-2_1``."""
    found: set[str] = set()
    for ref in refs_of(text):
        task = _TASK.fullmatch(ref)
        several = quantities.indices(task["several"]) if task and task["several"] else None
        found |= (
            {ref} if task is None or several is None else {f"{task['array']}_{i}" for i in several}
        )
    return found


def refs_of(text: str) -> list[str]:
    """The names of a list."""
    return [ref for ref in _COMMA.split(text) if ref]


def live(scheduler: SchedulerClient, **of: str | None) -> Iterator[models.JobView]:
    """Jobs that are not over."""
    cursor: str | None = None
    while True:
        page = scheduler.send(calls.jobs(live=True, limit=_PAGE, cursor=cursor, **of))
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def live_arrays(
    scheduler: SchedulerClient, *, owner: str | None = None
) -> Iterator[models.SweepView]:
    """Arrays, and other sweeps and maps, that are not over."""
    cursor: str | None = None
    while True:
        page = scheduler.send(sweep_calls.sweeps(cursor, owner=owner, live=True))
        yield from page.sweeps
        cursor = page.cursor
        if cursor is None:
            return


def array_of(scheduler: SchedulerClient, ref: str) -> models.SweepView | None:
    """The array of this name; None where there is none."""
    if ref.isdecimal():
        newest = scheduler.send(sweep_calls.sweeps()).sweeps
        known = chain(newest, live_arrays(scheduler))
        ref = next((one.id for one in known if ref in array_names(one)), ref)
    try:
        return scheduler.send(sweep_calls.sweep(ref))
    except NotFound:
        return None


def jobs_of(scheduler: SchedulerClient, ref: str) -> list[models.JobView]:
    """The job of this name, or the jobs of this array that are begun; of its tasks, see :func:`tasks_of`.

    Raises
    ------
    NotFound, BadRequest
        When there is nothing of that name.
    """
    if ref.isdecimal():
        return _with_number(scheduler, ref)
    try:
        return [scheduler.send(calls.job(ref))]
    except NotFound:
        array = array_of(scheduler, ref)
        if array is None:
            raise
    return _begun_jobs(scheduler, array)


def _with_number(scheduler: SchedulerClient, number: str) -> list[models.JobView]:
    newest = chain(live(scheduler), scheduler.send(calls.jobs(limit=_PAGE)).jobs)
    found = {job.id: job for job in newest if number in names_of(job)}
    if found:
        return [*found.values()]
    array = array_of(scheduler, number)
    if array is None:
        message = (
            f"No job that goes on, and none of the newest {_PAGE}, has the number {number}. Name it as"
            " sbatch did: train-3."
        )
        raise NotFound(message)
    return _begun_jobs(scheduler, array)


def job_ids(array: models.SweepView) -> list[str]:
    """Of those that have begun."""
    return [one.job_id for one in array.trials if one.job_id]


def _begun_jobs(scheduler: SchedulerClient, array: models.SweepView) -> list[models.JobView]:
    return [scheduler.send(calls.job(one)) for one in job_ids(array)]


class Tasks(NamedTuple):
    """Of an array, as somebody named them."""

    array: models.SweepView
    #: Of those that have begun; of a number that several tasks have, of each of them.
    jobs: Sequence[str]
    #: Numbers of those that are to begin.
    unbegun: Sequence[int]
    #: Numbers of those that were ended before they began.
    never: Sequence[int]


def tasks_of(scheduler: SchedulerClient, ref: str) -> Tasks | None:
    """The tasks of an array that are named; None where it is the name of something else.

    Raises
    ------
    NotFound
        When an array has no such task.
    """
    task = _TASK.fullmatch(ref)
    if task is None:
        return None
    name, several = task["array"], task["several"]
    indices = (int(task["index"]),) if several is None else quantities.indices(several)
    array = array_of(scheduler, name)
    known = set[int]() if array is None else _numbers(array)
    strange = [index for index in indices if index not in known]
    if array is None or strange:
        raise NotFound(f"{name}_{strange[0]}: there is no such task of an array.")
    jobs = jobs_by_index(array)
    never = [index for index in indices if index in array.never_begun]
    unbegun = [
        index
        for index in indices
        if index in array.unbegun or (index not in jobs and index not in never)
    ]
    return Tasks(array, [job for index in indices for job in jobs.get(index, ())], unbegun, never)


def _numbers(array: models.SweepView) -> set[int]:
    return {*array.unbegun, *array.never_begun, *(one.number for one in array.trials)}


def jobs_by_index(array: models.SweepView) -> dict[int, list[str]]:
    """By the numbers of their tasks. Nothing keeps a list of jobs from giving several the same number."""
    found: dict[int, list[str]] = {}
    for one in array.trials:
        if one.job_id:
            found.setdefault(one.number, []).append(one.job_id)
    return found


def begun_of(tasks: Tasks) -> Sequence[str]:
    """The jobs of tasks that have all begun, or never do.

    Raises
    ------
    NotFound
        Where one has yet to begin.
    """
    if tasks.unbegun:
        message = f"{tasks.array.name}_{tasks.unbegun[0]} has not begun: it waits for the limit of its array."
        raise NotFound(message)
    return tasks.jobs
