"""A step whose turn has come: its job, submitted as its owner of today under a key of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.parents import Parent, ParentId, ParentKind
from gpucommons.scheduler.pipelines.next_steps import try_of
from gpucommons.scheduler.pipelines.pipeline import Pipeline, Step, StepName
from gpucommons.scheduler.service.jobs import run_again
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.jobs.submit_limits import check_hour
from gpucommons.scheduler.service.pipelines.copies import Copies
from gpucommons.scheduler.service.pipelines.inputs import Wanted, with_inputs
from gpucommons.scheduler.service.service import Service


def submit_step(
    service: Service,
    pipeline: Pipeline,
    step: Step,
    jobs: Mapping[StepName, WorkloadId],
    copies: Copies,
) -> models.JobView | None:
    """Submit the job of a step; a repeated call answers with the same job.

    ``jobs`` are those of the steps that it reads. None while what it reads is being copied: call again.

    Raises
    ------
    Unavailable, TooManyRequests
        While it is not known who its owner is today, what it reads cannot be read, or its owner has
        submitted or brought too much.
    SchedulerError
        When the job is refused.
    """
    owner = owner_of(
        service, pipeline.owner, by_operator=pipeline.by_operator, server=pipeline.server
    )
    request = stored_request(step)
    number = try_of(pipeline, step.name)
    key = key_of(pipeline, step.name, number)
    if step.inputs and job_of(service, pipeline, step.name, number) is None:
        # Who may submit no more for now has nothing copied either.
        check_hour(service, owner.name, size_bytes=0)
        wanted = [
            Wanted(job=jobs[each.step], step=each.step, path=each.path, to=each.to)
            for each in step.inputs
        ]
        copy = partial(with_inputs, service, owner, request.snapshot, wanted)
        snapshot = copies.snapshot(key, owner.name, copy)
        if snapshot is None:
            return None
        if not service.snapshots.has(snapshot):
            copies.forget(key)  # it has waited for so long that it is gone
            return None
        request = request.model_copy(update={"snapshot": snapshot})
    part_of = Parent(
        parent_id=ParentId(pipeline.pipeline_id),
        kind=ParentKind.PIPELINE,
        name=pipeline.name,
        number=pipeline.steps.index(step) + 1,
    )
    made = run_again.submit_of_parent(service, owner, request, key=key, part_of=part_of)
    copies.forget(key)
    return made


def job_of(service: Service, pipeline: Pipeline, step: StepName, number: int) -> Workload | None:
    """The job that :func:`submit_step` made of a try; None where it made none."""
    key = key_of(pipeline, step, number)
    return run_again.scheduled_job(service, pipeline.owner, key=key)


def key_of(pipeline: Pipeline, step: StepName, number: int) -> str:
    """What makes a repeated submit harmless."""
    return f"pipeline-{pipeline.pipeline_id}-{step}-{number}"


def stored_request(step: Step) -> models.JobRequest:
    """The job that a step is."""
    return run_again.stored_request(step.request, of=step.name, remedy="run the pipeline anew")
