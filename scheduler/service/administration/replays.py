"""The last days again under other quotas: what an admin looks at before saving them.

The replay runs in a process of its own with a time limit, one at a time, so that neither the loop
nor other requests wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, Workload
from gpucommons.scheduler.errors import NotFound, TooManyRequests, UnknownPool
from gpucommons.scheduler.intake.configuration import planned_quotas
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.simulation.conditions import Conditions
from gpucommons.scheduler.simulation.figures import Figures, Outcome
from gpucommons.scheduler.simulation.history import Stage, compare, stage_of
from gpucommons.scheduler.simulation.more_gpus import with_more
from gpucommons.scheduler.simulation.worker_process import apart
from gpucommons.scheduler.store.base import Store, WorkloadFilter

_DAY_MS = 24 * 3_600_000
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
#: Time for both sides together, and for starting the process and reading its answer.
_BUDGET_S, _STARTING_S = 40.0, 15.0
#: Of those that ended, the last so many are played, and what lives.
_MOST = 5_000
_PAGE = 500
_PLAYED = " All figures are simulated: that past, played with today's quotas."
_BOTH_PLAYED = " All figures are simulated, those before the change too: that past, played with today's quotas."

_one_at_a_time = threading.Lock()


def replay(
    service: Service, principal: Principal, request: models.ReplayRequest
) -> models.ReplayView:
    """Play the last days twice: as quotas and GPUs are, and with the changes."""
    authorization.cluster.replay(principal)
    cluster = service.loop.cluster
    changes = models.QuotaChanges.model_construct(changes=request.changes)
    quotas = planned_quotas(changes, cluster)
    more = _more(request, cluster)
    if not _one_at_a_time.acquire(blocking=False):
        raise TooManyRequests("Another replay is running; it takes up to a minute. Try again then.")
    try:
        stage, whole = _stage(service, cluster, request.days)
        before, after = apart(
            compare, stage, quotas, more, _BUDGET_S, timeout_s=_BUDGET_S + _STARTING_S
        )
    finally:
        _one_at_a_time.release()
    return models.ReplayView(
        from_ms=stage.from_ms,
        until_ms=after.until_ms,
        workloads=len(stage.past),
        before=side_view(before),
        after=side_view(after),
        text=_sentence(stage, before, f"the last {request.days} days", whole=whole)
        + _bought(more)
        + (_BOTH_PLAYED if request.changes or more else _PLAYED)
        + _never(before.total.never_started, after.total.never_started)
        + _lost(before, after)
        + _in_truth(_evictions(service, stage, after.until_ms), before.total.evictions)
        + (_unchanged(more) if (request.changes or more) and _same(before, after) else ""),
    )


def _more(request: models.ReplayRequest, cluster: Cluster) -> dict[PoolName, int]:
    """How many GPUs more, by pool; each must be there, and have machines to be like."""
    found: dict[PoolName, int] = {}
    for one in request.more:
        pool = PoolName(one.pool)
        if pool not in cluster.pools:
            message = f"There is no pool {one.pool!r}. Pools: {', '.join(sorted(cluster.pools))}."
            raise UnknownPool(message)
        found[pool] = found.get(pool, 0) + one.gpus
    with_more(cluster, found)
    return found


def _unchanged(more: Mapping[PoolName, int]) -> str:
    """More GPUs are idle where nobody waited for them: that is a difference."""
    if more:
        return " No wait and no eviction would have been different: they would have been idle."
    return " Nothing would have been different."


def _bought(more: Mapping[PoolName, int]) -> str:
    if not more:
        return ""
    said = " and ".join(f"{gpus} more in {pool}" for pool, gpus in sorted(more.items()))
    return f" After: {said}, which are in no quota unless one is changed, and so are borrowed."


def _same(before: Outcome, after: Outcome) -> bool:
    """But for GPUs that nobody used."""
    return (before.total, before.teams) == (after.total, after.teams)


def _stage(service: Service, cluster: Cluster, days: int) -> tuple[Stage, bool]:
    """What is played, and whether that is everything of these days."""
    until_ms = service.now_ms()
    asked_ms = Millis(max(0, until_ms - days * _DAY_MS))
    ended, from_ms = _ended(service.store, asked_ms)
    found = {**{one.workload_id: one for one in ended}, **cluster.workloads}
    stage = stage_of(cluster, found.values(), from_ms=from_ms, until_ms=until_ms)
    if not stage.past:
        message = f"Nothing ran or waited in the last {days} days: there is nothing to replay."
        raise NotFound(message)
    first = min(one.submitted_ms for one in stage.past)
    begins_ms = Millis(max(from_ms, first))
    stage = stage_of(cluster, found.values(), from_ms=begins_ms, until_ms=until_ms)
    return stage, from_ms == asked_ms


def _ended(store: Store, from_ms: Millis) -> tuple[list[Workload], Millis]:
    """Who ended since then, and from when on these are all: a part of them would be no past."""
    where = WorkloadFilter(live=False, ended_after_ms=from_ms)
    found: list[Workload] = []
    cursor: str | None = None
    while True:
        page = store.workloads(where, limit=min(_PAGE, _MOST - len(found)), cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found, from_ms
        if len(found) >= _MOST:
            # Who is not among them ended no later than the last who is.
            return found, found[-1].ended_ms or from_ms


def _sentence(stage: Stage, after: Outcome, asked: str, *, whole: bool) -> str:
    gpus = format_milli_gpu(after.capacity_milli_gpu)
    hours = (stage.until_ms - stage.from_ms) / _HOUR_MS
    of = asked if whole else f"the last {hours:.1f} hours"
    text = f"{len(stage.past)} notebooks and jobs of {of}, played again on today's {gpus} GPUs."
    if not whole:
        text += f" More than {_MOST} ended in {asked}: what is older than that is not played."
    if after.refused:
        text += f" {after.refused} of them could not be submitted: a team or pool is gone."
    if after.until_ms < stage.until_ms:
        hours = (after.until_ms - stage.from_ms) / _HOUR_MS
        text += f" The time was enough for the first {hours:.0f} hours of them."
    return text


def _evictions(service: Service, stage: Stage, until_ms: int) -> int:
    """How many stops for others the log of that time has."""
    found = service.store.events(kinds=frozenset({"evicted"}), limit=_MOST, newest=True)
    return sum(stage.from_ms <= one.event.at_ms < until_ms for one in found)


def _in_truth(happened: int, played: int) -> str:
    """Said where it differs: the baseline is played too, and is not the log."""
    if happened == played:
        return ""
    evictions = "1 eviction" if happened == 1 else f"{happened or 'no'} evictions"
    return (
        f" In truth there {'was' if happened == 1 else 'were'} {evictions}; played with today's"
        f" quotas all the time there {'is' if played == 1 else 'are'} {played or 'none'}, which is"
        " what changes are compared with."
    )


def _never(before: int, after: int) -> str:
    """Who waits for nothing that comes is in no wait: that would be the time until the replay's end."""
    if not before and not after:
        return ""
    return (
        " Left out of the waits, because they ask for more than their team's quota and never start:"
        f" {before} before, {after} after."
    )


