"""Use cases about sweeps and maps: submit, look, stop, add to the budget; and the job of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import NoteSchedule
from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName
from gpucommons.scheduler.errors import InvalidTransition, Misconfigured, NotFound
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.principal import Principal, PrincipalKind
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs import run_again
from gpucommons.scheduler.service.jobs.environments import script_reader
from gpucommons.scheduler.service.jobs.jobs import check_labels, checked_in_time
from gpucommons.scheduler.service.jobs.submit_limits import check_sweep
from gpucommons.scheduler.service.lookup import also_ended, jobs_by_id
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.service.views.jobs import request_of
from gpucommons.scheduler.service.views.sweeps import gpus_in_use, known_until, sweep_view
from gpucommons.scheduler.service.views.where_it_runs import asks_simulated
from gpucommons.scheduler.sweeps.records import note, on_record
from gpucommons.scheduler.sweeps.script_arguments import check_variables
from gpucommons.scheduler.sweeps.search_space import (
    check_sampler,
    most_trials,
    one_setting,
    space_of,
)
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Halving,
    Kept,
    Sweep,
    Trial,
    TrialState,
    shown_number,
    too_many,
)

#: Of one user, that go on.
MAX_LIVE = 20
#: On one page: each is counted up from its trials.
MAX_LISTED = 20
#: Orders of which it is known that they were carried out.
_REMEMBERED = 100
_HOUR_MILLI_GPU_S = 3_600_000
#: What belongs to one submit and not to many.
_ONCE = ("parent", "resume_from", "min_workers", "max_workers")
#: Its jobs come one by one for as long as it goes on: a map's come at once.
_ONCE_OF_SWEEPS = ("after", "after_any", "after_failed", "not_before_ms")


def submit_sweep(
    service: Service, principal: Principal, request: models.SweepRequest, *, key: str | None
) -> models.SweepView:
    """Store a sweep or a map; it is durable when this returns, and its jobs are submitted from now on.

    Its job is checked as if it were submitted now, and keeps the files and the environment of now.
    """
    authorization.sweeps.submit_sweep(principal)
    intent = service.asked(principal, NoteSchedule, key=key, request=request)
    made = None
    if intent is None:
        _check_live(service, principal.name)
        check_sweep(service, UserName(principal.name), size_bytes=len(request.model_dump_json()))
        made = _written(service, principal, request)
        intent = service.ask(principal, note(made, "started"), key=key, request=request)
    first = intent.action
    assert isinstance(first, NoteSchedule)  # noqa: S101 - the fingerprint names the kind of action
    sweep_id, name = ParentId(first.data["ref"]), first.data["name"]
    known = service.store.sweeps.one(sweep_id)
    if known is None:
        # Now, or by a scheduler that died before it stored what it had put on record.
        made = made or _written(service, principal, request)
        known = Kept(sweep=replace(made, sweep_id=sweep_id, name=name))
        with _refusal_on_record(service, principal, known.sweep, "not started"):
            service.store.sweeps.put(known.sweep, most=MAX_LIVE)
    return _view(service, principal, known)


def _written(service: Service, principal: Principal, request: models.SweepRequest) -> Sweep:
    job, team = _job_of(service, principal, request)
    sweep = _sweep(service, principal, request, job)
    sweep_id = ParentId(next(service.new_ids))
    return replace(sweep, sweep_id=sweep_id, name=service.store.next_name(team, request.job.name))


def _check_live(service: Service, owner: str) -> None:
    live = service.store.sweeps.live()
    if sum(1 for one in live if one.sweep.owner == owner and not one.sweep.stopped) >= MAX_LIVE:
        # Before anything is checked and put on record; the store counts again.
        raise too_many(UserName(owner), MAX_LIVE)


def _job_of(
    service: Service, principal: Principal, request: models.SweepRequest
) -> tuple[models.JobRequest, TeamName]:
    """What its trials are submitted with: complete, and checked as each of them is."""
    job = request.job
    refused = _ONCE if request.given else (*_ONCE_OF_SWEEPS, *_ONCE)
    once = [field for field in refused if getattr(job, field)]
    if once or job.user not in (None, principal.name):
        fields = ", ".join(once or ["user"])
        message = f"job: {fields} is of one submit alone, and this one is repeated: leave it out."
        raise Misconfigured(message)
    check_labels(principal, job)
    update: dict[str, object] = {"user": None}
    if not request.given:
        update["kind"] = "training" if request.in_guarantee else "retrain"
        if "priority" not in job.model_fields_set:
            update["priority"] = "low"
    job = job.model_copy(update=update)
    first = dict(request.given[0]) if request.given else one_setting(space_of(request))
    if request.values_as == "environment":
        for values in request.given or (first,):
            check_variables(values)
    tried = run_again.with_values(job, first, request.values_as)
    spec = checked_in_time(service, principal, tried, script_reader(service, tried))
    stored = request_of(spec).model_copy(update={"near": []})
    # As it was written, so that each trial's values are put in anew.
    roles = [
        new.model_copy(update={"command": old.command})
        for new, old in zip(stored.roles, job.roles, strict=True)
    ]
    return stored.model_copy(update={"roles": roles, "env": job.env}), spec.team


def _sweep(
    service: Service, principal: Principal, request: models.SweepRequest, job: models.JobRequest
) -> Sweep:
    space, halving = space_of(request), request.early_stopping
    before = jobs_by_id(service, principal, request.after_each)
    budget = _budget(request)
    if space:
        check_sampler(request.sampler)
        most = most_trials(space, request.sampler)
        budget = replace(budget, trials=min(budget.trials, most))
    _check_until(service, budget.until_ms)
    objective = request.objective
    limited = request.given and "max_parallel" in request.model_fields_set
    return Sweep(
        sweep_id=ParentId(""),
        kind=ParentKind.MAP if request.given else ParentKind.SWEEP,
        name=job.name,
        owner=principal.name,
        team=TeamName(job.team or ""),
        made_ms=service.now_ms(),
        budget=budget,
        request=job.model_dump_json(exclude_defaults=True),
        snapshot=job.snapshot,
        space=space,
        given=tuple(dict(one) for one in request.given),
        metric="" if objective is None else objective.metric,
        maximize=objective is not None and objective.direction == "maximize",
        sampler=request.sampler,
        halving=None
        if halving is None
        else Halving(
            first_step=halving.first_step, last_step=halving.last_step, factor=halving.factor
        ),
        max_parallel=request.max_parallel,
        at_once=request.max_parallel if limited else 0,
        after_each=tuple(one.workload_id for one in before),
        values_as=request.values_as,
        server=principal.server_name,
        by_operator=principal.kind is PrincipalKind.LOCAL and principal.admin,
    )


def sweeps(  # noqa: PLR0913 - the filters of one list, all optional and named
    service: Service,
    principal: Principal,
    *,
    limit: int = MAX_LISTED,
    cursor: str | None = None,
    owner: str | None = None,
    live: bool = False,
) -> models.SweepList:
    """A page of those that the caller may see, newest first; of one owner, or only those that go on."""
    authorization.sweeps.sweeps(principal)
    sight = authorization.sight.of(principal)
    before = None if cursor is None else service.store.sweeps.one(ParentId(cursor))
    if cursor is not None and before is None:
        raise NotFound(
            f"cursor: there is no sweep {cursor} any more. List them from the beginning."
        )
    whose = None if owner is None else UserName(owner)
    found = service.store.sweeps.page(sight, before=before, limit=limit + 1, owner=whose, live=live)
    return models.SweepList(
        sweeps=[_view(service, principal, one, in_full=False) for one in found[:limit]],
        cursor=found[limit - 1].sweep.sweep_id if len(found) > limit else None,
    )


def sweep(service: Service, principal: Principal, ref: str) -> models.SweepView:
    """One sweep with its trials, by id or name."""
    return _view(service, principal, _find(service, principal, ref))


def figures(service: Service, principal: Principal, ref: str) -> models.SweepFigures:
    """Its GPUs over time, and which parameters matter, where that can be told."""
    found = _find(service, principal, ref)
    authorization.sweeps.sweep_figures(principal, found.sweep)
    trials = service.store.sweeps.trials(found.sweep.sweep_id)
    importance, why_not = service.importances.of(found, trials)
    return models.SweepFigures(
        gpus=_gpus_in_use(service, found, trials),
        importance=dict(importance),
        importance_text=why_not,
    )


def _gpus_in_use(service: Service, kept: Kept, trials: Sequence[Trial]) -> list[models.GpusInUse]:
    jobs = frozenset(one.job for one in trials if one.job is not None)
    # Rows stand at the beginning of their minutes.
    from_ms = Millis(kept.sweep.made_ms // 60_000 * 60_000)
    now_ms, workloads = service.now_ms(), service.loop.cluster.workloads
    holds = any(job is not None and job.current is not None for job in map(workloads.get, jobs))
    to_ms = known_until(kept.standing.ended_ms, now_ms, holds=holds)
    rows = service.store.ledger(from_ms=from_ms, to_ms=to_ms, of=jobs) if jobs else ()
    return gpus_in_use(rows, kept.sweep.made_ms, to_ms)


def stop_sweep(service: Service, principal: Principal, ref: str) -> models.SweepView:
    """End it: its jobs that are not over are cancelled, and what they told stays."""
    found = _find(service, principal, ref)
    authorization.sweeps.stop_sweep(principal, found.sweep)
    if found.standing.ended_ms is None and not found.sweep.stopped:
        stopped = replace(found.sweep, stopped=True)
        service.ask(principal, note(stopped, "stopped"))
        found = _changed(service, principal, found, stopped)
    return _view(service, principal, found)


def leave_out(
    service: Service, principal: Principal, ref: str, request: models.LeaveOutRequest
) -> models.SweepView:
    """Jobs of a list that are not to run, by the numbers that people know; the leader cancels what has begun."""
    found = _find(service, principal, ref)
    authorization.sweeps.leave_out(principal, found.sweep)
    sweep = found.sweep
    # Nothing keeps people from giving several the same number: it stands for all of them.
    known: dict[int, list[int]] = {}
    for number, values in enumerate(sweep.given, 1):
        known.setdefault(shown_number(number, values), []).append(number)
    if strange := [number for number in request.numbers if number not in known]:
        raise NotFound(f"{sweep.name} has no job {strange[0]}.")
    meant = (one for number in request.numbers for one in known[number])
    left_out = tuple(sorted({*sweep.left_out, *meant}))
    if found.standing.ended_ms is None and left_out != sweep.left_out:
        fewer = replace(sweep, left_out=left_out)
        count = len(left_out) - len(sweep.left_out)
        service.ask(principal, note(fewer, "changed", f": {count} of its jobs are not to run"))
        found = _changed(service, principal, found, fewer)
    return _view(service, principal, found)


def add_to_budget(
    service: Service,
    principal: Principal,
    ref: str,
    more: models.MoreBudgetRequest,
    *,
    key: str | None = None,
) -> models.SweepView:
    """Add to its budget, once for each key; one that was over goes on."""
    found = _find(service, principal, ref)
    request = (found.sweep.sweep_id, more.model_dump_json())
    intent = service.asked(principal, NoteSchedule, key=key, request=request)
    if intent is None or intent.intent_id not in found.sweep.added:
        _check_goes_on(service, principal, found)
        goes_on = replace(found.sweep, budget=_grown(service, found.sweep, more), stopped=False)
        intent = intent or service.ask(
            principal, note(goes_on, "given more budget"), key=key, request=request
        )
        goes_on = replace(goes_on, added=(*goes_on.added, intent.intent_id)[-_REMEMBERED:])
        found = _changed(service, principal, found, goes_on)
    return _view(service, principal, found)


def _check_goes_on(service: Service, principal: Principal, found: Kept) -> None:
    if found.sweep.stopped or found.standing.ended_ms is not None:
        authorization.sweeps.revive_sweep(principal, found.sweep)
        _check_live(service, found.sweep.owner)
    else:
        authorization.sweeps.add_to_budget(principal, found.sweep)


def _grown(service: Service, sweep: Sweep, more: models.MoreBudgetRequest) -> Budget:
    if sweep.given:
        raise InvalidTransition(f"{sweep.name} has all its jobs: submit another map.")
    budget, most = sweep.budget, most_trials(sweep.space, sweep.sampler)
    if budget.trials >= most and not (more.gpu_hours or more.until_ms):
        message = (
            f"trials: {sweep.name} has all {most:,} trials that it may have. Submit another sweep."
        )
        raise Misconfigured(message)
    _check_until(service, more.until_ms)
    held = budget.milli_gpu_s
    return Budget(
        trials=min(most, budget.trials + more.trials),
        milli_gpu_s=None if held is None else held + round(more.gpu_hours * _HOUR_MILLI_GPU_S),
        until_ms=budget.until_ms if more.until_ms is None else Millis(more.until_ms),
    )


def _changed(service: Service, principal: Principal, found: Kept, changed: Sweep) -> Kept:
    """Store what is on record as done; where that is refused, that is on record too."""
    goes_on_again = found.standing.ended_ms is not None or found.sweep.stopped
    most = MAX_LIVE if goes_on_again and not changed.stopped else None
    with _refusal_on_record(service, principal, changed, "not changed"):
        service.store.sweeps.put(changed, before=found.sweep, most=most)
    return replace(found, sweep=changed)


def _refusal_on_record(
    service: Service, principal: Principal, sweep: Sweep, change: str
) -> AbstractContextManager[None]:
    return service.refusal_on_record(principal, lambda error: note(sweep, change, f": {error}"))


def _budget(request: models.SweepRequest) -> Budget:
    asked = request.budget
    if asked is None:
        return Budget(trials=len(request.given))
    hours = asked.gpu_hours
    return Budget(
        trials=asked.trials,
        milli_gpu_s=None if hours is None else max(1, round(hours * _HOUR_MILLI_GPU_S)),
        until_ms=None if asked.until_ms is None else Millis(asked.until_ms),
    )


def _check_until(service: Service, until_ms: int | None) -> None:
    if until_ms is not None and until_ms <= service.now_ms():
        raise Misconfigured("budget: until_ms is over already. Name a time that is to come.")


def note_over(
    service: Service, principal: Principal, sweep: Sweep, trials: Sequence[Trial], why: str
) -> None:
    """Put on record that nothing more is begun; once for each budget that was used up."""
    failed = sum(one.state is TrialState.FAILED for one in trials)
    bad = f" {failed} of {len(trials)} failed." if failed else ""
    text = f"{sweep.kind.value} {sweep.name} is over: {why}{bad}"
    budget = sweep.budget
    key = f"over-{sweep.sweep_id}-{budget.trials}-{budget.milli_gpu_s}-{budget.until_ms}"
    service.ask(principal, on_record(sweep, "over", text, failed=failed), key=key)


def _find(service: Service, principal: Principal, ref: str) -> Kept:
    authorization.sweeps.sweeps(principal)
    found = service.store.sweeps.one(ParentId(ref))
    name = ref.rpartition("/")[2]
    named = [found] if found is not None else service.store.sweeps.named(name)
    for one in named:
        if ref in (one.sweep.sweep_id, f"{one.sweep.team}/{name}", one.sweep.name) and (
            authorization.sight.sees(principal, one.sweep.team, one.sweep.owner)
        ):
            authorization.sweeps.sweep(principal, one.sweep)
            return one
    raise NotFound(authorization.sweeps.no_sweep(ref))


def _view(
    service: Service, principal: Principal, kept: Kept, *, in_full: bool = True
) -> models.SweepView:
    trials = service.store.sweeps.trials(kept.sweep.sweep_id)
    if in_full and not kept.standing.improvements.points:
        # The first best of a trial may just have been written, and the record with it.
        kept = service.store.sweeps.one(kept.sweep.sweep_id) or kept
    jobs = also_ended(service, (one.job for one in trials if one.state is TrialState.LIVE))
    steerable = authorization.sight.steers(principal, kept.sweep.team, kept.sweep.owner)
    request = _request(kept.sweep)
    simulated = request is not None and asks_simulated(service.loop.cluster, request)
    view = sweep_view(kept, trials, jobs, request=request, in_full=in_full)
    return view.model_copy(update={"steerable": steerable, "simulated": simulated})


def _request(sweep: Sweep) -> models.JobRequest | None:
    """What it runs; None where another release has written that: the others of a list are shown."""
    with suppress(Misconfigured):
        return run_again.stored_request(sweep.request, of=sweep.name, remedy="start the sweep anew")
    return None
