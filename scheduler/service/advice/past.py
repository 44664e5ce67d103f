"""Use cases about what became of plans: a job beside its own, all of them together, and what they teach."""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import limited, one_of
from gpucommons.scheduler.advisor.choice.argued_plan import argued
from gpucommons.scheduler.advisor.choice.planned_anew import PlannedAnew, planned_anew
from gpucommons.scheduler.advisor.choice.pricing import correction_of, plan_of
from gpucommons.scheduler.advisor.choice.question import Question
from gpucommons.scheduler.advisor.layout import layouts_of
from gpucommons.scheduler.advisor.learning.training import Training
from gpucommons.scheduler.advisor.signature import family_of, network_called, signature_of
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Attempt, Millis, Spec, Workload
from gpucommons.scheduler.curves.shown_curve import best_source, without_repeats
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.advice import describing
from gpucommons.scheduler.service.advice.advisor_question import Like
from gpucommons.scheduler.service.advice.calibration import calibration_view
from gpucommons.scheduler.service.advice.plan_beside_outcome import anew_view, plan_record
from gpucommons.scheduler.service.advice.plan_outcomes import Seen, beside_its_plan, gpus_of, judged
from gpucommons.scheduler.service.advice.waiting_together import question_of_plan
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import LogPoint
from gpucommons.scheduler.store.plans.base import JudgedRun, PlannedRun

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
#: A run that held its GPUs for less teaches nothing: its steps cost nobody anything, true or not.
_SHORTEST_MS = 5 * _MINUTE_MS


def job_plan(service: Service, principal: Principal, ref: str) -> models.PlanRecord:
    """What was said of a job before it was submitted, beside what came."""
    found = find_job(service, principal, ref)
    authorization.jobs.job_plan(principal, found)
    if found.spec.plan is None:
        return models.PlanRecord(text="It was submitted without a plan.")
    run = service.store.plans.run(found.workload_id) or _as_it_is(service, found)
    ended_ms = (found.ended_ms or found.since_ms) if is_final(found) else None
    record = plan_record(run, ended_ms=ended_ms)
    added = {"record_url": record_url(service), "anew": _anew(service, found)}
    return record.model_copy(update=added)


def _anew(service: Service, workload: Workload) -> models.PlanAnewView | None:
    """The plan of as many GPUs as it has, or had last; None of a job that did not begin as planned."""
    attempt = workload.attempts[-1] if workload.attempts else None
    if attempt is None or _submitted_gpus(workload) != _plan(workload).gpus:
        return None
    gpus, asked = gpus_of(attempt), question_of_plan(service, workload)
    if gpus in (0, _plan(workload).gpus) or asked is None:
        return None
    question, training = asked
    if training.framework:
        found = _as_argued(workload, attempt, question, training)
    else:
        found = planned_anew(question, training.layout, gpus)
    return None if found is None else anew_view(found, attempt.resumed_from, question.recipe.batch)


def _as_argued(
    workload: Workload, attempt: Attempt, question: Question, training: Training
) -> PlannedAnew | None:
    """The layout whose arguments its script was started with."""
    workers = len(attempt.placements)
    found = argued(_plan(workload), workers, gpus_of(attempt) // workers)
    if found is None:
        return None
    pool = limited(question.pool, found.layout.gpus)
    computed = one_of(question, training.network, pool, layouts_of(found.layout), 0)
    plan = plan_of(question, computed, correction_of(question, found.layout.gpus))
    return PlannedAnew(plan, as_told=True, arguments=tuple(found.arguments))


def _submitted_gpus(workload: Workload) -> int:
    first, resized = workload.spec.roles[0], workload.resized
    workers, milli_gpu = first.count, first.milli_gpu
    if resized is not None:
        workers, milli_gpu = resized.submitted.workers, resized.submitted.milli_gpu
    return workers * milli_gpu // WHOLE_MILLI_GPU


def record_url(service: Service) -> str:
    """The page of how right ranges were; "" where there is none."""
    pages = service.settings.pages_url
    return f"{pages}calibration" if pages else ""


def judge(service: Service, workload: Workload) -> JudgedRun:
    """A job that is over, beside its plan."""
    ended_ms = workload.ended_ms or workload.since_ms
    return judged(_seen(service, workload), _plan(workload), ended_ms)


def _as_it_is(service: Service, workload: Workload) -> PlannedRun:
    """A job beside its plan, as far as it is known now."""
    return beside_its_plan(_seen(service, workload), _plan(workload))


def _plan(workload: Workload) -> ChosenPlan:
    plan = workload.spec.plan
    assert plan is not None  # noqa: S101 - asked only of jobs that took one
    return plan


def _seen(service: Service, workload: Workload) -> Seen:
    rows = service.store.ledger(
        from_ms=Millis(workload.submitted_ms - _MINUTE_MS),
        to_ms=Millis(service.now_ms() + _MINUTE_MS),
        of=frozenset({workload.workload_id}),
    )
    pools = service.loop.cluster.pools
    return Seen(workload=workload, points=best_points(service, workload), rows=rows, pools=pools)


def best_points(service: Service, workload: Workload) -> list[LogPoint]:
    """Its curve, as its best source tells it."""
    sources = service.store.curve_sources(workload.workload_id)
    points = service.store.points(workload.workload_id, source=best_source(sources))
    return without_repeats(points)


def calibration(
    service: Service, principal: Principal, *, days: int, sample: bool = False
) -> models.CalibrationView:
    """How often ranges were right, of clocks and of plans: the same for everybody, and without names."""
    authorization.history.calibration(principal)
    service = service.told_of(sample=sample)
    now_ms = service.now_ms()
    since_ms = Millis(now_ms - days * _DAY_MS)
    estimates = [one for one in service.store.estimates() if one.made_ms >= since_ms]
    runs = service.store.plans.runs(since_ms=since_ms)
    view = calibration_view(estimates, runs, from_ms=since_ms, now_ms=now_ms)
    told = {"is_sample": sample, "has_sample": service.sample is not None}
    return view.model_copy(update=told)


def like(service: Service, principal: Principal, request: models.AdviceRequest, spec: Spec) -> Like:
    """Where a training belongs, and the runs that may teach something of it."""
    network, recipe = describing.network_of(request.network), describing.recipe_of(request)
    named = request.network.like if isinstance(request.network, models.UnknownModel) else ()
    # Whoever asks by its id means the same job as who asks by its name.
    first = find_job(service, principal, named[0]).workload_id if named else None
    return Like(
        team=spec.team,
        environment=spec.environment,
        signature=signature_of(network, recipe) if first is None else f"like {first}",
        family=family_of(network),
        network=network_called(network),
        runs=tuple(run for run in service.store.plans.runs() if _teaches(run)),
    )


def _teaches(run: JudgedRun) -> bool:
    plan = run.plan
    is_long = run.actual.held_milli_gpu_ms >= _SHORTEST_MS * plan.gpus * WHOLE_MILLI_GPU
    return run.followed and run.actual.step_s is not None and not plan.simulated and is_long
