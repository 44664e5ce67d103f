"""A job is paused, resumed or cancelled because somebody asks for it."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events.endings import cancelled
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.intents import Pause, Resume
from gpucommons.scheduler.core.model.lifecycle import is_final, move
from gpucommons.scheduler.core.model.state_words import ended_words, state_words
from gpucommons.scheduler.core.model.types import PausedSpan, State, Workload
from gpucommons.scheduler.core.queue import reclaim_cooldown
from gpucommons.scheduler.core.stopping import grace, notice
from gpucommons.scheduler.errors import InvalidTransition

#: A job that is paused again and again must not grow without bound.
_PAUSES_KEPT = 50


def cancel(cycle: CycleState, workload: Workload, by: str, text: str | None = None) -> None:
    """End it: at once while it waits, with SIGTERM and grace while it runs."""
    if is_final(workload):
        message = f"{workload.spec.name} {ended_words(workload.state)} already."
        raise InvalidTransition(message)
    if workload.state is State.CANCELLING:
        return
    why = f": {text}" if text else ""
    cycle.tell("cancel-asked", f"{by} asked to cancel {workload.spec.name}{why}.", workload, by=by)
    text = text or f"Cancelled by {by}"
    workload = reclaim_cooldown.noted(cycle, workload)
    if workload.current is None:
        workload = move(workload, State.CANCELLING, cycle.now_ms, nomination=None)
        cancelled(cycle, workload, text)
    else:
        grace.stop_without_notice(cycle, workload, why=StopCause.CANCEL, text=text)


def pause(cycle: CycleState, workload: Workload, action: Pause, by: str) -> None:
    """Take it out of line; one that runs is stopped with notice. What a parent paused a person may keep paused."""
    if workload.state in {State.PAUSED, State.PAUSING}:
        if workload.paused_by_parent and not action.of_parent:
            workload = evolve(workload, paused_by_parent=False)
            cycle.put(workload)
            text = f"{by} asked to pause {workload.spec.name}."
            cycle.tell("pause-asked", text, workload, by=by)
        return
    if workload.state is State.CANCELLING or is_final(workload):
        message = (
            f"{workload.spec.name} is {state_words(workload.state)}: it cannot be paused any more."
        )
        raise InvalidTransition(message)
    cycle.tell("pause-asked", f"{by} asked to pause {workload.spec.name}.", workload, by=by)
    workload = reclaim_cooldown.noted(cycle, workload)
    workload = evolve(workload, paused_by_parent=action.of_parent)
    if workload.current is None:
        cycle.put(move(workload, State.PAUSED, cycle.now_ms, nomination=None))
    else:
        notice.end_soon(cycle, workload, why=StopCause.PAUSE, text=f"paused by {by}")


def resume(cycle: CycleState, workload: Workload, action: Resume, by: str) -> None:
    """Put it back into line; a parent resumes what a parent paused."""
    if workload.state is not State.PAUSED:
        message = f"{workload.spec.name} is {state_words(workload.state)}, not paused: there is nothing to resume."
        raise InvalidTransition(message)
    if action.of_parent and not workload.paused_by_parent:
        message = f"{workload.spec.name} was paused by a person, who alone resumes it."
        raise InvalidTransition(message)
    span = PausedSpan(from_ms=workload.since_ms, to_ms=cycle.now_ms)
    pauses = (*workload.pauses, span)[-_PAUSES_KEPT:]
    cycle.put(move(workload, State.QUEUED, cycle.now_ms, pauses=pauses, paused_by_parent=False))
    cycle.tell("resumed", f"{workload.spec.name} is back in line.", workload, by=by)
