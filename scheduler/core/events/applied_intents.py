"""What people and parts ask for, applied to the cycle state: done, or refused with a sentence."""

from __future__ import annotations

from dataclasses import replace

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
    UnknownPool,
    UnknownTeam,
    UnknownWorkload,
)

#: No spawner waits longer for the answer to its acquire.
ACQUIRE_PATIENCE_MS = 45_000
_Parking = Park | NoteParked | Unpark
_OnLease = Keep | ReportIdle | ChooseOnIdle | ResizeSlice | Started | Restarted


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
    by = intent.by
    match action:
        case Submit():
            return submit(cycle, intent, action)
        case Cancel() | Pause() | Resume() | ResizeJob() | ChooseLoader():
            return _on_workload(cycle, action, by)
        case Keep() | ReportIdle() | ChooseOnIdle() | ResizeSlice() | Started() | Restarted():
            return _on_workload(cycle, action, by)
        case Park() | NoteParked() | Unpark():
            return _on_workload(cycle, action, by)
        case NoteAgent():
            _note(cycle, action)
        case NoteSchedule():
            cycle.tell(action.kind, action.text, by=by, team=action.team, data=dict(action.data))
        case NoteKept():
            leases.note_kept(cycle, action)
        case _:
            settings.save(cycle, action, by)
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
    if spec.team not in cycle.teams:
        message = f"There is no team {spec.team}. Teams are: {', '.join(sorted(cycle.teams))}."
        raise UnknownTeam(message)
    if not spec.pools or not spec.roles:
        message = f"{spec.name} names no pool or no role: it could never start. Name one of each."
        raise Misconfigured(message)
    unknown = [pool for pool in spec.pools if pool not in cycle.pools]
    if unknown:
        message = f"There is no pool {unknown[0]}. Pools are: {', '.join(sorted(cycle.pools))}."
        raise UnknownPool(message)
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


def _on_workload(
    cycle: CycleState,
    action: Cancel | Pause | Resume | ResizeJob | ChooseLoader | _OnLease | _Parking,
    by: str,
) -> WorkloadId:
    workload = cycle.workloads.get(action.workload_id)
    if workload is None:
        told_before = isinstance(action, Cancel) and action.why in leases.SERVER_GONE
        if told_before or isinstance(action, Restarted):
            return action.workload_id  # the end of a lease is reported until heard
        message = f"There is no live job or notebook {action.workload_id}."
        raise UnknownWorkload(message)
    match action:
        case Cancel() if is_lease(workload):
            leases.end(cycle, workload, action, by)
        case Cancel():
            pause_and_cancel.cancel(cycle, workload, by)
        case Pause():
            pause_and_cancel.pause(cycle, _job(workload), by, of_parent=action.of_parent)
        case Resume():
            pause_and_cancel.resume(cycle, _job(workload), by, of_parent=action.of_parent)
        case ResizeJob() | ChooseLoader():
            _on_next_attempt(cycle, _job(workload), action, by)
        case Keep() | ReportIdle() | ChooseOnIdle() | ResizeSlice() | Started() | Restarted():
            _on_lease(cycle, _lease(workload), action, by)
        case Park() | NoteParked() | Unpark():
            parking.apply(cycle, _lease(workload), action, by)
    return action.workload_id


def _on_next_attempt(
    cycle: CycleState, job: Workload, action: ResizeJob | ChooseLoader, by: str
) -> None:
    match action:
        case ResizeJob():
            job_size.resize(cycle, job, action, by)
        case ChooseLoader():
            loader.choose(cycle, job, action, by)


def _note(cycle: CycleState, action: NoteAgent) -> None:
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


def _on_lease(cycle: CycleState, lease: Workload, action: _OnLease, by: str) -> None:
    match action:
        case ResizeSlice():
            notebook_memory_limit.resize(cycle, lease, action, by)
        case Keep():
            leases.keep(cycle, lease, action, by)
        case ReportIdle():
            leases.report_idle(cycle, lease, action)
        case ChooseOnIdle():
            leases.choose_on_idle(cycle, lease, action, by)
        case Started():
            leases.started(cycle, lease)
        case Restarted():
            leases.restarted(cycle, lease)


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
