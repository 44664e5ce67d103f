"""What stops and what follows them show of a job, put on record: badges come and go by it."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on import badges, drill_verdict
from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.going_on import Badge, Drill
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import Attempt, HoldClass, Workload
from gpucommons.scheduler.core.stopping import notice


def stopped(cycle: CycleState, workload: Workload, attempt: Attempt, end: AttemptEnded) -> Workload:
    """An attempt has ended as it was told to: what that shows, and what is to be seen yet."""
    stop, grace_ms = attempt.stop, cycle.pool_of(attempt).grace_ms
    cut_short = stop is not None and stop.kill_ms - stop.term_ms < grace_ms
    way = way_to_go_on(workload)
    drill = drill_verdict.begun(workload, attempt, way, end, cut_short=cut_short)
    return workload if drill is None else _noted(cycle, workload, drill)


def started(cycle: CycleState, workload: Workload) -> Workload:
    """It runs again."""
    attempt, drill = workload.current, workload.drill
    if attempt is None or drill is None:
        return workload
    return _followed(cycle, workload, drill_verdict.after_start(drill, workload, attempt))


def heard(cycle: CycleState, workload: Workload, step: int, source: str) -> Workload:
    """It tells, or saves, a step."""
    attempt, drill = workload.current, workload.drill
    if attempt is None or drill is None or not drill_verdict.counts_in(drill, source):
        return workload
    return _followed(cycle, workload, drill_verdict.after_word(drill, attempt, step, cycle.now_ms))


def never_heard(cycle: CycleState, workload: Workload) -> None:
    """A tested job runs again and says nothing: after a while nobody waits for its word any more."""
    until_ms = drill_verdict.patient_until_ms(workload)
    if workload.drill is not None and until_ms is not None and until_ms <= cycle.now_ms:
        _followed(cycle, workload, evolve(workload.drill, untold=True))


def over(cycle: CycleState, workload: Workload) -> Workload:
    """A job that is over says nothing more: what it has not shown by then is not known."""
    drill = workload.drill
    if drill is None or not drill.pending:
        return workload
    return _noted(cycle, workload, evolve(drill, untold=True))


def _followed(cycle: CycleState, workload: Workload, drill: Drill) -> Workload:
    if drill is workload.drill:
        return workload
    if drill.failed and not drill.from_files:
        workload = _with_what_came(workload, drill)
    return cycle.put(_noted(cycle, workload, drill))


def _with_what_came(workload: Workload, drill: Drill) -> Workload:
    """The attempt that was stopped was promised a way to go on: beside that it says that it did not hold."""
    attempts = tuple(
        evolve(one, ended_text=f"{one.ended_text}; it did not: {drill.failed}")
        if one.number == drill.attempt and one.ended_text
        else one
        for one in workload.attempts
    )
    return evolve(workload, attempts=attempts)


def _noted(cycle: CycleState, workload: Workload, drill: Drill) -> Workload:
    """With its drill as it is now, and all that follows from it."""
    workload = drill_verdict.confined(evolve(workload, drill=drill))
    if drill.passed:
        _give(cycle, workload, drill)
    elif drill.failed:
        _take(cycle, workload, drill)
    if drill.on_purpose and not drill.pending:
        kind = (
            "drill-passed" if drill.passed else "drill-failed" if drill.failed else "drill-untold"
        )
        _tell(cycle, workload, drill, kind)
    return _leaves_what_it_borrows(cycle, workload) if drill.confines else workload


def _give(cycle: CycleState, workload: Workload, drill: Drill) -> None:
    key, known = badges.badge_key(workload.spec), cycle.carried.badges
    if key is None:
        return
    while key not in known and len(known) >= badges.MOST:
        del known[min(known, key=lambda one: (known[one].given_ms, one))]
    known[key] = Badge(
        team=workload.spec.team,
        job=workload.spec.name,
        way=drill.way,
        given_ms=cycle.now_ms,
        took_ms=drill.took_ms or 0,
        step=drill.step,
        unit=drill.unit,
    )


def _take(cycle: CycleState, workload: Workload, drill: Drill) -> None:
    key = badges.badge_key(workload.spec)
    if key is not None and cycle.carried.badges.pop(key, None) is not None:
        name = workload.spec.name
        text = f"{name} does not count as safe to borrow any more: {drill.failed}."
        cycle.tell("badge-lost", text, workload, data=_data(drill))


def _leaves_what_it_borrows(cycle: CycleState, workload: Workload) -> Workload:
    attempt = workload.current
    if attempt is None or attempt.hold_class is not HoldClass.OVER_QUOTA:
        return workload
    text = f"because its test failed, and goes on inside the guarantee of {workload.spec.team}"
    return notice.end_soon(cycle, workload, why=StopCause.CONFINE, text=text)


def _tell(cycle: CycleState, workload: Workload, drill: Drill, kind: str) -> None:
    cycle.tell(
        kind, f"{workload.spec.name}: {drill_verdict.told(drill)}", workload, data=_data(drill)
    )


def _data(drill: Drill) -> dict[str, object]:
    return {
        "way_to_go_on": drill.way,
        "step": drill.step,
        "unit": drill.unit,
        "went_on_step": drill.went_on_step,
        "took_ms": drill.took_ms,
        "failed": drill.failed,
    }
