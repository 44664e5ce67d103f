"""Leases and tickets: one per server of a user, redeemed by the spawner, ended by the hub.

The key of a lease is (owner, server name). Asking again for the same is the same ticket; asking
for something else replaces the one that waits, and keeps its place where that costs nobody anything.
"""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import parking
from gpucommons.scheduler.core.events.endings import end_unseen, ended_lease
from gpucommons.scheduler.core.model.intents import (
    Cancel,
    ChooseOnIdle,
    Keep,
    NoteKept,
    ReportIdle,
    Restarted,
    Started,
)
from gpucommons.scheduler.core.model.lifecycle import (
    is_final,
    is_lease,
    move,
    move_attempt,
    with_attempt,
)
from gpucommons.scheduler.core.model.state_words import state_words
from gpucommons.scheduler.core.model.types import (
    AttemptState,
    Idleness,
    Millis,
    Spec,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.queue import giving_up, reclaim_cooldown
from gpucommons.scheduler.core.stopping import grace
from gpucommons.scheduler.errors import InvalidTransition, PolicyRefused, SliceClearing

#: Each ticket holds a device for a moment when its turn comes: one user with many would hold up
#: the whole team.
MAX_TICKETS = 5
#: Ends of a lease that say: the server's processes are gone.
SERVER_GONE = frozenset({"stopped", "failed"})
#: The end of a lease whose server starts again without a GPU.
RELEASED = "released"
#: The end of a lease whose server saves its kernels first.
HIBERNATED = "hibernated"

#: The end of a ticket whose turn came though its server cannot take the slice.
NOT_STARTED = "not-started"


def same_ask(one: Spec, other: Spec) -> bool:
    """Both want the same slice for the same server."""
    size = (one.roles[0].milli_gpu, one.roles[0].gpu_kind)
    return (
        one.team == other.team
        and one.pools == other.pools
        and size == (other.roles[0].milli_gpu, other.roles[0].gpu_kind)
    )


def _will_do(old: Workload, new: Spec, *, redeem: bool) -> bool:
    """What there is serves who asks; a ticket that waits only where the server is the same, too."""
    if old.parked is not None:
        return False  # its slice is for the server that was parked in it
    if not same_ask(old.spec, new) or (old.current is not None and old.current.stop is not None):
        return False
    was = (old.spec.environment, old.spec.other_options)
    return redeem or old.current is not None or was == (new.environment, new.other_options)


def _keeps_age(old: Workload, new: Spec) -> bool:
    """Who waits for as much or less in the same line has waited for it already.

    Not who let a turn pass: the new ticket's turns count from none, and with the old age it would
    come before everybody else each time.
    """
    same_line = old.spec.team == new.team and old.spec.pools == new.pools and not old.parked
    smaller = new.roles[0].milli_gpu < old.spec.roles[0].milli_gpu
    fits = same_line and (smaller or same_ask(old.spec, new))
    return fits and old.current is None and not giving_up.in_vain(old)


def _handed_back(cycle: CycleState, old: Workload, spec: Spec, *, redeem: bool) -> WorkloadId:
    """The ticket or lease there is, with what was chosen this time."""
    chosen = _with_choice(old.spec, spec)
    if chosen != old.spec:
        cycle.put(replace(old, spec=chosen))
    if redeem:
        cycle.turns.redeeming.add(old.workload_id)
    return old.workload_id


def _with_choice(spec: Spec, *choices: Spec) -> Spec:
    """What was chosen last for this server when it is idle; who chooses nothing changes nothing."""
    for one in choices:
        spec = replace(
            spec,
            on_idle=one.on_idle or spec.on_idle,
            kernels_kept_days=one.kernels_kept_days or spec.kernels_kept_days,
        )
    return spec


def of_server(cycle: CycleState, spec: Spec) -> Workload | None:
    """The live lease of this (owner, server name)."""
    for workload in cycle.workloads.values():
        if (
            is_lease(workload)
            and not is_final(workload)
            and workload.spec.owner == spec.owner
            and workload.spec.server_name == spec.server_name
        ):
            return workload
    return None


def _check_tickets(cycle: CycleState, spec: Spec) -> None:
    """Not in too many lines at once; a ticket for the same server is only replaced."""
    waiting = {
        workload.spec.server_name
        for workload in cycle.workloads.values()
        if is_lease(workload)
        and workload.spec.owner == spec.owner
        and workload.state in (State.WAITING, State.GRANTED)
    }
    if len(waiting - {spec.server_name}) >= MAX_TICKETS:
        message = (
            f"{spec.owner} waits in line for {MAX_TICKETS} servers already: leave one of those"
            " lines first."
        )
        raise PolicyRefused(message)


def take_ticket(cycle: CycleState, new: Workload, *, redeem: bool, by: str) -> WorkloadId:
    """Put a ticket into line, or hand back the one there is; ``redeem`` starts it now or not."""
    old = of_server(cycle, new.spec)
    if old is not None and _will_do(old, new.spec, redeem=redeem):
        return _handed_back(cycle, old, new.spec, redeem=redeem)
    if not redeem:
        _check_tickets(cycle, new.spec)
    if old is not None:
        if old.parked is not None and not redeem:
            message = "This server runs, and is parked: run a cell in it to have its GPU back, or stop it first."
            raise InvalidTransition(message)
        if old.current is not None and old.redeem_by_ms is None and not redeem:
            message = (
                "This server already has a GPU slice. Stop it first, or start a second server"
                " with another name."
            )
            raise InvalidTransition(message)
        if old.current is not None and old.redeem_by_ms is None:
            # The hub has no such server any more, but only a reading of its slice proves that its
            # processes are gone. The spawner asks again until then.
            end(cycle, old, Cancel(workload_id=old.workload_id, why="stopped"), by)
            # Who starts it anew by hand wants what was chosen there, not the restart without a GPU.
            _restart_on_cpu(cycle, cycle.workloads[old.workload_id], wanted=False)
            message = (
                "The GPU of your last server is still being cleared. That takes a few seconds;"
                " start again then."
            )
            raise SliceClearing(message)
        finish(cycle, old, _REPLACED, by=by)
        if not redeem:
            # Whoever let a turn pass rests, under whatever ticket.
            new = replace(new, not_before_ms=old.not_before_ms)
        new = replace(new, spec=_with_choice(new.spec, old.spec, new.spec))
        if _keeps_age(old, new.spec):
            new = replace(new, submitted_ms=old.submitted_ms)
    cycle.put(new)
    cycle.tell("submitted", "A notebook asks for a GPU.", new, by=by)
    if redeem:
        cycle.turns.redeeming.add(new.workload_id)
    return new.workload_id


def finish(cycle: CycleState, workload: Workload, text: str, *, by: str = "scheduler") -> None:
    """End a lease whose server is gone or never was."""
    workload = reclaim_cooldown.noted(cycle, workload)
    if workload.current is not None:
        end_unseen(cycle, workload, text)
        return
    cycle.tell("lease-ended", text, ended_lease(cycle, workload, text), by=by)


def end(cycle: CycleState, workload: Workload, action: Cancel, by: str) -> None:
    """End a ticket at once; what holds a slice ends when its processes are seen gone.

    A reclaim stops the server first; ``stopped`` and ``failed`` say that this has happened.
    """
    text = action.text or _END_TEXTS.get(action.why, f"Ended by {by}")
    if is_final(workload):
        if action.why in RETURNS and workload.ended_text in _PLAIN_ENDS:
            cycle.put(replace(workload, ended_text=text))
        return
    attempt = workload.current
    if action.why == "left" and workload.parked is not None:
        parking.leave_line(cycle, workload, by)
        return
    if action.why == NOT_STARTED and workload.redeem_by_ms is None:
        return  # its server took the slice meanwhile, or others have their turn
    if attempt is None or workload.redeem_by_ms is not None:
        finish(cycle, workload, text, by=by)
        return
    plain = action.why in SERVER_GONE
    if attempt.stop is not None and (attempt.stop.why == action.why or plain):
        if plain and attempt.stop.why not in SERVER_GONE:
            stop = replace(attempt.stop, why="stopped")
            cycle.put(with_attempt(workload, replace(attempt, stop=stop)))
        return
    was_down = attempt.stop is not None and attempt.stop.why in SERVER_GONE
    workload = reclaim_cooldown.noted(cycle, workload)
    if action.why == HIBERNATED:
        workload = move(workload, State.HIBERNATING, cycle.now_ms)
    workload = grace.stop_without_notice(cycle, workload, why=action.why, text=text)
    if action.why == RELEASED and not was_down:
        _restart_on_cpu(cycle, workload, wanted=True)
    cycle.tell("stop-announced", text, workload, by=by, data={"why": action.why})


_END_TEXTS = {
    "stopped": "The server was stopped",
    "failed": "The server did not start",
    "culled": "Stopped because it was idle",
    RELEASED: "Its GPU was returned",
    HIBERNATED: "Stopped, and its kernels saved first",
    "reclaimed": "An admin took its GPU back",
    "left": "Left the line",
}
_REPLACED = "Replaced by a new request"
#: Ends that the user brought about: nobody needs to be told of them.
OWN_ENDS = frozenset({_END_TEXTS["stopped"], _END_TEXTS["failed"], _END_TEXTS["left"], _REPLACED})
#: Ends that a later, fuller account may replace.
_PLAIN_ENDS = frozenset({_END_TEXTS["stopped"], _END_TEXTS["failed"]})
#: Ends that give an idle or reclaimed device back.
RETURNS = frozenset({"culled", RELEASED, HIBERNATED, "reclaimed"})


def never_ran(workload: Workload) -> bool:
    """Its slice is to be taken back, and no server ever said that it runs there."""
    attempt = workload.current
    return (
        attempt is not None
        and attempt.started_ms is None
        and attempt.stop is not None
        and attempt.stop.why not in SERVER_GONE
    )


def restarted(cycle: CycleState, workload: Workload, _action: Restarted, _by: str) -> None:
    """The server of a lease that gave its GPU back runs again."""
    _restart_on_cpu(cycle, workload, wanted=False)


def _restart_on_cpu(cycle: CycleState, workload: Workload, *, wanted: bool) -> None:
    attempt = workload.attempts[-1] if workload.attempts else None
    if attempt is not None and attempt.stop is not None:
        stop = replace(attempt.stop, restart_on_cpu=wanted)
        cycle.put(with_attempt(workload, replace(attempt, stop=stop)))


def redeem(cycle: CycleState, workload: Workload) -> bool:
    """Hand a granted slice to the server that starts now; False where there is no grant."""
    if workload.state in {State.ACTIVE, State.WARNED}:
        return True
    if workload.state is not State.GRANTED:
        return False
    attempt = workload.current
    if attempt is not None and attempt.state is AttemptState.RESERVED:
        workload = move_attempt(workload, AttemptState.STARTING)
    cycle.put(replace(workload, redeem_by_ms=None))
    return True


def started(cycle: CycleState, workload: Workload, _action: Started, _by: str) -> None:
    """The server of a granted lease runs."""
    if workload.state in {State.ACTIVE, State.WARNED}:
        return
    attempt = workload.current
    if workload.state is not State.GRANTED or attempt is None:
        message = f"This notebook is {state_words(workload.state)}: only one whose GPU was granted can start."
        raise InvalidTransition(message)
    if attempt.stop is not None:
        # Whoever started it stops it again; active, it would hold the slice with nobody to end it.
        message = f"{attempt.stop.text}: its GPU is being taken back. Start the server again."
        raise InvalidTransition(message)
    if attempt.state is AttemptState.RESERVED:
        workload = move_attempt(workload, AttemptState.STARTING)
    workload = move_attempt(workload, AttemptState.RUNNING, started_ms=cycle.now_ms)
    workload = cycle.put(move(workload, State.ACTIVE, cycle.now_ms, redeem_by_ms=None))
    cycle.tell("started", "The notebook's server was started.", workload)


def keep(cycle: CycleState, workload: Workload, action: Keep, by: str) -> None:
    """The user is still there: no return before this has passed."""
    idleness = workload.idleness or Idleness()
    if workload.state not in {State.ACTIVE, State.WARNED}:
        message = f"This notebook is {state_words(workload.state)}: there is nothing to keep."
        raise InvalidTransition(message)
    if idleness.keeps_left < 1:
        message = "It was kept as often as allowed. Run something in it, or let it go."
        raise InvalidTransition(message)
    kept = replace(
        idleness,
        warned_ms=None,
        returns_ms=None,
        keeps_left=idleness.keeps_left - 1,
        kept_until_ms=Millis(cycle.now_ms + action.for_ms),
        reclaimed=False,
    )
    if workload.state is State.WARNED:
        workload = move(workload, State.ACTIVE, cycle.now_ms)
    workload = cycle.put(replace(workload, idleness=kept))
    cycle.tell("kept", f"Kept for {action.for_ms // 60_000} min.", workload, by=by)


def note_kept(cycle: CycleState, action: NoteKept, _by: str) -> None:
    """What is kept of the kernels of a lease, while its server stops or long after its end."""
    lease = cycle.workloads.get(action.workload_id) or action.ended
    if lease is None or lease.kept == action.kept:
        return
    lease = replace(lease, kept=action.kept)
    has_kernels = action.kept is not None and action.kept.kernels > 0
    if lease.state is State.HIBERNATED and not has_kernels:
        # They are awake again, or gone; when it ended, and why, stays as it was.
        lease = move(lease, State.ENDED, cycle.now_ms, ended_ms=lease.ended_ms)
    # One that holds its slice goes on: it is its user who says so, and only its end is known.
    cycle.put(lease)


def choose_on_idle(cycle: CycleState, workload: Workload, action: ChooseOnIdle, by: str) -> None:
    """What is to become of this notebook when it was idle for too long."""
    if workload.spec.on_idle != action.on_idle:
        workload = cycle.put(replace(workload, spec=replace(workload.spec, on_idle=action.on_idle)))
        text = f"When idle: {action.on_idle or 'as its pool says'}."
        cycle.tell("on-idle-chosen", text, workload, by=by)


def report_idle(cycle: CycleState, workload: Workload, action: ReportIdle, _by: str) -> None:
    """Take over the culler's view; active again forgets warnings and gives the keeps back."""
    if workload.state not in {State.ACTIVE, State.WARNED}:
        return
    old = workload.idleness or Idleness()
    returns_ms = _returns_ms(old, action)
    if action.idle_since_ms is None:
        idleness = Idleness(kept_until_ms=old.kept_until_ms)
    else:
        warned: Millis | None = cycle.now_ms
        if returns_ms is None or returns_ms == old.returns_ms:
            warned = None if returns_ms is None else old.warned_ms
        idleness = replace(
            old,
            idle_since_ms=action.idle_since_ms,
            returns_ms=returns_ms,
            warned_ms=warned,
            reclaimed=returns_ms is not None and (action.reclaimed or old.reclaimed),
            # Overridden once, it stays so, also where work ends the reclaim.
            kept_until_ms=Millis(0) if action.reclaimed else old.kept_until_ms,
        )
    to = State.ACTIVE if returns_ms is None else State.WARNED
    if to is not workload.state:
        workload = move(workload, to, cycle.now_ms)
        if to is State.WARNED:
            cycle.tell(
                "idle-warned",
                "Idle: its GPU will be returned.",
                workload,
                data={"returns_ms": returns_ms},
            )
    if idleness != old:
        cycle.put(replace(workload, idleness=idleness))
    else:
        cycle.put(workload)


def _returns_ms(old: Idleness, action: ReportIdle) -> Millis | None:
    """The return that is announced; what an admin asked stands against a view from before it."""
    since_ms, warned_ms = action.idle_since_ms, old.warned_ms
    if not old.reclaimed or action.returns_ms is not None or since_ms is None or warned_ms is None:
        return action.returns_ms
    return old.returns_ms if since_ms <= warned_ms else None
