"""What people and scripts name: jobs, arrays, and tasks of arrays (``train-3_7``)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls, sweep_calls
from gpucommons.scheduler.errors import BadRequest, NotFound

#: What a task of an array is told is its index.
INDEX = "SLURM_ARRAY_TASK_ID"
#: No job's name has a line below.
_TASK = re.compile(r"(?P<array>.+)_(?P<index>\d{1,9})")
#: So many jobs one can wait for.
_MOST_WAITED = 64
_PATIENCE_S, _STEP_S = 30.0, 0.2


def array_of(scheduler: SchedulerClient, ref: str) -> models.SweepView | None:
    """The array of this name; None where there is none."""
    try:
        return scheduler.send(sweep_calls.sweep(ref))
    except NotFound:
        return None


def jobs_of(scheduler: SchedulerClient, ref: str) -> list[models.JobView]:
    """The job of this name, the jobs of this array that are begun, or this task of one.

    Raises
    ------
    NotFound, BadRequest
        When there is nothing of that name.
    """
    task = _TASK.fullmatch(ref)
    if task is not None:
        return [scheduler.send(calls.job(_task(scheduler, task["array"], int(task["index"]))))]
    try:
        return [scheduler.send(calls.job(ref))]
    except NotFound:
        array = array_of(scheduler, ref)
        if array is None:
            raise
    return [scheduler.send(calls.job(one.job_id)) for one in array.trials if one.job_id]


def _task(scheduler: SchedulerClient, name: str, index: int) -> str:
    array = array_of(scheduler, name)
    trials = () if array is None else array.trials
    found = next((one for one in trials if str(one.values.get(INDEX)) == str(index)), None)
    if found is None or found.job_id is None:
        message = f"{name}_{index}: there is no such task of an array, or it is not begun yet."
        raise NotFound(message)
    return found.job_id


def waited(
    scheduler: SchedulerClient,
    asked: Mapping[str, tuple[str, ...]],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, list[str]]:
    """The jobs behind what a script waits for; those of an array once they are all in line.

    Raises
    ------
    BadRequest
        Where an array is too large for that, or begins few at once.
    """
    found: dict[str, list[str]] = {}
    for field, refs in asked.items():
        found[field] = [job for ref in refs for job in _begun(scheduler, ref, sleep)]
        if len(found[field]) > _MOST_WAITED:
            message = (
                f"--dependency: {', '.join(refs)} are {len(found[field])} jobs, and one can wait for"
                f" {_MOST_WAITED}. Wait for one job that comes after them, or use a pipeline."
            )
            raise BadRequest(message)
    return found


def _begun(scheduler: SchedulerClient, ref: str, sleep: Callable[[float], None]) -> list[str]:
    task = _TASK.fullmatch(ref)
    if task is not None:
        return [_task(scheduler, task["array"], int(task["index"]))]
    try:
        return [scheduler.send(calls.job(ref)).id]
    except NotFound:
        array = array_of(scheduler, ref)
        if array is None:
            raise
    return _all_begun(scheduler, array, sleep)


def _all_begun(
    scheduler: SchedulerClient, array: models.SweepView, sleep: Callable[[float], None]
) -> list[str]:
    for _ in range(int(_PATIENCE_S / _STEP_S)):
        ids = [one.job_id for one in array.trials if one.job_id]
        if len(ids) == array.trials_of:
            return ids
        if array.max_parallel or array.ended_ms is not None:
            break
        sleep(_STEP_S)
        array = scheduler.send(sweep_calls.sweep(array.id))
    message = (
        f"--dependency: {array.name} has begun {array.begun} of its {array.trials_of} jobs, and one can wait"
        " only for those that are in line. Leave % out of its --array, or use a pipeline."
    )
    raise BadRequest(message)
