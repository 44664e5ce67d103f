"""The job of a trial: submitted as its sweep's owner, under a key made of sweep and number."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.models.jobs.jobs import ORIGIN_LABEL
from gpucommons.scheduler.parents import Parent
from gpucommons.scheduler.service.jobs import run_again
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.sweeps.sweep import Sweep, Trial


def submit_trial(service: Service, sweep: Sweep, trial: Trial) -> models.JobView:
    """Submit the job of a trial as its sweep's owner; a repeated call answers with the same job.

    Raises
    ------
    Unavailable
        While it is not known who its owner is today, or nothing can be stored.
    SchedulerError
        When the job is refused.
    """
    owner = owner_of(service, sweep.owner, by_operator=sweep.by_operator, server=sweep.server)
    job = run_again.stored_request(sweep.request, of=sweep.name, remedy="start the sweep anew")
    label = {ORIGIN_LABEL: f"{sweep.kind.value} {sweep.name}"}
    after = [*job.after, *sweep.after_each[trial.number - 1 : trial.number]]
    job = run_again.with_values(job, trial.values, sweep.values_as).model_copy(
        update={"name": sweep.name, "labels": {**job.labels, **label}, "after": after}
    )
    part_of = Parent(
        parent_id=sweep.sweep_id, kind=sweep.kind, name=sweep.name, number=trial.shown_number
    )
    key = _key(sweep, trial)
    return run_again.submit_of_parent(service, owner, job, key=key, part_of=part_of)


def job_of_trial(service: Service, sweep: Sweep, trial: Trial) -> Workload | None:
    """The job that :func:`submit_trial` made of this trial; None where it made none."""
    return run_again.scheduled_job(service, sweep.owner, key=_key(sweep, trial))


def _key(sweep: Sweep, trial: Trial) -> str:
    return f"{sweep.kind.value}-{sweep.sweep_id}-{trial.number}"
