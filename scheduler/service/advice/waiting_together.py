"""One person's waiting jobs at once: what is best for each alone may be the worse for all.

Jobs that took a plan carry the numbers from which their formula follows again on other GPUs. Others are
named and left as they are, and so are those that ran already: how much of them is left is not reckoned.
Nothing is changed: who wants it resizes the jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.choice.advise import advise
from gpucommons.scheduler.advisor.choice.question import Question, Range
from gpucommons.scheduler.advisor.choice.script_arguments import ways_of_script
from gpucommons.scheduler.advisor.choice.together import mean_finish_s, together
from gpucommons.scheduler.advisor.kinds import shipped
from gpucommons.scheduler.advisor.learning.training import Training, read
from gpucommons.scheduler.core.model.lifecycle import WAITING_STATES, is_lease
from gpucommons.scheduler.core.model.types import PoolName, Workload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.advice.places import Place, place_of, with_sizes
from gpucommons.scheduler.service.service import Service

#: Who gains less than this part of the time keeps the jobs as they are.
_WORTH = 0.02
_TWO = 2
#: So many jobs are looked at, oldest first: each takes a formula of its own, and all of them the GIL.
_MOST_JOBS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class _Waiting:
    """A job that waits, and its seconds on each number of GPUs that it may have."""

    workload: Workload
    asked: int
    seconds: Mapping[int, float]


def waiting_together(service: Service, principal: Principal) -> models.TogetherView:
    """The sizes with which the caller's own waiting jobs are done soonest, all of them together."""
    authorization.jobs.waiting_together(principal)
    mine = sorted(
        (
            one
            for one in service.loop.cluster.workloads.values()
            if one.state in WAITING_STATES
            and not is_lease(one)
            and one.spec.owner == principal.name
        ),
        key=lambda one: (one.submitted_ms, one.workload_id),
    )
    ran = [one for one in mine if _ran(one)]
    fresh = [one for one in mine if not _ran(one)]
    planned = [one for one in fresh if one.spec.plan is not None]
    known: dict[PoolName, list[_Waiting]] = defaultdict(list)
    unknown = [one.spec.name for one in fresh if one.spec.plan is None]
    for workload in planned[:_MOST_JOBS]:
        found = _seconds(service, workload)
        if found is None:
            unknown.append(workload.spec.name)
        else:
            known[workload.spec.pools[0]].append(found)
    pools = [_of_pool(pool, jobs) for pool, jobs in known.items() if len(jobs) >= _TWO]
    later = [one.spec.name for one in planned[_MOST_JOBS:]]
    return models.TogetherView(
        pools=pools,
        unknown=unknown,
        ran=[one.spec.name for one in ran],
        later=later,
        text=_text(pools, len(mine)),
    )


def _ran(workload: Workload) -> bool:
    return any(one.started_ms is not None for one in workload.attempts)


def _seconds(service: Service, workload: Workload) -> _Waiting | None:
    """None of a job whose plan is not read any more, or not for whole GPUs of its pool alone."""
    ranges = run_by_gpus(service, workload)
    asked = workload.spec.roles[0].milli_gpu * workload.spec.roles[0].count // WHOLE_MILLI_GPU
    seconds = {gpus: one.middle for gpus, one in ranges.items()}
    return _Waiting(workload=workload, asked=asked, seconds=seconds) if asked in seconds else None


def run_by_gpus(service: Service, workload: Workload) -> Mapping[int, Range]:
    """By the formula of its plan, the seconds of all its steps on each number of GPUs that it may have.

    None of a job whose plan is not read any more, or not for whole GPUs of its pool alone.
    """
    asked = question_of_plan(service, workload)
    if asked is None:
        return {}
    question, _ = asked
    answer = advise(question)
    return {
        one.layout.gpus: one.run_s
        for one in (*answer.others, *answer.plans)
        if one.layout.gpus in question.sizes
    }


def question_of_plan(service: Service, workload: Workload) -> tuple[Question, Training] | None:
    """What its plan answered, asked anew of its pool as that is now; None as above."""
    spec, cluster = workload.spec, service.loop.cluster
    plan = spec.plan
    training = None if plan is None else read(plan.training)
    if plan is None or training is None or len(spec.roles) > 1 or spec.pools != (plan.pool,):
        return None
    found = place_of(cluster, spec.pools[0], shipped())
    rest = spec.roles[0].milli_gpu * spec.roles[0].count % WHOLE_MILLI_GPU
    if not isinstance(found, Place) or rest:
        return None
    place = with_sizes(found, spec, cluster)
    question = Question(
        network=training.network,
        recipe=training.recipe,
        pool=place.pool,
        steps=plan.steps,
        sizes=tuple(place.specs),
        most_gpus=place.most,
        known=place.known,
        ways=ways_of_script(training.framework),
    )
    return question, training


def _of_pool(pool: PoolName, jobs: Sequence[_Waiting]) -> models.TogetherPool:
    """Jobs of one pool, in the order in which they came."""
    gpus = max(max(one.seconds) for one in jobs)
    tables = [one.seconds for one in jobs]
    asked = [one.asked for one in jobs]
    alone = [min(one, key=lambda size: (one[size], size)) for one in tables]
    dealt = together(tables, asked, gpus)
    best: Sequence[int] = dealt.sizes
    before_s = mean_finish_s(tables, asked, gpus)
    after_s = mean_finish_s(tables, best, gpus)
    if after_s > (1 - _WORTH) * before_s:
        best, after_s = asked, before_s
    return models.TogetherPool(
        pool=pool,
        gpus=gpus,
        mean_s=after_s,
        mean_as_asked_s=before_s,
        mean_alone_s=mean_finish_s(tables, alone, gpus),
        is_best=dealt.is_best,
        jobs=[
            models.TogetherJob(
                id=one.workload.workload_id,
                name=one.workload.spec.name,
                gpus=size,
                gpus_asked=one.asked,
                run_s=one.seconds[size],
                run_as_asked_s=one.seconds[one.asked],
                gpus_alone=fastest,
            )
            for one, size, fastest in zip(jobs, best, alone, strict=True)
        ],
    )


def _text(pools: Sequence[models.TogetherPool], waiting: int) -> str:
    if not pools:
        return (
            "Two or more of your jobs that wait in one pool, took a plan and never ran can be looked at"
            f" together; {waiting} of yours wait."
        )
    proved = all(pool.is_best for pool in pools)
    if all(job.gpus == job.gpus_asked for pool in pools for job in pool.jobs):
        if proved:
            return "Your waiting jobs are done soonest, on average, as they were submitted."
        return (
            "No other numbers of GPUs were found with which your waiting jobs are done sooner, on average,"
            " than as they were submitted; not all were tried."
        )
    text = (
        "On average your waiting jobs are done sooner with other numbers of GPUs, by the formulas of their"
        " plans and if they get the GPUs one after the other."
    )
    return text if proved else f"{text} These are the best found; not all were tried."
