"""Use cases about a job's data loader: what it waits, what would help, and setting that for the next attempt."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.advisor.data_loading import (
    LoadingAdvice,
    LoadingQuestion,
    advise_loading,
)
from gpucommons.scheduler.core.model.intents import ChooseLoader
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.types import Attempt, Millis, Workload
from gpucommons.scheduler.models.plans.loading import MOST_LOADERS
from gpucommons.scheduler.models.plans.loading_words import advice_text, hint_text
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.jobs.jobs import steered
from gpucommons.scheduler.service.lookup import find_job
from gpucommons.scheduler.service.service import Pending, Service

_MINUTE_MS = 60_000


def data_advice(service: Service, principal: Principal, ref: str) -> models.DataAdvice:
    """How the newest attempt that told it waits for its data, and what would help."""
    found = find_job(service, principal, ref)
    authorization.jobs.data_advice(principal, found)
    attempt = next((one for one in reversed(found.attempts) if one.loading is not None), None)
    busy = None if attempt is None else _gpu_busy(service, found, attempt)
    first = found.spec.roles[0]
    advice = advise_loading(
        LoadingQuestion(
            loading=None if attempt is None else attempt.loading,
            cpu_milli=first.cpu_milli,
            memory_mib=first.memory_mib,
            gpu_busy=busy,
            far_from_data=attempt is not None and _is_far(service, found, attempt),
        )
    )
    view = _view(found, attempt, advice)
    percent = None if busy is None else round(100 * busy)
    view = view.model_copy(update={"gpu_percent": percent})
    return view.model_copy(update={"text": advice_text(view)})


def choose_loader(
    service: Service, principal: Principal, ref: str, wanted: models.LoaderSettings
) -> Pending[models.JobView]:
    """From its next attempt on its loaders are set so; None = as its script says."""
    found = find_job(service, principal, ref)
    authorization.jobs.choose_loader(principal, found)
    action = ChooseLoader(
        workload_id=found.workload_id, workers=wanted.workers, prefetch=wanted.prefetch
    )
    return steered(service, principal, found, action)


def _chosen_view(workload: Workload) -> models.LoaderChoiceView | None:
    chosen = workload.loader
    if chosen is None:
        return None
    return models.LoaderChoiceView(
        workers=chosen.workers,
        prefetch=chosen.prefetch,
        by=chosen.by,
        at_ms=chosen.at_ms,
        # A cycle does what it was asked before it places anybody.
        in_force=bool(workload.attempts) and workload.attempts[-1].reserved_ms >= chosen.at_ms,
    )


def _view(workload: Workload, attempt: Attempt | None, advice: LoadingAdvice) -> models.DataAdvice:
    loading = None if attempt is None else attempt.loading
    hints = [
        models.LoadingHintView(
            kind=one.kind, values=list(one.values), text=hint_text(one.kind, one.values)
        )
        for one in advice.hints
    ]
    view = models.DataAdvice(
        verdict=advice.verdict,
        hints=hints,
        can_choose=not is_final(workload),
        has_started=any(one.started_ms is not None for one in workload.attempts),
        chosen=_chosen_view(workload),
        text="",
    )
    if loading is None or attempt is None:
        return view
    advised = None
    if advice.workers is not None and advice.prefetch is not None:
        # Reports of an earlier release may say more than can be chosen.
        advised = models.LoaderSettings(
            workers=min(advice.workers, MOST_LOADERS), prefetch=min(advice.prefetch, MOST_LOADERS)
        )
    return view.model_copy(
        update={
            "attempt": attempt.number,
            "batches": loading.batches,
            "batch_ms": loading.batch_us / 1000,
            "wait_ms": loading.wait_us / 1000,
            "workers": loading.workers,
            "prefetch": loading.prefetch,
            "advised": advised,
            "low_ms": advice.low_us / 1000,
            "high_ms": advice.high_us / 1000,
        }
    )


def _gpu_busy(service: Service, workload: Workload, attempt: Attempt) -> float | None:
    """Of what it held in whole minutes of this attempt; None where nothing was measured."""
    start_ms = attempt.started_ms or attempt.reserved_ms
    rows = service.store.ledger(
        from_ms=Millis(start_ms + _MINUTE_MS),
        to_ms=Millis((attempt.ended_ms or service.now_ms()) - _MINUTE_MS),
        of=frozenset({workload.workload_id}),
    )
    known = [
        (row.held_milli_gpu_ms, row.compute_percent_mean)
        for row in rows
        if row.compute_percent_mean is not None and row.held_milli_gpu_ms
    ]
    held = sum(amount for amount, _ in known)
    return sum(amount * percent for amount, percent in known) / held / 100 if held else None


def _is_far(service: Service, workload: Workload, attempt: Attempt) -> bool:
    """Some node of it lacks data that it names, and another node has it."""
    nodes = service.loop.cluster.nodes
    there = [nodes[one.node_id].data for one in attempt.placements if one.node_id in nodes]
    return any(
        any(name not in data for data in there) and any(name in one.data for one in nodes.values())
        for name in workload.spec.data
    )
