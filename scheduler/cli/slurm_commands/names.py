"""What people and scripts name: jobs, arrays, and tasks of arrays (``train-3_7``, ``train-3_[2-5]``)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models.fields import name_by_itself
from gpucommons.scheduler.parents import TASK_INDEX

#: No job's name has a line below.
_TASK = re.compile(r"(?P<array>.+)_(?:(?P<index>\d{1,9})|\[(?P<several>[^\]]*)\])")
#: Between the names of a list; not between the tasks of one.
_COMMA = re.compile(r",(?![^\[]*\])")
#: Of a job: others that must be over, however they ended.
_ANY_END = "after_any"
#: So many jobs one can wait for.
_MOST_WAITED = 64
_PATIENCE_S, _STEP_S = 30.0, 0.2
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
    return [scheduler.send(calls.job(one.job_id)) for one in array.trials if one.job_id]


def _with_number(scheduler: SchedulerClient, number: str) -> list[models.JobView]:
    found = [job for job in live(scheduler) if number in names_of(job)]
    if not found:
        message = f"No job that goes on has the number {number}. Name it as sbatch did: train-3."
        raise NotFound(message)
    return found


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
    jobs = _jobs_by_index(array)
    never = [index for index in indices if index in array.never_begun]
    unbegun = [
        index
        for index in indices
        if index in array.unbegun or (index not in jobs and index not in never)
    ]
    return Tasks(array, [job for index in indices for job in jobs.get(index, ())], unbegun, never)


def _numbers(array: models.SweepView) -> set[int]:
    return {*array.unbegun, *array.never_begun, *(one.number for one in array.trials)}


def _jobs_by_index(array: models.SweepView) -> dict[int, list[str]]:
    """Nothing keeps a list of jobs from giving several the same number."""
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


def waited(
    scheduler: SchedulerClient,
    asked: Mapping[str, tuple[str, ...]],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Sequence[str]]:
    """The jobs behind what a script waits for; those of an array once they are all in line.

    Raises
    ------
    BadRequest
        Where an array is too large for that, begins few at once, or has tasks that never began and are to
        end in a certain way.
    """
    found: dict[str, Sequence[str]] = {}
    for field, refs in asked.items():
        found[field] = [job for ref in refs for job in _begun(scheduler, ref, field, sleep)]
        if len(found[field]) > _MOST_WAITED:
            message = (
                f"--dependency: {', '.join(refs)} are {len(found[field])} jobs, and one can wait for"
                f" {_MOST_WAITED}. Wait for one job that comes after them, or use a pipeline."
            )
            raise BadRequest(message)
    return found


def corresponding(
    scheduler: SchedulerClient,
    ref: str,
    indices: Sequence[int],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """For each index the job of the array's task of that index, once they are all in line.

    Raises
    ------
    NotFound, BadRequest
        Where there is no such array, it begins few at once, or has no such tasks.
    """
    array = array_of(scheduler, ref)
    if array is None:
        message = f"--dependency=aftercorr:{ref}: there is no array of this name."
        raise NotFound(message)
    jobs = _jobs_by_index(_all_begun(scheduler, array, sleep))
    lacking = [index for index in indices if len(jobs.get(index, ())) != 1]
    if lacking:
        what = f"several tasks {lacking[0]}" if lacking[0] in jobs else f"no task {lacking[0]}"
        message = (
            f"--dependency=aftercorr:{ref}: {array.name} has {what} to wait for. Give both the same"
            " --array, or wait for all of it with afterok."
        )
        raise BadRequest(message)
    return [jobs[index][0] for index in indices]


def _begun(
    scheduler: SchedulerClient, ref: str, field: str, sleep: Callable[[float], None]
) -> Sequence[str]:
    tasks = tasks_of(scheduler, ref)
    if tasks is not None:
        _check_began(tasks.array, tasks.never, field)
        return begun_of(tasks)
    try:
        return [scheduler.send(calls.job(ref)).id]
    except NotFound:
        array = array_of(scheduler, ref)
        if array is None:
            raise
    array = _all_begun(scheduler, array, sleep)
    _check_began(array, array.never_begun, field)
    return _job_ids(array)


def _job_ids(array: models.SweepView) -> list[str]:
    return [one.job_id for one in array.trials if one.job_id]


def _check_began(array: models.SweepView, never: Sequence[int], field: str) -> None:
    """What never began is over, and ended neither well nor badly."""
    if never and field != _ANY_END:
        message = (
            f"--dependency: {array.name}_[{quantities.ranges(sorted(set(never)))}] never began and never"
            " will: afterok and afternotok cannot wait for that. Name the other tasks, or use afterany."
        )
        raise BadRequest(message)


def _all_begun(
    scheduler: SchedulerClient, array: models.SweepView, sleep: Callable[[float], None]
) -> models.SweepView:
    for _ in range(int(_PATIENCE_S / _STEP_S)):
        if len(_job_ids(array)) + len(array.never_begun) == array.trials_of:
            return array
        if array.max_parallel or array.ended_ms is not None:
            break
        sleep(_STEP_S)
        array = scheduler.send(sweep_calls.sweep(array.id))
    message = (
        f"--dependency: {array.name} has begun {array.begun} of its {array.trials_of} jobs, and one can wait"
        " only for those that are in line. Leave % out of its --array, or use a pipeline."
    )
    raise BadRequest(message)
