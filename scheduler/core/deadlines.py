"""What time alone brings about: grants lapse, notices end, starts and runs take too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpucommons.scheduler.core.cycle_state import stops
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.events import leases
from gpucommons.scheduler.core.events.endings import fail
from gpucommons.scheduler.core.model.clock import Times
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease, move, with_attempt
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import consolidation, growing
from gpucommons.scheduler.core.queue import lending, tries, withdrawals
from gpucommons.scheduler.core.queue.eligibility import duration, policies
from gpucommons.scheduler.core.quota.fair_share import LOOKS, half_life_of, looked_at_ms

#: After a grant that nobody redeemed, others go first for so long; twice as long the next time.
UNREDEEMED_BACK_OFF_MS = 30_000


def expire(draft: Draft) -> None:
    """Apply every deadline that has passed."""
    times = _look(draft)
    draft.clock.look(times, draft.now_ms)
    passed = draft.clock.passed(draft.now_ms) | draft.register.dependent
    for workload_id in sorted(passed & draft.workloads.keys()):
        workload = draft.workloads[workload_id]
        attempt = workload.current
        if attempt is not None:
            (_lease if is_lease(workload) else _job)(draft, workload, attempt)
        elif workload.state in {State.QUEUED, State.NOMINATED}:
            _queued(draft, workload)


def _lease(draft: Draft, workload: Workload, attempt: Attempt) -> None:
    if workload.redeem_by_ms is not None and workload.redeem_by_ms <= draft.now_ms:
        _lapse(draft, workload, attempt)
        return
    late = attempt.reserved_ms + workload.spec.start_timeout_ms <= draft.now_ms
    if attempt.state is AttemptState.STARTING and attempt.stop is None and late:
        text = "The notebook server did not start in time"
        stops.end_now(draft, workload, why="timeout", text=text)


def _lapse(draft: Draft, workload: Workload, attempt: Attempt) -> None:
    """Nobody took the granted slice: others' turn, and after a few times for good."""
    ended = replace(
        attempt,
        state=AttemptState.ENDED,
        ended_ms=draft.now_ms,
        ended_text="Its server did not start in time",
    )
    workload = with_attempt(withdrawals.noted(draft, workload), ended)
    lending.give_up(draft, workload, ended)
    in_vain = tries.in_vain(workload)
    if tries.pointless(workload):
        leases.finish(
            draft,
            workload,
            f"Its turn came {in_vain} times, and its server did not start: see on JupyterHub's page"
            " that it starts, then wait in line again",
        )
        return
    rest_ms = UNREDEEMED_BACK_OFF_MS << (in_vain - 1)
    workload = draft.put(
        move(
            workload,
            State.WAITING,
            draft.now_ms,
            redeem_by_ms=None,
            not_before_ms=Millis(draft.now_ms + rest_ms),
        )
    )
    draft.tell("grant-lapsed", "The notebook did not start in time; it waits on.", workload)


