"""What follows when an attempt's processes are seen dead: success, another try, a rest, or an end.

Exit status 0 is success as long as nothing told the job to leave. One that was told goes back into
line with its age, whatever its status (:mod:`.going_on.exits`); work since its last complete
checkpoint is counted in the receipt.
"""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import drill_records
from gpucommons.scheduler.core.eviction.candidates import work_lost
from gpucommons.scheduler.core.going_on import words
from gpucommons.scheduler.core.going_on.exits import Exit, Meaning, meaning
from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.going_on.sentences import as_clause
from gpucommons.scheduler.core.going_on.ways import Way, step_word, way_to_go_on
from gpucommons.scheduler.core.lending import lending_pause
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, GOES_ON, StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.going_on import ProcessImage
from gpucommons.scheduler.core.model.lifecycle import is_lease, move, with_attempt
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptState,
    Millis,
    State,
    Stop,
    Workload,
)
from gpucommons.scheduler.core.queue import back_off, giving_up, reclaim_cooldown

#: Stops after which a job goes on, sooner or later.
_GOES_ON_AFTER = (
    FOR_OTHERS
    | giving_up.ITS_OWN
    | {StopCause.PAUSE, StopCause.DRILL, StopCause.CONFINE, StopCause.SPOT, StopCause.OWN_SIZE}
)
#: Stops whose text is a sentence of its own.
_IN_FULL = giving_up.ITS_OWN | {StopCause.PAUSE}
#: States of a lease whose server ran.
_RAN = frozenset({State.ACTIVE, State.WARNED, State.PARKING, State.PARKED, State.HIBERNATING})


def end_attempt(cycle: CycleState, workload: Workload, end: AttemptEnded) -> Workload:
    """Close the current attempt and move its workload on."""
    attempt = workload.current
    if attempt is None:
        return workload
    if attempt.started_ms is None and _never_started(attempt, end):
        workload = reclaim_cooldown.noted(cycle, workload)
    end = evolve(end, image=_image_left(workload, attempt, end))
    means = _meaning(workload, attempt, end)
    kept = attempt.files_kept if end.files_kept is None else end.files_kept
    ended = evolve(
        attempt,
        state=AttemptState.ENDED,
        ended_ms=cycle.now_ms,
        exit_code=end.exit_code,
        files_kept=kept,
        image=None if means is Meaning.SUCCEEDED else end.image,
        not_saved=end.not_saved,
        hibernation=attempt.hibernation or end.hibernation,
    )
    text = end.text or _words(end)
    if means is Meaning.STOPPED and not is_lease(workload):
        # For whom it was, and how it goes on, is worth more than its exit status.
        known = with_attempt(workload, evolve(attempt, files_kept=kept, image=end.image))
        text = _stop_words(known, attempt, end, cycle.now_ms)
    ended = evolve(ended, ended_text=text)
    workload = with_attempt(workload, ended)
    lending_pause.begin(cycle, workload, ended)
    if is_lease(workload):
        return _end_lease(cycle, workload, ended, text)
    if attempt.stop is None:
        return _after_own_end(cycle, workload, means, text)
    if means is Meaning.STOPPED:
        _receipt(cycle, workload, ended, attempt.stop, end)
        workload = drill_records.stopped(cycle, workload, ended, end)
    return _after_stop(cycle, workload, attempt.stop, means)


def end_unseen(cycle: CycleState, workload: Workload, text: str) -> None:
    """Close the current attempt, of whose end nobody has seen how it was."""
    if workload.current is not None:
        attempt_id = workload.current.attempt_id
        end_attempt(cycle, workload, AttemptEnded(attempt_id=attempt_id, exit_code=None, text=text))


def _image_left(workload: Workload, attempt: Attempt, end: AttemptEnded) -> ProcessImage | None:
    """What an attempt left to be woken; where its word for it can be its command's, none.

    Before it is known how it runs, it can only have left again what it was to wake.
    """
    known = attempt.hibernation or end.hibernation
    if known is None:
        return None if kept_image(workload) is None else end.image
    return None if known.hindrance else end.image


