"""What becomes of each step next: which job is to be submitted, and which cancelled.

Everything follows from what the owner wrote and from the jobs that there are. A job is submitted
under a key of its pipeline, step and try, so whoever decides again after a crash decides the same, and
the second submit answers with the job of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Millis, State, Workload, WorkloadId
from gpucommons.scheduler.pipelines.pipeline import (
    OVER,
    Needs,
    Piped,
    Pipeline,
    Standing,
    Step,
    StepName,
    StepStanding,
    StepState,
)

_OF_JOB = {
    State.SUCCEEDED: StepState.SUCCEEDED,
    State.FAILED: StepState.FAILED,
    State.CANCELLED: StepState.CANCELLED,
}
#: What became of a step, in a sentence about another one.
_FAILED = (StepState.FAILED, StepState.REFUSED)

_BECAME = {
    StepState.FAILED: "which failed",
    StepState.CANCELLED: "which was cancelled",
    StepState.REFUSED: "whose job was refused",
    StepState.BLOCKED: "which is blocked",
    StepState.SKIPPED: "which did not run",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Child:
    """A job of a step's present try."""

    job: WorkloadId
    name: str
    state: State


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Where the steps stand now, and what is to be done."""

    standing: Standing
    #: Steps whose job is to be submitted, in order.
    submits: tuple[StepName, ...] = ()
    cancels: tuple[WorkloadId, ...] = ()


def decide(piped: Piped, children: Mapping[StepName, Child], now_ms: Millis) -> Decision:
    """What is next; ``children`` are the jobs that are known of each step's present try."""
    pipeline = piped.pipeline
    found: dict[StepName, StepStanding] = {}
    submits, cancels = [], []
    for step in pipeline.steps:
        child = children.get(step.name)
        stands = _standing(piped, step, child, found)
        is_unwanted = step.name in pipeline.cancelled
        if stands.state is StepState.SUBMITTED and is_unwanted and child is not None:
            if child.state is not State.CANCELLING:  # one order is enough
                cancels.append(child.job)
        elif stands.state is StepState.WAITING and is_unwanted:
            stands = replace(stands, state=StepState.CANCELLED, text="")
        elif stands.state is StepState.WAITING and not stands.text:
            # Its turn has come; where that came to nothing before, it waits until the next try.
            known = piped.standing.steps.get(step.name)
            if known is not None and known.tries and known.number == stands.number:
                stands = known
            if stands.again_ms <= now_ms:
                submits.append(step.name)
        found[step.name] = stands
    return Decision(
        standing=Standing(steps=found, ended_ms=_ended_ms(piped.standing, found, now_ms)),
        submits=tuple(submits),
        cancels=tuple(cancels),
    )


def try_of(pipeline: Pipeline, step: StepName) -> int:
    """The number of the try that a step is in."""
    return pipeline.retried.get(step, 0)


def with_tries(piped: Piped) -> Piped:
    """The same with the steps that were begun anew since it was looked at: they wait, and it is not over."""
    seen, pipeline = piped.standing.steps, piped.pipeline
    anew = {
        step.name: StepStanding(number=try_of(pipeline, step.name))
        for step in pipeline.steps
        if seen.get(step.name, StepStanding()).number != try_of(pipeline, step.name)
    }
    if not anew:
        return piped
    return replace(piped, standing=Standing(steps={**seen, **anew}))


def children_of(piped: Piped, jobs: Mapping[WorkloadId, Workload]) -> dict[StepName, Child]:
    """The jobs that are on record of each step's present try, as far as they are known."""
    present = {
        name: None if stands.job is None else jobs.get(stands.job)
        for name, stands in piped.standing.steps.items()
        if stands.number == try_of(piped.pipeline, name)
    }
    return {name: child_of(job) for name, job in present.items() if job is not None}


def child_of(job: Workload) -> Child:
    """A job as a step's."""
    return Child(job=job.workload_id, name=job.spec.name, state=job.state)


def as_of_now(piped: Piped, children: Mapping[StepName, Child], now_ms: Millis) -> Piped:
    """The same with what became of its jobs since it was looked at: people see both side by side."""
    piped = with_tries(piped)
    if piped.standing.ended_ms is not None:
        return piped
    before, now = piped.standing.steps, decide(piped, children, now_ms).standing
    steps = {
        step.name: before[step.name] if _is_held(step, before, now) else now.steps[step.name]
        for step in piped.pipeline.steps
    }
    return replace(piped, standing=replace(now, steps=steps))


def _is_held(step: Step, before: Mapping[StepName, StepStanding], now: Standing) -> bool:
    """Its turn had come when it was looked at, and it could not begin: why, only that look knows."""
    stood = before.get(step.name, StepStanding())
    waits = {stood.state, now.steps[step.name].state} == {StepState.WAITING}
    was_due = before.keys() >= step.after.keys() and not _needed(step, before).text
    return waits and stood.text != "" and was_due


def _standing(
    piped: Piped, step: Step, child: Child | None, found: Mapping[StepName, StepStanding]
) -> StepStanding:
    """Where one step stands, those that it needs being known."""
    number = try_of(piped.pipeline, step.name)
    if child is not None:
        state = _OF_JOB.get(child.state, StepState.SUBMITTED)
        return StepStanding(state=state, number=number, job=child.job, job_name=child.name)
    known = piped.standing.steps.get(step.name)
    if known is not None and known.number == number:
        if known.job is not None:
            # Forgotten, as it ended long ago: what was seen of it last holds.
            is_gone = known.state is StepState.SUBMITTED
            return replace(known, state=StepState.CANCELLED) if is_gone else known
        if known.state in (StepState.REFUSED, StepState.CANCELLED):
            return known
    return replace(_needed(step, found), number=number)


def _needed(step: Step, found: Mapping[StepName, StepStanding]) -> StepStanding:
    """Waiting with a text: something is not over; without one: its turn has come."""
    waiting = ""
    for name, needs in step.after.items():
        before = found[name].state
        if before not in OVER:
            waiting = waiting or f"Waits for {name}."
        elif needs is Needs.OK and before is not StepState.SUCCEEDED:
            return StepStanding(state=StepState.BLOCKED, text=f"Needs {name}, {_BECAME[before]}.")
    if waiting:
        return StepStanding(text=waiting)
    alarms = [name for name, needs in step.after.items() if needs is Needs.FAILED]
    if alarms and not any(found[name].state in _FAILED for name in alarms):
        text = f"Runs only where {alarms[0]} fails, and it did not."
        if alarms[1:]:
            text = f"Runs only where one of {', '.join(alarms)} fails, and none did."
        return StepStanding(state=StepState.SKIPPED, text=text)
    return StepStanding()


def _ended_ms(
    before: Standing, found: Mapping[StepName, StepStanding], now_ms: Millis
) -> Millis | None:
    if any(each.state not in OVER for each in found.values()):
        return None
    return now_ms if before.ended_ms is None else before.ended_ms
