"""Whether a stopped job went on where it was: what is to be seen, and what was, as values and words.

A stop for somebody else shows it, and a pause. One that was made on purpose also binds its job: if it
failed, the job may run only inside its team's guarantee.
"""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.going_on.ways import Way, WayToGoOn, comes_too_soon
from gpucommons.scheduler.core.going_on.words import spent
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.going_on import Drill
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import REPORTED, Attempt, Spec, Workload

#: Stops that show whether a job goes on. Not growth: with more workers a step comes sooner from the
#: start, too; nor a node that is taken back, which leaves no whole grace.
SHOWS = FOR_OTHERS | {StopCause.PAUSE, StopCause.DRILL}
#: Others wait so long for a tested job's word, or so many times what it had taken to get there.
_PATIENT_MS, _PATIENT = 600_000, 3


def begun(
    workload: Workload,
    attempt: Attempt,
    way: WayToGoOn | None,
    end: AttemptEnded,
    *,
    cut_short: bool,
) -> Drill | None:
    """What a stop has shown, or what is to be seen after it; None where nothing can be.

    ``cut_short``: others took of its grace, so that it says nothing that this was too little.
    """
    stop = attempt.stop
    known = workload.drill
    if known is not None and known.confines:
        return None
    if stop is None or stop.why not in SHOWS or attempt.started_ms is None or way is None:
        return None
    step, unit = _to_go_on_at(workload, way)
    drill = Drill(
        attempt=attempt.number,
        way=way.way.value,
        begun_ms=stop.announced_ms,
        stopped_ms=attempt.ended_ms or stop.kill_ms,
        on_purpose=stop.why == StopCause.DRILL,
        tested=stop.why == StopCause.DRILL or (known is not None and known.tested),
        step=step,
        unit=unit,
        reached_in_ms=_reached_in_ms(workload, attempt, way),
    )
    if end.killed and not cut_short:
        return evolve(drill, failed="it still ran when its grace was over, and had to be killed")
    to_be_saved = stop.hibernates and stop.promised and way.way is not Way.CHECKPOINT
    if to_be_saved and attempt.image is None:
        if cut_short:
            return None
        why = end.not_saved or "they were not"
        return evolve(drill, failed=f"its processes were to be saved: {why}")
    seen_later = step is not None or way.way is Way.PROCESS_IMAGE
    return drill if seen_later or drill.on_purpose else None


def _to_go_on_at(workload: Workload, way: WayToGoOn) -> tuple[int | None, str]:
    if way.way is Way.CHECKPOINT:
        return way.step, way.unit
    told = workload.progress
    # What began at its start once is followed again: it may have saved since then.
    if (way.way is Way.WORKING_FOLDER or way.seen) and told is not None:
        return told.step, told.unit or "step"
    return None, ""


def _reached_in_ms(workload: Workload, attempt: Attempt, way: WayToGoOn) -> int | None:
    saved, told = workload.checkpoint, workload.progress
    if way.way is Way.CHECKPOINT and saved is not None:
        at_ms = saved.at_ms if saved.attempt_id == attempt.attempt_id else None
    else:
        at_ms = None if told is None else told.at_ms
    if at_ms is None or attempt.started_ms is None:
        return None
    return max(0, at_ms - attempt.started_ms)


def after_start(drill: Drill, workload: Workload, attempt: Attempt) -> Drill:
    """What is known once it runs again: processes that were woken go on where they were."""
    if drill.way != Way.PROCESS_IMAGE or not drill.pending:
        return drill
    known = attempt.hibernation
    if known is not None and known.woken_from == drill.attempt:
        told = workload.progress
        step, unit = (None, "") if told is None else (told.step, told.unit or "step")
        return _passed(replace(drill, step=step, unit=unit), attempt, step)
    why = "" if known is None else known.not_woken
    return evolve(drill, failed=f"its saved memory was not woken{why and f': {why}'}")