def _meaning(workload: Workload, attempt: Attempt, end: AttemptEnded) -> Meaning:
    """What its end means, with what was asked of it taken into account."""
    stop = attempt.stop
    finished = end.finished or attempt.finished_ms is not None
    ran = (attempt.started_ms is not None or finished) and not end.start_failed
    if stop is not None and (workload.state is State.CANCELLING or not ran):
        return Meaning.STOPPED
    if end.start_failed:
        return Meaning.FAILED
    if end.image is not None and ran:
        return Meaning.SUCCEEDED if finished else Meaning.STOPPED
    means = meaning(
        Exit(
            exit_code=end.exit_code,
            announced=stop is not None or attempt.spared_ms is not None,
            told=end.told or end.killed,
            finished=finished,
            after_signal=workload.spec.exit_after_signal,
        )
    )
    if stop is None or means is Meaning.SUCCEEDED:
        return means
    # What a stop of its own kind ends (its limit, its lost node) did not fail by itself.
    failed = means is Meaning.FAILED and stop.why in _GOES_ON_AFTER - giving_up.ITS_OWN
    return Meaning.FAILED if failed else Meaning.STOPPED


def _never_started(attempt: Attempt, end: AttemptEnded) -> bool:
    """It had its turn, and did not start; what a node or another took from it is not its doing."""
    return end.start_failed if attempt.stop is None else attempt.stop.why == StopCause.TIMEOUT


def _words(end: AttemptEnded) -> str:
    if end.start_failed:
        return "It could not start"
    if end.exit_code is None:
        return "It was lost without a trace"
    if end.exit_code < 0:
        return f"It was ended by signal {-end.exit_code}"
    return "It finished" if end.exit_code == 0 else f"It ended with exit status {end.exit_code}"


def _stop_words(workload: Workload, attempt: Attempt, end: AttemptEnded, now_ms: Millis) -> str:
    """For whom it was stopped and how it goes on: ``Stopped for nlp (fair share): goes on from …``."""
    stop = attempt.stop
    why = "asked to stop" if stop is None else stop.text
    if stop is not None and stop.why in _GOES_ON_AFTER - _IN_FULL:
        why = f"stopped {stop.text}"
    why = why[:1].upper() + why[1:]
    if attempt.started_ms is None:
        lost = "" if end.hibernation is None else end.hibernation.not_woken
        return f"{why}. {words.not_woken(end.hibernation)}" if lost and end.hibernation else why
    if stop is not None and stop.why not in _GOES_ON_AFTER:
        return why
    if end.exit_code == 0:
        why += ", left with exit status 0"
    if end.killed:
        why += ", had to be killed"
    if end.not_saved:
        why += f" (its memory could not be saved: {end.not_saved})"
    way = way_to_go_on(workload)
    if way is not None and way.way is Way.PROCESS_IMAGE and way.image is None:
        # It is stopped, and its processes were not saved.
        way = way.otherwise
    return why if way is None else f"{why}: {words.with_cost(way, now_ms)}"


def _end_lease(cycle: CycleState, workload: Workload, attempt: Attempt, text: str) -> Workload:
    stop = attempt.stop
    if stop is not None and stop.text:
        text = stop.text
    workload = ended_lease(cycle, workload, text)
    why = "stopped" if stop is None else stop.why
    cycle.tell("lease-ended", text, workload, data={"why": why}, attempt_id=attempt.attempt_id)
    return workload


def ended_lease(cycle: CycleState, workload: Workload, text: str) -> Workload:
    """The same lease, over."""
    to = end_of_lease(workload)
    return cycle.put(move(workload, to, cycle.now_ms, ended_text=text, redeem_by_ms=None))


def end_of_lease(workload: Workload) -> State:
    """What its end makes of a lease.

    Only what its server itself said that it kept makes it hibernated, not that it was asked to; and one
    that starts again without its GPU wakes its kernels at once.
    """
    kernels = 0 if workload.kept is None else workload.kept.kernels
    stop = workload.attempts[-1].stop if workload.attempts else None
    goes_on = stop is not None and stop.restart_on_cpu
    return (
        State.HIBERNATED if kernels > 0 and workload.state in _RAN and not goes_on else State.ENDED
    )


