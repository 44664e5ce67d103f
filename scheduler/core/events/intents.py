"""What people and parts ask for, applied to the draft: done, or refused with a sentence."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state import stops
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.events import job_size, leases, resizing, settings
from gpucommons.scheduler.core.events.endings import cancelled, fail
from gpucommons.scheduler.core.going_on.ways import step_word
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease, move
from gpucommons.scheduler.core.model.state import (
    Action,
    Cancel,
    Intent,
    Keep,
    NoteAgent,
    Pause,
    ReportIdle,
    ResizeJob,
    ResizeSlice,
    Restarted,
    Resume,
    Started,
    Submit,
    Verdict,
)
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    PausedSpan,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue import withdrawals
from gpucommons.scheduler.errors import (
    InvalidTransition,
    Misconfigured,
    SchedulerError,
    Unavailable,
    UnknownPool,
    UnknownTeam,
    UnknownWorkload,
)

#: A job that is paused again and again must not grow without bound.
_PAUSES_KEPT = 50
#: No spawner waits longer for the answer to its acquire.
ACQUIRE_PATIENCE_MS = 45_000
_OnLease = Keep | ReportIdle | ResizeSlice | Started | Restarted


def apply(draft: Draft, intent: Intent) -> None:
    """Apply one intent and say what became of it."""
    try:
        workload_id = _apply(draft, intent, intent.action)
    except SchedulerError as refusal:
        verdict = Verdict(intent_id=intent.intent_id, error=refusal.code, text=str(refusal))
    else:
        verdict = Verdict(intent_id=intent.intent_id, workload_id=workload_id)
    draft.verdicts.append(verdict)


def _apply(draft: Draft, intent: Intent, action: Action) -> WorkloadId | None:
    by = intent.by
    match action:
        case Submit():
            return submit(draft, intent, action)
        case Cancel() | Pause() | Resume() | ResizeJob():
            return _on_workload(draft, action, by)
        case Keep() | ReportIdle() | ResizeSlice() | Started() | Restarted():
            return _on_workload(draft, action, by)
        case NoteAgent():
            _note(draft, action)
        case _:
            settings.save(draft, action, by)
    return None


def submit(draft: Draft, intent: Intent, action: Submit) -> WorkloadId:
    """Put a new job or ticket into line."""
    spec = action.spec
    if action.workload_id in draft.workloads:
        return action.workload_id
    if action.redeem and draft.now_ms - intent.at_ms > ACQUIRE_PATIENCE_MS:
        # Whoever asked has given up: its slice would be held for nobody.
        message = "The scheduler was away for too long to start this server. Start it again."
        raise Unavailable(message)
    if spec.team not in draft.teams:
        message = f"There is no team {spec.team}. Teams are: {', '.join(sorted(draft.teams))}."
        raise UnknownTeam(message)
    if not spec.pools or not spec.roles:
        message = f"{spec.name} names no pool or no role: it could never start. Name one of each."
        raise Misconfigured(message)
    unknown = [pool for pool in spec.pools if pool not in draft.pools]
    if unknown:
        message = f"There is no pool {unknown[0]}. Pools are: {', '.join(sorted(draft.pools))}."
        raise UnknownPool(message)
    workload = Workload(
        workload_id=action.workload_id,
        spec=spec,
        state=State.QUEUED,
        submitted_ms=intent.at_ms,
        since_ms=draft.now_ms,
        checkpoint=_taken_over(draft, action, intent.by),
    )
    if is_lease(workload):
        lease = replace(workload, state=State.WAITING)
        return leases.take_ticket(draft, lease, redeem=action.redeem, by=intent.by)
    draft.put(workload)
    text = f"{spec.name} was submitted{_going_on(draft, workload)}."
    draft.tell("submitted", text, workload, by=intent.by)
    missing = [before for before in spec.after if before not in draft.workloads]
    if missing:
        # What was acknowledged is not forgotten: it ends where its owner sees it.
        text = f"It should run after {missing[0]}, which nobody knows. Submit it without that"
        fail(draft, workload, text)
    else:
        draft.arrived(workload)
    return action.workload_id


def _going_on(draft: Draft, workload: Workload) -> str:
    saved, before = workload.checkpoint, workload.spec.resume_from
    if saved is None:
        return ""
    earlier = None if before is None else draft.workloads.get(before)
    word = "step" if earlier is None else step_word(earlier)
    return f" and goes on from {word} {saved.step}"


def _taken_over(draft: Draft, action: Submit, by: str) -> Checkpoint | None:
    """The saved progress that a new job goes on from; who still waits with it gives way to it.

    Both in one step: there is no moment in which two jobs may go on from it, and none in which
    nobody would.
    """
    spec = action.spec
    earlier = None if spec.resume_from is None else draft.workloads.get(spec.resume_from)
    if earlier is None:
        return action.checkpoint
    if not is_final(earlier) and earlier.state is not State.CANCELLING:
        _cancel(draft, earlier, by, f"{spec.name} goes on in its place")
    return earlier.checkpoint


def _on_workload(
    draft: Draft,
    action: Cancel | Pause | Resume | ResizeJob | _OnLease,
    by: str,
) -> WorkloadId:
    workload = draft.workloads.get(action.workload_id)
    if workload is None:
        told_before = isinstance(action, Cancel) and action.why in leases.SERVER_GONE
        if told_before or isinstance(action, Restarted):
            return action.workload_id  # the end of a lease is reported until heard
        message = f"There is no live job or notebook {action.workload_id}."
        raise UnknownWorkload(message)
    match action:
        case Cancel() if is_lease(workload):
            leases.end(draft, workload, action, by)
        case Cancel():
            _cancel(draft, workload, by)
        case Pause():
            _pause(draft, _job(workload), by)
        case Resume():
            _resume(draft, _job(workload), by)
        case ResizeJob():
            job_size.resize(draft, _job(workload), action, by)
        case Keep() | ReportIdle() | ResizeSlice() | Started() | Restarted():
            _on_lease(draft, _lease(workload), action, by)
    return action.workload_id


def _note(draft: Draft, action: NoteAgent) -> None:
    """What an agent did to the processes of a slice is an event of who holds the slice."""
    holders = (
        workload
        for workload in draft.workloads.values()
        if workload.current is not None
        and any(one.slice_id == action.slice_id for one in workload.current.placements)
    )
    holder = None if action.slice_id is None else next(holders, None)
    if action.workload_id is not None:
        holder = draft.workloads.get(action.workload_id)
    data = {**action.data, "slice_id": action.slice_id, "at_ms": action.at_ms}
    by = f"agent of {action.node}" if action.node else "scheduler"
    draft.tell(action.kind, action.text, holder, by=by, data=data)


def _on_lease(draft: Draft, lease: Workload, action: _OnLease, by: str) -> None:
    match action:
        case ResizeSlice():
            resizing.resize(draft, lease, action, by)
        case Keep():
            leases.keep(draft, lease, action, by)
        case ReportIdle():
            leases.report_idle(draft, lease, action)
        case Started():
            leases.started(draft, lease)
        case Restarted():
            leases.restarted(draft, lease)


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


def _cancel(draft: Draft, workload: Workload, by: str, text: str | None = None) -> None:
    if is_final(workload):
        message = f"{workload.spec.name} has {workload.state} already."
        raise InvalidTransition(message)
    if workload.state is State.CANCELLING:
        return
    text = text or f"Cancelled by {by}"
    said = f"{workload.spec.name}: {text[:1].lower()}{text[1:]}."
    draft.tell("cancel-asked", said, workload, by=by)
    workload = withdrawals.noted(draft, workload)
    if workload.current is None:
        workload = move(workload, State.CANCELLING, draft.now_ms, nomination=None)
        cancelled(draft, workload, text)
    else:
        stops.end_now(draft, workload, why="cancel", text=text)


def _pause(draft: Draft, workload: Workload, by: str) -> None:
    if workload.state in {State.PAUSED, State.PAUSING}:
        return
    if workload.state is State.CANCELLING or is_final(workload):
        message = f"{workload.spec.name} is {workload.state}: it cannot be paused any more."
        raise InvalidTransition(message)
    draft.tell("pause-asked", f"{by} asked to pause {workload.spec.name}.", workload, by=by)
    workload = withdrawals.noted(draft, workload)
    if workload.current is None:
        draft.put(move(workload, State.PAUSED, draft.now_ms, nomination=None))
    else:
        stops.end_now(draft, workload, why="pause", text=f"paused by {by}")


def _resume(draft: Draft, workload: Workload, by: str) -> None:
    if workload.state is not State.PAUSED:
        message = (
            f"{workload.spec.name} is {workload.state}, not paused: there is nothing to resume."
        )
        raise InvalidTransition(message)
    pause = PausedSpan(from_ms=workload.since_ms, to_ms=draft.now_ms)
    pauses = (*workload.pauses, pause)[-_PAUSES_KEPT:]
    draft.put(move(workload, State.QUEUED, draft.now_ms, pauses=pauses))
    draft.tell("resumed", f"{workload.spec.name} is back in line.", workload, by=by)