def after_word(drill: Drill, attempt: Attempt, step: int, at_ms: int) -> Drill:
    """What is known from the first step that it tells, or saves, when it runs again."""
    if not drill.pending or drill.step is None or attempt.started_ms is None:
        return drill
    ran_ms = at_ms - attempt.started_ms
    if step < drill.step:
        name = drill.unit
        return evolve(
            drill,
            went_on_step=step,
            from_files=_is_from_its_files(drill, step, ran_ms),
            failed=f"it had {name} {drill.step:,} and began again at {name} {step:,}",
        )
    if not _is_too_soon(drill, ran_ms):
        # Who tells only every so many steps, or minutes, tells as much when it began from the start.
        return evolve(drill, untold=True)
    if drill.way == Way.START_OVER:
        drill = evolve(drill, way=Way.WORKING_FOLDER.value)
    # Its first word comes a step later, or many; where files of its own began is theirs to know.
    began_at = None if attempt.resumed_from is None else attempt.resumed_from.step
    return _passed(drill, attempt, began_at, at_ms)


def _is_from_its_files(drill: Drill, step: int, ran_ms: int) -> bool:
    """It came too soon for one who began at the start, at the speed that it had."""
    if not drill.step or drill.reached_in_ms is None:
        return False
    return comes_too_soon(ran_ms, drill.reached_in_ms * step // drill.step)


def patient_until_ms(workload: Workload) -> int | None:
    """When a tested job that runs again has said nothing for too long; None = nobody waits for its word."""
    attempt, drill = workload.current, workload.drill
    if attempt is None or attempt.started_ms is None or drill is None:
        return None
    if not (drill.on_purpose and drill.pending):
        return None
    return attempt.started_ms + max(_PATIENT_MS, _PATIENT * (drill.reached_in_ms or 0))


def _is_too_soon(drill: Drill, ran_ms: int) -> bool:
    """It cannot have been reached from the start in this time."""
    return drill.reached_in_ms is not None and comes_too_soon(ran_ms, drill.reached_in_ms)


def _passed(drill: Drill, attempt: Attempt, step: int | None, at_ms: int | None = None) -> Drill:
    again_ms = max(0, (at_ms or attempt.started_ms or 0) - attempt.reserved_ms)
    took_ms = max(0, drill.stopped_ms - drill.begun_ms) + again_ms
    return evolve(drill, went_on_step=step, took_ms=took_ms)


def counts_in(drill: Drill, source: str) -> bool:
    """Whether steps from this source are those that it has to go on at: a script's own count."""
    return drill.way != Way.CHECKPOINT or source == REPORTED


def confined(workload: Workload) -> Workload:
    """The same job, which borrows nothing where its test has failed."""
    drill = workload.drill
    if drill is None or not drill.confines or not workload.spec.over_quota:
        return workload
    return evolve(workload, spec=replace(workload.spec, over_quota=False))


def as_asked(workload: Workload) -> Spec:
    """What it asks for, whatever its test has shown: only jobs that may borrow are tested."""
    if workload.drill is None or not workload.drill.confines:
        return workload.spec
    return replace(workload.spec, over_quota=True)


def told(drill: Drill, *, runs: bool = False) -> str:
    """One sentence for pages and events; ``runs``: it runs again, and has told nothing yet."""
    at = _where(drill)
    if drill.failed:
        only = " It may run only inside its team's guarantee." if drill.on_purpose else ""
        test = "Tested" if drill.on_purpose else "Stopped"
        return f"{test}: {drill.failed}.{only}"
    if drill.took_ms is not None:
        took = f" ({spent(drill.took_ms)})"
        if drill.on_purpose:
            return f"Tested: stops and goes on {at}{took}."
        return f"It was stopped and went on {at}{took}."
    if drill.untold:
        return f"It was stopped, and whether it went on {at} cannot be told from what it says."
    return _to_be_seen(drill, at, runs=runs)


def _to_be_seen(drill: Drill, at: str, *, runs: bool) -> str:
    if drill.on_purpose:
        return f"Testing that this job can be stopped: it is to go on {at}."
    if runs:
        return f"It was stopped and runs again: its next word shows whether it goes on {at}."
    return f"It was stopped: whether it goes on {at} is seen once it runs again."


def _where(drill: Drill) -> str:
    if drill.step is None:
        return "where it stopped"
    if drill.passed and drill.went_on_step is None:
        return f"from its files, {drill.unit} {drill.step:,} or later first"
    shown = drill.step if drill.went_on_step is None else drill.went_on_step
    return f"at {drill.unit} {shown:,}"
