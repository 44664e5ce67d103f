"""What people and parts ask for, applied to the cycle state: done, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import (
    job_size,
    leases,
    loader,
    notebook_memory_limit,
    parking,
    pause_and_cancel,
)
from gpucommons.scheduler.core.events.endings import fail
from gpucommons.scheduler.core.events.known import known_pool, known_team
from gpucommons.scheduler.core.events.settings import settings
from gpucommons.scheduler.core.going_on.ways import saved_by, step_word
from gpucommons.scheduler.core.model.intents import (
    Action,
    Cancel,
    ChooseLoader,
    ChooseOnIdle,
    Intent,
    Keep,
    NoteAgent,
    NoteKept,
    NoteParked,
    NoteSchedule,
    Park,
    Pause,
    ReportIdle,
    ResizeJob,
    ResizeSlice,
    Restarted,
    Resume,
    Started,
    Submit,
    Unpark,
    Verdict,
)
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import (
    InvalidTransition,
    Misconfigured,
    SchedulerError,
    Unavailable,
    UnknownWorkload,
)

#: No spawner waits longer for the answer to its acquire.
ACQUIRE_PATIENCE_MS = 45_000


def apply(cycle: CycleState, intent: Intent) -> None:
    """Apply one intent and say what became of it."""
    try:
        workload_id = _apply(cycle, intent, intent.action)
    except SchedulerError as refusal:
        verdict = Verdict(intent_id=intent.intent_id, error=refusal.code, text=str(refusal))
    else:
        verdict = Verdict(intent_id=intent.intent_id, workload_id=workload_id)
    cycle.told.verdicts.append(verdict)


def _apply(cycle: CycleState, intent: Intent, action: Action) -> WorkloadId | None:
    of = type(action)
    if isinstance(action, Submit):
        return submit(cycle, intent, action)
    if isinstance(action, Cancel) or of in _TO_JOBS or of in _TO_LEASES:
        return _on_workload(cycle, action, intent.by)
    (_NOTES.get(of) or settings.save)(cycle, action, intent.by)
    return None


def submit(cycle: CycleState, intent: Intent, action: Submit) -> WorkloadId:
    """Put a new job or ticket into line."""
    spec = action.spec
    if action.workload_id in cycle.workloads:
        return action.workload_id
    if action.redeem and cycle.now_ms - intent.at_ms > ACQUIRE_PATIENCE_MS:
        # Whoever asked has given up: its slice would be held for nobody.
        message = "The scheduler was away for too long to start this server. Start it again."
        raise Unavailable(message)
    known_team(cycle, spec.team)
    if not spec.pools or not spec.roles:
        message = f"{spec.name} names no pool or no role: it could never start. Name one of each."
        raise Misconfigured(message)
    for pool in spec.pools:
        known_pool(cycle, pool)
    workload = Workload(
        workload_id=action.workload_id,
        spec=spec,
        state=State.QUEUED,
        submitted_ms=intent.at_ms,
        since_ms=cycle.now_ms,
        checkpoint=_taken_over(cycle, action, intent.by),
        loader=action.loader,
    )
    if is_lease(workload):
        lease = replace(workload, state=State.WAITING)
        return leases.take_ticket(cycle, lease, redeem=action.redeem, by=intent.by)
    cycle.put(workload)
    text = f"{spec.name} was submitted{_going_on(workload)}."
    cycle.tell("submitted", text, workload, by=intent.by)
    missing = [before for before in spec.after if before not in cycle.workloads]
    if missing:
        # What was acknowledged is not forgotten: it ends where its owner sees it.
        text = f"It should run after {missing[0]}, which nobody knows. Submit it without that"
        fail(cycle, workload, text)
    else:
        cycle.arrived(workload)
    return action.workload_id


def _going_on(workload: Workload) -> str:
    saved = workload.checkpoint
    return "" if saved is None else f" and goes on from {step_word(workload)} {saved.step}"


def _taken_over(cycle: CycleState, action: Submit, by: str) -> Checkpoint | None:
    """The saved progress that a new job goes on from; who still waits with it gives way to it.

    Both in one step: there is no moment in which two jobs may go on from it, and none in which
    nobody would.
    """
    spec = action.spec
    earlier = None if spec.resume_from is None else cycle.workloads.get(spec.resume_from)
    if earlier is None:
        return action.checkpoint
    if not is_final(earlier) and earlier.state is not State.CANCELLING:
        pause_and_cancel.cancel(cycle, earlier, by, f"{spec.name} goes on in its place")
    return saved_by(earlier)


def _on_workload(cycle: CycleState, action: Any, by: str) -> WorkloadId:
    workload_id: WorkloadId = action.workload_id
    workload = cycle.workloads.get(workload_id)
    if workload is None:
        told_before = isinstance(action, Cancel) and action.why in leases.SERVER_GONE
        if told_before or isinstance(action, Restarted):
            return workload_id  # the end of a lease is reported until heard
        message = f"There is no live job or notebook {workload_id}."
        raise UnknownWorkload(message)
    if isinstance(action, Cancel) and is_lease(workload):
        leases.end(cycle, workload, action, by)
    elif isinstance(action, Cancel):
        pause_and_cancel.cancel(cycle, workload, by)
    elif (to_job := _TO_JOBS.get(type(action))) is not None:
        to_job(cycle, _job(workload), action, by)
    else:
        _TO_LEASES[type(action)](cycle, _lease(workload), action, by)
    return workload_id


def _note_agent(cycle: CycleState, action: NoteAgent, _by: str) -> None:
    """What an agent did to the processes of a slice is an event of who holds the slice."""
    holders = (one for one in cycle.workloads.values() if _has_slice(one, action.slice_id))
    holder = None if action.slice_id is None else next(holders, None)
    if action.workload_id is not None:
        holder = cycle.workloads.get(action.workload_id)
    data = {**action.data, "slice_id": action.slice_id, "at_ms": action.at_ms}
    by = f"agent of {action.node}" if action.node else "scheduler"
    cycle.tell(action.kind, action.text, holder, by=by, data=data)


def _has_slice(workload: Workload, slice_id: SliceId | None) -> bool:
    attempt, parked = workload.current, workload.parked
    places = () if attempt is None else attempt.placements
    return any(one.slice_id == slice_id for one in places) or (
        parked is not None and parked.place.slice_id == slice_id
    )


def _note_schedule(cycle: CycleState, action: NoteSchedule, by: str) -> None:
    cycle.tell(action.kind, action.text, by=by, team=action.team, data=dict(action.data))


def _job(workload: Workload) -> Workload:
    if is_lease(workload):
        message = (
            "A notebook cannot be paused, resumed or resized as a job. Stop its server instead."
        )
        raise InvalidTransition(message)
    return workload


def _lease(workload: Workload) -> Workload:
    if not is_lease(workload):
        message = f"{workload.spec.name} is a job, not a notebook."
        raise InvalidTransition(message)
    return workload


#: What can be asked of a job, of a notebook, and what is only put on record; settings are saved by their own.
_TO_JOBS: Mapping[type, Callable[[CycleState, Workload, Any, str], None]] = {
    Pause: pause_and_cancel.pause,
    Resume: pause_and_cancel.resume,
    ResizeJob: job_size.resize,
    ChooseLoader: loader.choose,
}
_TO_LEASES: Mapping[type, Callable[[CycleState, Workload, Any, str], None]] = {
    ResizeSlice: notebook_memory_limit.resize,
    Keep: leases.keep,
    ReportIdle: leases.report_idle,
    ChooseOnIdle: leases.choose_on_idle,
    Started: leases.started,
    Restarted: leases.restarted,
    Park: parking.park,
    NoteParked: parking.note_parked,
    Unpark: parking.unpark,
}
_NOTES: Mapping[type, Callable[[CycleState, Any, str], None]] = {
    NoteAgent: _note_agent,
    NoteSchedule: _note_schedule,
    NoteKept: leases.note_kept,
}
