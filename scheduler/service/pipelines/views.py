"""A pipeline as everyone sees it: its steps with their jobs, and where a retry would begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.types import State, Workload, WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.models.text.job_summary import what_runs
from gpucommons.scheduler.pipelines.next_steps import as_of_now, children_of
from gpucommons.scheduler.pipelines.pipeline import (
    UNDONE,
    Piped,
    Standing,
    Step,
    StepStanding,
    StepState,
)
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.lookup import also_ended
from gpucommons.scheduler.service.pipelines.steps import stored_request
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.drills import way_view
from gpucommons.scheduler.service.views.where_it_runs import asks_simulated

_IN_LINE = frozenset({State.QUEUED, State.NOMINATED, State.PAUSED})
_FAILED = frozenset({StepState.FAILED, StepState.REFUSED, StepState.BLOCKED})


def pipeline_views(
    service: Service, principal: Principal, found: Sequence[Piped]
) -> list[models.PipelineView]:
    """Several, each with all of its steps, as their jobs are now; those are looked up together."""
    jobs = _jobs(service, found)
    return [_view(service, principal, piped, jobs) for piped in found]


def pipeline_view(service: Service, principal: Principal, piped: Piped) -> models.PipelineView:
    """One pipeline with all of its steps, as their jobs are now."""
    return pipeline_views(service, principal, [piped])[0]


def _view(
    service: Service, principal: Principal, piped: Piped, jobs: Mapping[WorkloadId, Workload]
) -> models.PipelineView:
    piped = _as_of(service, piped, jobs)
    found, standing = piped.pipeline, piped.standing
    return models.PipelineView(
        name=found.name,
        owner=found.owner,
        team=found.team,
        state=state_of(standing),
        submitted_ms=found.submitted_ms,
        ended_ms=standing.ended_ms,
        steps=[_step_view(service, piped, step, jobs) for step in found.steps],
        simulated=any(_is_simulated(service, step) for step in found.steps),
        retry_from=_retry_from(piped),
        mine=found.owner == authorization.sight.own_name(principal),
        steerable=authorization.sight.steers(principal, found.team, found.owner),
    )


def _is_simulated(service: Service, step: Step) -> bool:
    try:
        return asks_simulated(service.loop.cluster, stored_request(step))
    except Misconfigured:
        return False  # its own line says that it is not understood


def as_it_stands(service: Service, piped: Piped) -> Piped:
    """One as its jobs are now, whatever was recorded of it last."""
    return _as_of(service, piped, _jobs(service, [piped]))


def _as_of(service: Service, piped: Piped, jobs: Mapping[WorkloadId, Workload]) -> Piped:
    return as_of_now(piped, children_of(piped, jobs), service.now_ms())


def _jobs(service: Service, found: Sequence[Piped]) -> Mapping[WorkloadId, Workload]:
    """Of all of their steps, those that are not forgotten."""
    return also_ended(
        service, (step.job for piped in found for step in piped.standing.steps.values())
    )


def state_of(standing: Standing) -> str:
    """In one word."""
    if standing.ended_ms is None:
        return "running"
    states = {each.state for each in standing.steps.values()}
    if states & _FAILED:
        return "failed"
    return "cancelled" if StepState.CANCELLED in states else "succeeded"


def _retry_from(piped: Piped) -> str | None:
    """The first step that did not come about, those before being done."""
    for step in piped.pipeline.steps:
        state = piped.standing.steps.get(step.name, StepStanding()).state
        if state in UNDONE and state is not StepState.BLOCKED:
            return step.name
    return None


def _step_view(
    service: Service, piped: Piped, step: Step, jobs: Mapping[WorkloadId, Workload]
) -> models.StepView:
    stands = piped.standing.steps.get(step.name, StepStanding())
    job = None if stands.job is None else jobs.get(stands.job)
    try:
        what = what_runs(stored_request(step))
    except Misconfigured as error:
        what = str(error)
    return models.StepView(
        name=step.name,
        state=stands.state.value,
        text=stands.text or ("" if job is None else _why_it_waits(service, job)),
        what=what,
        after={name: needs.value for name, needs in step.after.items()},
        inputs=[
            models.InputView(step=each.step, path=each.path, to=each.to) for each in step.inputs
        ],
        retries=stands.number,
        job_id=stands.job,
        job_name=stands.job_name,
        job_state=None if job is None else job.state.value,
        started_ms=None if job is None or not job.attempts else job.attempts[0].started_ms,
        ended_ms=None if job is None else job.ended_ms,
        ended_text="" if job is None else job.ended_text or "",
        version=None if job is None else job.spec.snapshot,
    )


def _why_it_waits(service: Service, job: Workload) -> str:
    """As its own page says it: also of one that was stopped in its middle and is in line again."""
    if job.state not in _IN_LINE:
        return ""
    way = way_view(job, service.loop.cluster, service.now_ms()) if job.attempts else None
    reason = "" if job.reason is None else job.reason.text
    goes_on = "" if way is None or way.in_reason else f"{way.text[:1].upper()}{way.text[1:]}."
    return " ".join(filter(None, (goes_on, reason)))
