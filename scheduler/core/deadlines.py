"""What time alone brings about: grants lapse, notices end, starts and runs take too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.next_deadlines import Times
from gpucommons.scheduler.core.events import leases, parking
from gpucommons.scheduler.core.events.drill_records import never_heard
from gpucommons.scheduler.core.events.endings import fail
from gpucommons.scheduler.core.events.nodes import slow_nodes, unhealthy_devices
from gpucommons.scheduler.core.eviction.policies import stoppable_from_ms
from gpucommons.scheduler.core.going_on.drill_verdict import patient_until_ms
from gpucommons.scheduler.core.lending import lending_pause
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease, is_met, move, with_attempt
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import consolidation, drill_selection, elastic_sizes
from gpucommons.scheduler.core.placement import narrowed_pools
from gpucommons.scheduler.core.queue import back_off, giving_up, reclaim_cooldown
from gpucommons.scheduler.core.queue.reasons_not_eligible import not_met
from gpucommons.scheduler.core.queue.run_time_limit import run_left, run_limit
from gpucommons.scheduler.core.quota.fair_share import LOOKS, half_life_of, looked_at_ms
from gpucommons.scheduler.core.stopping import grace


def expire(cycle: CycleState) -> None:
    """Apply every deadline that has passed. The end of a notice is one: then SIGTERM is sent."""
    unhealthy_devices.come_back(cycle)
    slow_nodes.expire(cycle)
    times = _look(cycle)
    cycle.clock.look(times, cycle.now_ms)
    passed = cycle.clock.passed(cycle.now_ms) | cycle.index.dependent
    for workload_id in sorted(passed & cycle.workloads.keys()):
        workload = cycle.workloads[workload_id]
        attempt = workload.current
        if attempt is not None:
            (_lease if is_lease(workload) else _job)(cycle, workload, attempt)
        elif workload.state in {State.QUEUED, State.NOMINATED}:
            _queued(cycle, workload)


def _lease(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    if workload.redeem_by_ms is not None and workload.redeem_by_ms <= cycle.now_ms:
        _lapse(cycle, workload, attempt)
        return
    if parking.given_up_ms(workload) <= cycle.now_ms:
        parking.give_up(cycle, workload)
        return
    late = attempt.reserved_ms + workload.spec.start_timeout_ms <= cycle.now_ms
    if attempt.state is AttemptState.STARTING and attempt.stop is None and late:
        text = "The notebook server did not start in time"
        grace.stop_without_notice(cycle, workload, why=StopCause.TIMEOUT, text=text)


def _lapse(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    """Nobody took the granted slice: others' turn, and after a few times for good."""
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        ended_ms=cycle.now_ms,
        ended_text="Its server did not start in time",
    )
    workload = with_attempt(reclaim_cooldown.noted(cycle, workload), ended)
    lending_pause.begin(cycle, workload, ended)
    if giving_up.pointless(workload):
        leases.finish(
            cycle,
            workload,
            f"Its turn came {giving_up.in_vain(workload)} times, and its server did not start: see on JupyterHub's page"
            " that it starts, then wait in line again",
        )
        return
    workload = cycle.put(
        move(
            workload,
            State.WAITING,
            cycle.now_ms,
            redeem_by_ms=None,
            not_before_ms=Millis(cycle.now_ms + back_off.of_ticket(workload)),
        )
    )
    cycle.tell("grant-lapsed", "The notebook did not start in time; it waits on.", workload)