def _after_own_end(cycle: CycleState, workload: Workload, means: Meaning, text: str) -> Workload:
    workload = evolve(workload, nomination=None)
    match means:
        case Meaning.SUCCEEDED:
            return _succeed(cycle, workload)
        case Meaning.LOST:
            # The machine's fault, not the job's: it does not use up a restart.
            return requeue_later(cycle, workload, StopCause.LOST, text)
        case Meaning.STOPPED:
            if workload.attempts[-1].spared_ms is None:
                return _left_untold(cycle, workload, text)
            # It obeyed an announcement that was taken back meanwhile.
            return cycle.put(move(workload, State.QUEUED, cycle.now_ms))
        case Meaning.FAILED:
            return fail_or_retry(cycle, workload, text)


def _left_untold(cycle: CycleState, workload: Workload, text: str) -> Workload:
    """Nobody here told it to leave: its node did, or it only says so, and that for ever if it may."""
    times = giving_up.left_untold(workload)
    if times >= giving_up.LOSSES:
        return fail(
            cycle,
            workload,
            f"It left {times} times in a row as if it had been told to stop, nobody here had told it, and it"
            " saved nothing in between",
        )
    return requeue_later(cycle, workload, StopCause.LOST, text)


def _succeed(cycle: CycleState, workload: Workload) -> Workload:
    if workload.state is State.STARTING:
        # It was faster than the report of its start.
        workload = move(workload, State.RUNNING, cycle.now_ms)
    workload = _over(cycle, workload, State.SUCCEEDED, "It finished")
    cycle.tell(
        "succeeded",
        f"{workload.spec.name} finished.",
        workload,
        attempt_id=workload.attempts[-1].attempt_id,
    )
    return workload


def fail(cycle: CycleState, workload: Workload, text: str) -> Workload:
    """End a job as failed, in words."""
    workload = _over(cycle, workload, State.FAILED, text)
    cycle.tell("failed", f"{workload.spec.name} failed: {text}.".replace("..", "."), workload)
    return workload


def fail_or_retry(cycle: CycleState, workload: Workload, text: str) -> Workload:
    """Another try after a back-off while restarts are left, else failed."""
    if workload.restarts < workload.spec.max_restarts:
        return requeue_later(cycle, evolve(workload, restarts=workload.restarts + 1), "retry", text)
    return fail(cycle, workload, text)


def requeue_later(cycle: CycleState, workload: Workload, kind: str, text: str) -> Workload:
    """Back into line with its age, considered again after a back-off; failed where that is no use."""
    if giving_up.pointless(workload):
        return fail(cycle, workload, f"It never ran in {giving_up.in_vain(workload)} tries: {text}")
    if giving_up.always_lost(workload):
        times = giving_up.lost_in_a_row(workload)
        lost = f"It was lost {times} times in a row and saved no checkpoint in between: {text}"
        return fail(cycle, workload, lost)
    wait = back_off.of_job(workload)
    workload = cycle.put(
        move(
            workload,
            State.QUEUED,
            cycle.now_ms,
            not_before_ms=Millis(cycle.now_ms + wait),
            nomination=None,
        )
    )
    cycle.tell(
        kind,
        f"{workload.spec.name}: {text.rstrip('.')}. It is back in line for {wait // 1000} s at least.",
        workload,
        attempt_id=workload.attempts[-1].attempt_id if workload.attempts else None,
    )
    return workload


def _after_stop(cycle: CycleState, workload: Workload, stop: Stop, means: Meaning) -> Workload:
    if workload.state is State.CANCELLING:
        return cancelled(cycle, workload, stop.text)
    if means is Meaning.SUCCEEDED:
        return _succeed(cycle, evolve(workload, nomination=None))
    if means is Meaning.FAILED:
        return _failed_before_its_stop(cycle, evolve(workload, nomination=None))
    return _stopped(cycle, workload, stop)