def _lost(before: Outcome, after: Outcome) -> str:
    """What was assumed of saves, which the past does not tell: receipts of real stops say less."""
    if not before.total.lost_milli_gpu_ms and not after.total.lost_milli_gpu_ms:
        return ""
    played = Conditions()
    return (
        f" Lost, at most: as if work saved every {played.checkpoint_every_ms // _MINUTE_MS} min and"
        f" loaded for {played.restart_ms // _MINUTE_MS} min when it went on; receipts and the report"
        " say what stops really cost."
    )


def side_view(outcome: Outcome) -> models.ReplaySide:
    """One set of quotas in figures."""
    return models.ReplaySide(
        total=_figures_view(outcome.total),
        teams={team: _figures_view(of) for team, of in outcome.teams.items()},
        utilisation_percent=round(outcome.utilisation_percent, 1),
        idle_gpu_h=_gpu_h(outcome.idle_milli_gpu_ms),
    )


def _figures_view(figures: Figures) -> models.ReplayFigures:
    return models.ReplayFigures(
        jobs=figures.jobs,
        median_wait_s=_seconds(figures.median_wait_ms),
        worst_tenth_wait_s=_seconds(figures.worst_tenth_wait_ms),
        median_is_open=figures.median_is_open,
        worst_tenth_is_open=figures.worst_tenth_is_open,
        held_gpu_h=_gpu_h(figures.held_milli_gpu_ms),
        evictions=figures.evictions,
        lost_gpu_h=_gpu_h(figures.lost_milli_gpu_ms),
        never_started=figures.never_started,
    )


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else round(milliseconds / 1000)


def _gpu_h(milli_gpu_ms: int) -> float:
    """To the thousandth, as the report has them."""
    return round(milli_gpu_ms / 1000 / _HOUR_MS, 3)
