"""Ways to run a training, before it is submitted: nothing is stored, and no code of it runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import inf

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import CANNOT_SAY, among, refusal
from gpucommons.scheduler.advisor.choice.interruption_cost import Terms
from gpucommons.scheduler.advisor.choice.question import Objective, Plan, Question, Range
from gpucommons.scheduler.advisor.kinds import shipped
from gpucommons.scheduler.core.model.types import Spec
from gpucommons.scheduler.errors import Misconfigured, PolicyRefused
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization, costs
from gpucommons.scheduler.service.advice import describing, past, similar_jobs, views, waits
from gpucommons.scheduler.service.advice.advisor_question import Asking
from gpucommons.scheduler.service.advice.lessons import Taught, asked_of, taught
from gpucommons.scheduler.service.advice.places import Place, place_of, with_sizes
from gpucommons.scheduler.service.advice.plan_offers import offer
from gpucommons.scheduler.service.advice.waits import NOT_KNOWN, Size, Wait
from gpucommons.scheduler.service.jobs.environments import script_reader
from gpucommons.scheduler.service.jobs.jobs import checked_spec
from gpucommons.scheduler.service.service import Pending, Service

#: Plans come within five seconds, whatever the forecast does.
_PATIENCE_S = 4.0
_POLL_S = 0.1


def advise(
    service: Service, principal: Principal, request: models.AdviceRequest
) -> models.AdviceView | Pending[models.AdviceView]:
    """Plans for this training on the caller's pools, with the waits that the queue's forecast gives."""
    authorization.jobs.advise(principal)
    now_ms = service.now_ms()
    if request.deadline_ms is not None and request.deadline_ms <= now_ms:
        raise Misconfigured("The deadline is over already. Name a time that is to come.")
    spec = _smallest(service, principal, request)
    cluster, tables = service.loop.cluster, shipped()
    found = [place_of(cluster, name, tables) for name in spec.pools]
    notes = tuple(one for one in found if isinstance(one, str))
    currency = costs.currency_of(cluster.pools.values())
    there = [one for one in found if isinstance(one, Place)]
    seen, unseen = similar_jobs.seen_of(service, principal, request, there)
    notes += unseen
    places = [with_sizes(_in_reach(one, request), spec, cluster) for one in there]
    asking = Asking(
        request=request,
        places=tuple(places),
        notes=notes,
        quoted={},
        now_ms=now_ms,
        like=past.like(service, principal, request, spec),
        seen=seen,
        currency=currency,
    )
    declined = _declined(asking)
    if declined:
        try_like = CANNOT_SAY in declined
        return models.AdviceView(
            declined=declined, try_like=try_like, notes=list(notes), now_ms=now_ms
        )
    asking = replace(
        asking,
        places=tuple(place for place in places if place.specs),
        quoted=waits.quoted(service, asking.specs),
    )
    return _pending(service, asking)


def _in_reach(place: Place, request: models.AdviceRequest) -> Place:
    """Keras' ways that a plan names stay on one node; torch's processes meet over nodes."""
    if request.framework != "keras":
        return place
    return replace(place, pool=replace(place.pool, nodes=1))


def _smallest(service: Service, principal: Principal, request: models.AdviceRequest) -> Spec:
    """The spec of a job of one GPU with this request's rules: what refuses it, refuses all sizes."""
    job = models.JobRequest(
        name="advice",
        team=request.team,
        pools=request.pools,
        environment=request.environment,
        priority=request.priority,
        over_quota=request.over_quota,
        roles=[
            models.RoleRequest(
                milli_gpu=1000,
                cpu_milli=request.cpu_milli,
                memory_mib=request.memory_mib,
                command=["true"],
            )
        ],
    )
    try:
        return checked_spec(service, principal, job, script_reader(service, job))
    except PolicyRefused as error:
        raise PolicyRefused(f"A job of one GPU would be refused: {error}") from None


def _declined(asking: Asking) -> str:
    """Why there is no plan at all; "" where there may be one."""
    if not asking.places:
        return " ".join(asking.notes) or "There are no GPUs to plan for."
    if not asking.specs:
        return next(text for place in asking.places for text in place.refused.values())
    reasons = [refusal(_question(asking, one, {}, None)) for one in asking.places if one.specs]
    return "" if None in reasons else str(reasons[0])


def _pending(service: Service, asking: Asking) -> models.AdviceView | Pending[models.AdviceView]:
    specs = asking.specs
    known: dict[Size, Wait] = {size: one for size, one in asking.quoted.items() if one is not None}
    missing = [size for size in specs if size not in known]

    def ready() -> bool:
        for size in list(missing):
            told = waits.forecast(service, size, specs[size])
            if told is not None:
                known[size] = told
                missing.remove(size)
        return not missing

    return Pending(
        probe=lambda: _answer(service, asking, known) if ready() else None,
        ready=ready,
        timeout_s=_PATIENCE_S,
        meanwhile=lambda: _answer(service, asking, known),
        poll_s=_POLL_S,
    )


def _answer(service: Service, asking: Asking, known: Mapping[Size, Wait]) -> models.AdviceView:
    """The plans, each kept as it is said: a job that takes one is judged by it."""
    questions = [
        _question(asking, place, known, taught(service, asking, place)) for place in asking.places
    ]
    found = among(questions)
    offered: list[ChosenPlan] = []

    def view(plan: Plan) -> models.PlanView:
        made = views.plan_view(asking, plan, known).model_copy(update={"id": next(service.new_ids)})
        offered.append(offer(asking, made, plan, asking.like))
        return made

    answer = views.advice_view(asking, found, view).model_copy(
        update={"record_url": past.record_url(service)}
    )
    service.store.plans.offer(offered)
    return answer


def _question(
    asking: Asking, place: Place, known: Mapping[Size, Wait], of_runs: Taught | None
) -> Question:
    request = asking.request
    deadline_ms = request.deadline_ms
    return Question(
        network=describing.network_of(request.network),
        recipe=describing.recipe_of(request),
        pool=place.pool,
        steps=request.steps,
        terms=Terms(price=place.price),
        objective=Objective(request.objective),
        deadline_s=inf if deadline_ms is None else (deadline_ms - asking.now_ms) / 1000,
        ways=describing.ways_of(request),
        most_gpus=place.most,
        sizes=tuple(place.specs),
        known=place.known if of_runs is None else of_runs.learned.constants,
        wait_s=partial(_wait_s, place.name, known),
        runs=() if of_runs is None else of_runs.learned.runs,
        seen=asking.seen.get(place.name, ()),
        believed=None if of_runs is None else of_runs.believed,
        asked=replace(
            asked_of(asking.like, place), fitted=of_runs is not None and of_runs.learned.fitted
        ),
    )


def _wait_s(pool: str, known: Mapping[Size, Wait], gpus: int) -> Range | None:
    return known.get((pool, gpus), NOT_KNOWN).range_s
