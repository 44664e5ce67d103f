"""What a script waits for, as jobs: those named, those of arrays, those of its own name."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.cli.slurm_commands import quantities
from gpucommons.scheduler.cli.slurm_commands.names import (
    array_of,
    begun_of,
    job_ids,
    jobs_by_index,
    live,
    live_arrays,
    name_of_script,
    tasks_of,
)
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.errors import BadRequest, NotFound
from gpucommons.scheduler.models.fields import base_name

#: Of a job: others that must be over, however they ended.
ANY_END = "after_any"
#: So many jobs one can wait for.
_MOST_WAITED = 64
_PATIENCE_S, _STEP_S = 30.0, 0.2


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
        _check_number(", ".join(refs), found[field])
    return found


def same_name(
    scheduler: SchedulerClient,
    name: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """The caller's jobs of this name that are not over, arrays' too: ``singleton`` waits for them.

    Raises
    ------
    BadRequest
        Where there are too many, or an array of this name begins few at once.
    """
    owner = scheduler.send(calls.whoami()).name
    arrays = [one for one in live_arrays(scheduler, owner=owner) if base_name(one.name) == name]
    found = {job for array in arrays for job in job_ids(_all_begun(scheduler, array, sleep))}
    found |= {job.id for job in live(scheduler, owner=owner) if name_of_script(job) == name}
    _check_number(f"with singleton, those called {name}", found)
    return sorted(found)


def _check_number(what: str, jobs: Collection[str]) -> None:
    if len(jobs) > _MOST_WAITED:
        message = (
            f"--dependency: {what} are {len(jobs)} jobs, and one can wait for {_MOST_WAITED}. Wait for one job"
            " that comes after them, or use a pipeline."
        )
        raise BadRequest(message)


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
    jobs = jobs_by_index(_all_begun(scheduler, array, sleep))
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
    return job_ids(array)


def _check_began(array: models.SweepView, never: Sequence[int], field: str) -> None:
    """What never began is over, and ended neither well nor badly."""
    if never and field != ANY_END:
        message = (
            f"--dependency: {array.name}_[{quantities.ranges(sorted(set(never)))}] never began and never"
            " will: afterok and afternotok cannot wait for that. Name the other tasks, or use afterany."
        )
        raise BadRequest(message)


def _all_begun(
    scheduler: SchedulerClient, array: models.SweepView, sleep: Callable[[float], None]
) -> models.SweepView:
    for _ in range(int(_PATIENCE_S / _STEP_S)):
        if len(job_ids(array)) + len(array.never_begun) == array.trials_of:
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