def _stopped(cycle: CycleState, workload: Workload, stop: Stop) -> Workload:
    if workload.state not in {State.PREEMPTING, State.PAUSING}:
        # It ended within its notice.
        workload = move(workload, State.PREEMPTING, cycle.now_ms)
    if stop.why == StopCause.MAX_RUN:
        return fail(cycle, workload, stop.text)
    if workload.state is State.PAUSING:  # also where its node was lost meanwhile
        return cycle.put(move(workload, State.PAUSED, cycle.now_ms, nomination=None))
    if stop.why in giving_up.ITS_OWN:
        return requeue_later(cycle, workload, stop.why, stop.text)
    kept = workload.nomination if stop.why in GOES_ON else None
    workload = move(workload, State.QUEUED, cycle.now_ms, nomination=kept)
    if stop.why == StopCause.PAUSE:
        workload = move(workload, State.PAUSED, cycle.now_ms, nomination=None)
    return cycle.put(workload)


def _failed_before_its_stop(cycle: CycleState, workload: Workload) -> Workload:
    """An error of its own that came before any signal: as without the stop, but a pause holds."""
    text = workload.attempts[-1].ended_text or ""
    retries = workload.restarts < workload.spec.max_restarts
    if workload.state is State.PAUSING and retries:
        workload = evolve(workload, restarts=workload.restarts + 1)
        return cycle.put(move(workload, State.PAUSED, cycle.now_ms))
    return fail_or_retry(cycle, workload, text)


def cancelled(cycle: CycleState, workload: Workload, text: str) -> Workload:
    """The last step of a cancel."""
    workload = _over(cycle, workload, State.CANCELLED, text)
    cycle.tell("cancelled", f"{workload.spec.name}: {text[:1].lower()}{text[1:]}.", workload)
    return workload


def _over(cycle: CycleState, workload: Workload, to: State, text: str) -> Workload:
    workload = drill_records.over(cycle, workload)
    return cycle.put(move(workload, to, cycle.now_ms, ended_text=text))


def _stop_sentence(name: str, stop: Stop) -> str:
    if stop.text and stop.why not in _GOES_ON_AFTER - _IN_FULL:
        return f"{name}: {as_clause(stop.text)}."
    return f"{name} was stopped {stop.text}".rstrip() + "."


def _receipt(
    cycle: CycleState, workload: Workload, attempt: Attempt, stop: Stop, end: AttemptEnded
) -> None:
    """Say what a stop cost and for whom it was."""
    lost = work_lost(workload, attempt, cycle.now_ms, None) if end.image is None else 0
    way = way_to_go_on(workload)
    signalled = stop.term_ms if stop.signalled else cycle.now_ms
    beneficiary = cycle.workloads.get(stop.beneficiary) if stop.beneficiary else None
    cycle.tell(
        _kind(stop),
        _stop_sentence(workload.spec.name, stop),
        workload,
        attempt_id=attempt.attempt_id,
        data={
            "victim": full_name(workload),
            "beneficiary": None if beneficiary is None else full_name(beneficiary),
            "beneficiary_id": stop.beneficiary,
            "beneficiary_team": None if beneficiary is None else beneficiary.spec.team,
            "why": stop.why,
            "rule": stop.rule,
            "milli_gpu": sum(placed_milli_gpu(one) for one in attempt.placements),
            "notice_used_ms": max(0, signalled - stop.announced_ms),
            "grace_used_ms": max(0, cycle.now_ms - signalled),
            "lost_milli_gpu_ms": lost,
            "lost_milli_gpu_s": lost // 1000,
            "checkpoint_step": None if workload.checkpoint is None else workload.checkpoint.step,
            "checkpoint_unit": step_word(workload),
            "way_to_go_on": None if way is None else way.way.value,
            "way_to_go_on_text": "" if way is None else words.goes_on(way),
            "image_bytes": None if end.image is None else end.image.size_bytes,
            "image_save_ms": None if end.image is None else end.image.save_ms,
            "not_saved": end.not_saved,
            "exit_code": end.exit_code,
            "unclean": end.killed,
        },
    )


def _kind(stop: Stop) -> str:
    if stop.why == StopCause.MOVE:
        return "moved"
    return "evicted" if stop.why in FOR_OTHERS else "stopped"


def full_name(workload: Workload) -> str:
    """``team/name``, readable and unique; a notebook by its owner, as its server may be named like a job."""
    spec = workload.spec
    return f"{spec.team}/{f'notebook of {spec.owner}' if is_lease(workload) else spec.name}"
