"""Use cases about pipelines: run, look, begin anew from a step, cancel a step and what is below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import Cancel, NoteSchedule
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import TeamName, UserName
from gpucommons.scheduler.errors import (
    BadRequest,
    InvalidTransition,
    Misconfigured,
    NotFound,
)
from gpucommons.scheduler.pipelines.graph import below
from gpucommons.scheduler.pipelines.next_steps import try_of
from gpucommons.scheduler.pipelines.pipeline import (
    OVER,
    UNDONE,
    Piped,
    Pipeline,
    PipelineId,
    Standing,
    StepName,
    StepStanding,
    StepState,
    too_many,
)
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs.owners import owner_of
from gpucommons.scheduler.service.pipelines.steps import job_of, stored_request
from gpucommons.scheduler.service.pipelines.views import as_it_stands, pipeline_view, pipeline_views
from gpucommons.scheduler.service.pipelines.writing import steps_of
from gpucommons.scheduler.service.service import Service

#: Of one user that are remembered; the oldest that is over makes room.
MAX_PIPELINES = 100
#: On a page of the list.
MAX_LISTED = 50


def submit_pipeline(
    service: Service, principal: Principal, request: models.PipelineRequest, *, key: str | None
) -> models.PipelineView:
    """Run a pipeline: its first steps start as soon as the scheduler looks. A repeated call runs no other."""
    authorization.pipelines.submit_pipeline(principal)
    intent = service.asked(principal, NoteSchedule, key=key, request=request)
    mine = service.store.pipelines.of(principal.name)
    made = None
    if intent is None:
        _check_room(mine)
        made = _written(service, principal, request, _new_name(mine, request.name))
        intent = service.ask(principal, _note(made, "run", ""), key=key, request=request)
    first = intent.action
    assert isinstance(first, NoteSchedule)  # noqa: S101 - the fingerprint names the kind of action
    name, pipeline_id = first.data["name"], PipelineId(first.data["id"])
    if all(one.pipeline.pipeline_id != pipeline_id for one in mine):
        # Now, or by a scheduler that died before it stored what it had put on record.
        made = made or _written(service, principal, request, name)
        made = replace(made, pipeline_id=pipeline_id, name=name)
        service.store.pipelines.put(made, next_ms=service.now_ms(), most=MAX_PIPELINES)
    return pipeline(service, principal, principal.name, name)


def _written(
    service: Service,
    principal: Principal,
    request: models.PipelineRequest,
    name: str,
) -> Pipeline:
    by_operator = principal.kind is PrincipalKind.LOCAL and principal.admin
    runs_as = owner_of(
        service, principal.name, by_operator=by_operator, server=principal.server_name
    )
    steps = steps_of(service, principal, runs_as, name, request)
    teams = {stored_request(step).team for step in steps}
    if len(teams) > 1:
        names = ", ".join(sorted(str(team) for team in teams))
        message = f"team: a pipeline is of one team, and these steps are of {names}."
        raise Misconfigured(message)
    return Pipeline(
        pipeline_id=PipelineId(next(service.new_ids)),
        name=name,
        owner=principal.name,
        team=TeamName(teams.pop() or ""),
        submitted_ms=service.now_ms(),
        steps=steps,
        by_operator=by_operator,
        server=principal.server_name,
    )


def _new_name(mine: Sequence[Piped], base: str) -> str:
    """Numbered on."""
    numbers = [
        int(number)
        for one in mine
        for name, _, number in [one.pipeline.name.rpartition("-")]
        if name == base and number.isdigit()
    ]
    return f"{base}-{max(numbers, default=0) + 1}"


def _check_room(mine: Sequence[Piped]) -> None:
    """Before anything is checked and put on record; the store counts again, and makes the room."""
    if len(mine) >= MAX_PIPELINES and all(one.standing.ended_ms is None for one in mine):
        raise too_many(len(mine))


def pipelines(
    service: Service,
    principal: Principal,
    *,
    name: str | None = None,
    limit: int = MAX_LISTED,
    cursor: str | None = None,
) -> models.PipelineList:
    """A page of those that the caller may see, newest first; with a name those that are called so."""
    authorization.pipelines.pipelines(principal)
    sight = authorization.sight.of(principal)
    before = None if cursor is None else PipelineId(cursor)
    found = service.store.pipelines.page(sight, before=before, limit=limit + 1, name=name)
    last = found[limit - 1].pipeline if len(found) > limit else None
    return models.PipelineList(
        pipelines=pipeline_views(service, principal, found[:limit]),
        cursor=None if last is None else last.pipeline_id,
    )


def pipeline(service: Service, principal: Principal, owner: str, name: str) -> models.PipelineView:
    """One pipeline."""
    return pipeline_view(service, principal, _find(service, principal, owner, name))


def retry_pipeline(
    service: Service, principal: Principal, owner: str, name: str, ref: models.StepRef
) -> models.PipelineView:
    """Begin a step anew that did not come about, and all that need it; without one: each of those."""
    piped = as_it_stands(service, _find(service, principal, owner, name))
    found = piped.pipeline
    authorization.pipelines.retry_pipeline(principal, found)
    roots = _to_retry(piped) if ref.step is None else {_step(found, ref.step)}
    for root in roots:
        state = _stands(piped, root).state
        if state not in UNDONE:
            message = (
                f"{root} of {found.name} is {state.value}: only what did not come about is retried."
            )
            raise InvalidTransition(message)
    if not roots:
        message = f"Nothing of {found.name} failed or was cancelled, so there is nothing to retry."
        raise InvalidTransition(message)
    anew = frozenset().union(*(below(found.steps, root) for root in roots))
    _cancel_jobs(service, principal, found, anew)
    retried = {**found.retried, **{step: try_of(found, step) + 1 for step in anew}}
    changed = replace(found, retried=retried, cancelled=found.cancelled - anew)
    return _changed(service, principal, piped, changed, "retried")


def cancel_pipeline(
    service: Service, principal: Principal, owner: str, name: str, ref: models.StepRef
) -> models.PipelineView:
    """Cancel a step that is not over and all that need it; without one: the whole pipeline."""
    piped = as_it_stands(service, _find(service, principal, owner, name))
    found = piped.pipeline
    authorization.pipelines.cancel_pipeline(principal, found)
    wanted = (
        frozenset(step.name for step in found.steps)
        if ref.step is None
        else below(found.steps, _step(found, ref.step))
    )
    if all(_stands(piped, step).state in OVER for step in wanted):
        message = f"{ref.step or found.name} is over: nothing of it can be cancelled any more."
        raise InvalidTransition(message)
    changed = replace(found, cancelled=found.cancelled | wanted)
    return _changed(service, principal, piped, changed, "cancelled")


def _cancel_jobs(
    service: Service, principal: Principal, found: Pipeline, steps: Iterable[StepName]
) -> None:
    """Of tries that are given up nothing goes on."""
    for step in steps:
        job = job_of(service, found, step, try_of(found, step))
        if job is not None and not is_final(job):
            service.ask(principal, Cancel(workload_id=job.workload_id))


def _to_retry(piped: Piped) -> set[StepName]:
    """What did not come about by itself; what is blocked comes with that."""
    return {
        step.name
        for step in piped.pipeline.steps
        if _stands(piped, step.name).state in UNDONE - {StepState.BLOCKED}
    }


def _stands(piped: Piped, step: StepName) -> StepStanding:
    return piped.standing.steps.get(step, StepStanding())


def _step(found: Pipeline, name: str) -> StepName:
    if not any(step.name == name for step in found.steps):
        steps = ", ".join(step.name for step in found.steps)
        raise BadRequest(f"step: {found.name} has no {name!r}. Steps: {steps}.")
    return StepName(name)


def _changed(
    service: Service, principal: Principal, piped: Piped, changed: Pipeline, change: str
) -> models.PipelineView:
    if changed != piped.pipeline:
        service.ask(principal, _note(changed, change, f" was {change}"))
        with service.refusal_on_record(
            principal, lambda error: _note(changed, change, f" was not {change}: {error}")
        ):
            service.store.pipelines.put(changed, next_ms=service.now_ms(), before=piped.pipeline)
    return pipeline_view(service, principal, replace(piped, pipeline=changed))


def note_over(service: Service, principal: Principal, found: Pipeline, standing: Standing) -> None:
    """Put on record what became of its steps; once until its owner begins one anew."""
    became = Counter(each.state for each in standing.steps.values())
    counts = ", ".join(f"{count} {state}" for state, count in became.most_common())
    undone = sum(count for state, count in became.items() if state in UNDONE)
    tries = sum(found.retried.values())
    note = _note(found, "over", f" is over: {counts}.", failed=undone)
    service.ask(principal, note, key=f"over-{found.pipeline_id}-{tries}")


def _note(found: Pipeline, change: str, words: str, *, failed: int = 0) -> NoteSchedule:
    """On record first, as all that people change is; and bounded as all that they ask for.

    ``ref`` is how its page is asked for.
    """
    text = f"pipeline {found.name} of {found.owner}{words or ' was submitted'}"
    data = {
        "owner": found.owner,
        "name": found.name,
        "id": found.pipeline_id,
        "ref": f"{found.owner}/{found.name}",
        "failed": failed,
    }
    return NoteSchedule(kind=f"pipeline-{change}", text=text, team=found.team, data=data)


def _find(service: Service, principal: Principal, owner: str, name: str) -> Piped:
    authorization.pipelines.pipelines(principal)
    for found in service.store.pipelines.of(UserName(owner)):
        if found.pipeline.name == name:
            authorization.pipelines.pipeline(principal, found.pipeline)
            return found
    raise NotFound(authorization.pipelines.no_pipeline(owner, name))
