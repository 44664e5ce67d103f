"""Where a workload stands, in words: why it waits, where it runs, whether it is being stopped, how it ended."""

from __future__ import annotations

from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.state_words import ended_words, hold_class_words, state_words
from gpucommons.scheduler.core.model.types import Attempt, HoldClass, State, Workload


def in_words(workload: Workload) -> str:
    """One or two sentences that name it."""
    if is_final(workload):
        return _ended(workload)
    if workload.reason is not None:
        return workload.reason.text
    if workload.current is not None:
        return _held(workload, workload.current)
    return f"{_name(workload)} is {state_words(workload.state)}; the next cycle considers it."


def _ended(workload: Workload) -> str:
    ended = f"{_name(workload)} {ended_words(workload.state)}"
    if workload.state is State.SUCCEEDED or not workload.ended_text:
        return f"{ended}."
    return f"{ended}: {workload.ended_text}."


def _held(workload: Workload, attempt: Attempt) -> str:
    where = ", ".join(sorted({one.node_id for one in attempt.placements}))
    text = (
        f"{_name(workload)} is {state_words(workload.state)} on {where}"
        f" ({hold_class_words(attempt.hold_class)})."
    )
    if attempt.stop is not None:
        told = attempt.stop.why in eviction_cause.FOR_OTHERS
        text += f" It is being stopped{'' if told else ':'} {attempt.stop.text}."
    elif attempt.hold_class is HoldClass.OVER_QUOTA:
        text += " It borrows: the owners of these GPUs can take them back."
    return text


def _name(workload: Workload) -> str:
    return "The notebook" if is_lease(workload) else workload.spec.name