def _job(draft: Draft, workload: Workload, attempt: Attempt) -> None:
    if attempt.stop is not None:
        stops.signal_due(draft, workload)
        return
    if attempt.started_ms is None:
        if attempt.reserved_ms + workload.spec.start_timeout_ms <= draft.now_ms:
            wait = duration(workload.spec.start_timeout_ms // 1000)
            stops.end_now(draft, workload, why="timeout", text=f"Not all workers ran within {wait}")
        return
    left = run_left(draft, workload)
    if left is not None and attempt.started_ms + left <= draft.now_ms:
        stops.end_now(draft, workload, why="max-run", text=_ran_too_long(draft, workload))


def run_limit(draft: Draft | Cluster, workload: Workload) -> int | None:
    """Longest run of a job, all attempts together: the smallest of what it and its policies say."""
    limits = [workload.spec.max_run_ms, *(p.max_run_ms for p in policies(draft, workload))]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def run_left(draft: Draft | Cluster, workload: Workload) -> int | None:
    """How long its attempt may run, the one there is or the next; earlier ones have had their part."""
    limit = run_limit(draft, workload)
    return None if limit is None else max(0, limit - _ran_before(workload))


def _ran_before(workload: Workload) -> int:
    return sum(
        one.ended_ms - one.started_ms
        for one in workload.attempts
        if one.started_ms is not None and one.ended_ms is not None
    )


def _ran_too_long(draft: Draft, workload: Workload) -> str:
    limit = run_limit(draft, workload) or 0
    runs = sum(one.started_ms is not None for one in workload.attempts)
    together = "" if runs == 1 else f", {runs} attempts together"
    return f"It ran longer than its limit of {duration(limit // 1000)}{together}"


def _queued(draft: Draft, workload: Workload) -> None:
    """It may have no time left, or nothing to wait for."""
    if _has_no_time_left(draft, workload):
        if workload.state is State.NOMINATED:
            workload = move(workload, State.QUEUED, draft.now_ms, nomination=None)
        fail(draft, workload, _ran_too_long(draft, workload))
    elif workload.state is State.QUEUED:
        _dependency(draft, workload)


def _has_no_time_left(draft: Draft, workload: Workload) -> bool:
    """Others' work is not stopped for an attempt that would be over as soon as it runs."""
    return (
        bool(workload.attempts)
        and not is_lease(workload)
        and workload.state in {State.QUEUED, State.NOMINATED}
        and run_left(draft, workload) == 0
    )


def _dependency(draft: Draft, workload: Workload) -> None:
    for before in workload.spec.after:
        found = draft.workloads.get(before)
        if found is not None and is_final(found) and found.state is not State.SUCCEEDED:
            name = found.spec.name
            fail(draft, workload, f"{name}, after which it should run, has {found.state}")
            return


def next_deadline(draft: Draft) -> Millis | None:
    """When time alone will next change something."""
    times = _look(draft)
    draft.clock.look(times, draft.now_ms)
    overdue = draft.clock.overdue & draft.workloads.keys()
    if any(_is_to_end(draft, draft.workloads[workload_id]) for workload_id in overdue):
        return Millis(draft.now_ms + 1)
    due = [one.until_ms for one in draft.released if one.until_ms > draft.now_ms]
    due.extend(Millis(at) for at in _turns(draft))
    kept_until = (at for one in draft.kept.values() for at in (one.until_ms, one.again_ms))
    due.extend(at for at in kept_until if at > draft.now_ms)
    due.extend(withdrawals.held_back(draft).values())
    due.extend(Millis(at) for at in growing.next_growth(draft) if at > draft.now_ms)
    if any(line.members for line in draft.register.lines.values()):
        due.extend(Millis(at) for at in consolidation.next_moves(draft) if at > draft.now_ms)
    found = draft.clock.next_ms(times)
    if found is not None:
        due.append(Millis(found))
    return min(due, default=None)


def _is_to_end(draft: Draft, workload: Workload) -> bool:
    """A notice of no length is over as soon as it is committed, and who is spared may be late meanwhile."""
    attempt = workload.current
    if attempt is None:
        return False
    if attempt.stop is not None:
        return not attempt.stop.signalled
    return attempt.spared_ms == draft.now_ms


def _look(draft: Draft) -> Times:
    rules = (draft.teams, draft.pools, draft.policy)
    if draft.clock.rules != rules:
        kept = (dict(draft.teams), dict(draft.pools), draft.policy)
        draft.clock.restart(kept, draft.workloads)

    def times(workload_id: WorkloadId) -> list[int]:
        workload = draft.workloads.get(workload_id)
        return [] if workload is None else _times(draft, workload)

    return times


def _times(draft: Draft, workload: Workload) -> list[int]:
    """When something about a workload changes by itself."""
    attempt, spec = workload.current, workload.spec
    if is_final(workload):
        return []
    if attempt is None:
        over = workload.since_ms if _has_no_time_left(draft, workload) else 0
        return [at for at in (workload.not_before_ms, spec.not_before_ms, over) if at]
    due: list[int] = []
    if workload.redeem_by_ms is not None:
        due.append(workload.redeem_by_ms)
    if attempt.stop is not None:
        due.append(attempt.stop.term_ms)
    elif attempt.started_ms is None:
        if workload.redeem_by_ms is None:
            due.append(attempt.reserved_ms + spec.start_timeout_ms)
    elif not is_lease(workload):
        left = run_left(draft, workload)
        if left is not None:
            due.append(attempt.started_ms + left)
        due.append(stops.stoppable_from_ms(draft, workload, attempt) or 0)
        # From then on it may be moved, also where share and priority have to wait for longer.
        due.append(attempt.started_ms + stops.pool_settings(draft, attempt).min_run_ms)
    return due


def _turns(draft: Draft) -> Iterator[int]:
    """When to see whose turn it is: what others borrow grows old by time alone."""
    waiting = {
        (pool, key.team)
        for key, line in draft.register.lines.items()
        if key.over_quota and any(draft.workloads[i].state is State.QUEUED for _, i in line.members)
        for pool in key.pools
    }
    for pool in sorted({pool for pool, _ in waiting}):
        half_life_ms = half_life_of(draft.pools, pool)
        borrowers = {
            team for (team, where), use in draft.uses.items() if where == pool and use.borrowed
        }
        if any(borrowers - {team} for where, team in waiting if where == pool):
            yield looked_at_ms(draft.now_ms, half_life_ms) + max(1, half_life_ms // LOOKS)