def _job(cycle: CycleState, workload: Workload, attempt: Attempt) -> None:
    if attempt.stop is not None:
        grace.signal_due(cycle, workload)
        return
    if attempt.started_ms is None:
        if attempt.reserved_ms + workload.spec.start_timeout_ms <= cycle.now_ms:
            wait = duration(workload.spec.start_timeout_ms // 1000)
            grace.stop_without_notice(
                cycle, workload, why=StopCause.TIMEOUT, text=f"Not all workers ran within {wait}"
            )
        return
    left = run_left(cycle, workload)
    if left is not None and attempt.started_ms + left <= cycle.now_ms:
        grace.stop_without_notice(
            cycle, workload, why=StopCause.MAX_RUN, text=_ran_too_long(cycle, workload)
        )
        return
    never_heard(cycle, workload)


def _ran_too_long(cycle: CycleState, workload: Workload) -> str:
    limit = run_limit(cycle, workload) or 0
    runs = sum(one.started_ms is not None for one in workload.attempts)
    together = "" if runs == 1 else f", {runs} attempts together"
    return f"It ran longer than its limit of {duration(limit // 1000)}{together}"


def _queued(cycle: CycleState, workload: Workload) -> None:
    """It may have no time left, or nothing to wait for."""
    if _has_no_time_left(cycle, workload):
        if workload.state is State.NOMINATED:
            workload = move(workload, State.QUEUED, cycle.now_ms, nomination=None)
        fail(cycle, workload, _ran_too_long(cycle, workload))
    elif workload.state is State.QUEUED:
        _dependency(cycle, workload)


def _has_no_time_left(cycle: CycleState, workload: Workload) -> bool:
    """Others' work is not stopped for an attempt that would be over as soon as it runs."""
    return (
        bool(workload.attempts)
        and not is_lease(workload)
        and workload.state in {State.QUEUED, State.NOMINATED}
        and run_left(cycle, workload) == 0
    )


def _dependency(cycle: CycleState, workload: Workload) -> None:
    for before in workload.spec.after:
        found = cycle.workloads.get(before)
        if found is not None and is_met(workload.spec, found) is False:
            fail(cycle, workload, not_met(workload.spec, found))
            return


def next_deadline(cycle: CycleState) -> Millis | None:
    """When time alone will next change something."""
    times = _look(cycle)
    cycle.clock.look(times, cycle.now_ms)
    overdue = cycle.clock.overdue & cycle.workloads.keys()
    if any(_is_to_end(cycle, cycle.workloads[workload_id]) for workload_id in overdue):
        return Millis(cycle.now_ms + 1)
    due = [at for at in _ahead(cycle) if at > cycle.now_ms]
    found = cycle.clock.next_ms(times)
    if found is not None:
        due.append(found)
    return Millis(min(due)) if due else None


def _ahead(cycle: CycleState) -> Iterator[int]:
    """When something changes that no workload has a deadline for; some of it has passed."""
    yield from (one.until_ms for one in cycle.carried.released)
    for one in cycle.carried.fair_share_reservations.values():
        yield from (one.until_ms, one.again_ms)
    yield from _turns(cycle)
    yield from reclaim_cooldown.on_cooldown(cycle).values()
    yield from elastic_sizes.next_changes(cycle)
    yield from narrowed_pools.next_prices(cycle)
    yield from unhealthy_devices.next_times(cycle)
    yield from slow_nodes.next_times(cycle)
    yield from drill_selection.next_drills(cycle)
    if any(waiting.members for waiting in cycle.index.equivalence_classes.values()):
        yield from consolidation.next_moves(cycle)


def _is_to_end(cycle: CycleState, workload: Workload) -> bool:
    """A notice of no length is over as soon as it is committed, and who is spared may be late meanwhile."""
    attempt = workload.current
    if attempt is None:
        return False
    if attempt.stop is not None:
        return not attempt.stop.signalled
    return attempt.spared_ms == cycle.now_ms


def _look(cycle: CycleState) -> Times:
    rules = (cycle.teams, cycle.pools, cycle.policy)
    if cycle.clock.rules != rules:
        kept = (dict(cycle.teams), dict(cycle.pools), cycle.policy)
        cycle.clock.restart(kept, cycle.workloads)

    def times(workload_id: WorkloadId) -> list[int]:
        workload = cycle.workloads.get(workload_id)
        return [] if workload is None else _times(cycle, workload)

    return times


def _times(cycle: CycleState, workload: Workload) -> list[int]:
    """When something about a workload changes by itself."""
    attempt, spec = workload.current, workload.spec
    if is_final(workload):
        return []
    if attempt is None:
        over = workload.since_ms if _has_no_time_left(cycle, workload) else 0
        return [at for at in (workload.not_before_ms, spec.not_before_ms, over) if at]
    due: list[int] = []
    if workload.redeem_by_ms is not None:
        due.append(workload.redeem_by_ms)
    if workload.state is State.PARKING:
        due.append(parking.given_up_ms(workload))
    if attempt.stop is not None:
        due.append(attempt.stop.term_ms)
    elif attempt.started_ms is None:
        if workload.redeem_by_ms is None:
            due.append(attempt.reserved_ms + spec.start_timeout_ms)
    elif not is_lease(workload):
        left = run_left(cycle, workload)
        if left is not None:
            due.append(attempt.started_ms + left)
        due.append(patient_until_ms(workload) or 0)
        due.append(stoppable_from_ms(cycle, workload, attempt) or 0)
        # From then on it may be moved, also where share and priority have to wait for longer.
        due.append(attempt.started_ms + cycle.pool_of(attempt).min_run_ms)
    return due


def _turns(cycle: CycleState) -> Iterator[int]:
    """When to see whose turn it is: what others borrow grows old by time alone."""
    waiting = {
        (pool, key.team)
        for key, waiting in cycle.index.equivalence_classes.items()
        if key.over_quota
        and any(cycle.workloads[i].state is State.QUEUED for _, i in waiting.members)
        for pool in key.pools
    }
    for pool in sorted({pool for pool, _ in waiting}):
        half_life_ms = half_life_of(cycle.pools, pool)
        borrowers = {
            team for (team, where), use in cycle.uses.items() if where == pool and use.borrowed
        }
        if any(borrowers - {team} for where, team in waiting if where == pool):
            yield looked_at_ms(cycle.now_ms, half_life_ms) + max(1, half_life_ms // LOOKS)
