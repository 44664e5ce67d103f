"""What becomes of a start's times on record: stretches that follow each other, as spans show them.

Pure. Nothing that users wrote is in it, neither commands nor names of files: who may look at traces is not
who may look at jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from opentelemetry.trace import SpanContext

from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.types import Attempt, AttemptId, Millis, Workload

NS_PER_MS = 1_000_000
#: What the spawner says of a server that did not start.
NO_SERVER = "failed"

Attributes = Mapping[str, str | int | bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A span to be made."""

    name: str
    from_ns: int
    to_ns: int
    attributes: Attributes = field(default_factory=dict)
    failed: bool = False
    links: tuple[SpanContext, ...] = ()
    within: tuple[Stretch, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An executor was told to start an attempt. It is told again until the attempt runs."""

    from_ns: int
    to_ns: int
    #: It raised.
    failed: bool
    #: How often it was told so far.
    count: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What this process saw of a start that no record has; nothing of it survives a restart."""

    #: Since when it waited, where its workload's history does not tell.
    in_line_ms: Millis | None = None
    #: When its devices were promised, while others were still on them.
    nominated_ms: Millis | None = None
    #: The cycle that decided it: its span, and from when to when.
    cycle: SpanContext | None = None
    decided_ns: tuple[int, int] | None = None
    call: Call | None = None
    #: How far its executor said that it had come, and when.
    reached: tuple[tuple[str, Millis], ...] = ()
    #: The pool that it runs in; "" where that is not known any more.
    pool: str = ""


def start_of(workload: Workload, attempt: Attempt, seen: Seen) -> Stretch | None:
    """An attempt's way from the line until it runs, or ends without that; None while it is on it."""
    over_ms = attempt.ended_ms if attempt.started_ms is None else attempt.started_ms
    if over_ms is None:
        return None
    line_ms = seen.in_line_ms or in_line_since(workload, attempt.number)
    within = tuple(_steps(attempt, seen, line_ms, over_ms))
    outcome = _outcome(workload, attempt)
    return Stretch(
        name=_name(workload),
        from_ns=line_ms * NS_PER_MS,
        # The clock of steps is finer than the record's.
        to_ns=max(over_ms * NS_PER_MS, *(one.to_ns for one in within)),
        attributes={
            **_of_workload(workload),
            **({"gpucommons.pool": seen.pool} if seen.pool else {}),
            "gpucommons.outcome": outcome,
            "gpucommons.attempt.id": attempt.attempt_id,
            "gpucommons.attempt.number": attempt.number,
            "gpucommons.attempt.workers": len(attempt.placements),
            "gpucommons.attempt.milli_gpu": sum(
                one.milli_gpu * len(one.device_ids) for one in attempt.placements
            ),
            "gpucommons.attempt.class": attempt.hold_class.value,
            "gpucommons.queue_wait_ms": attempt.reserved_ms - line_ms,
        },
        failed=outcome == "failed",
        within=within,
    )


def _outcome(workload: Workload, attempt: Attempt) -> str:
    if attempt.started_ms is not None:
        return "running"
    stop = attempt.stop
    if not is_lease(workload):
        return "failed" if stop is None else "stopped"
    if stop is None and not is_final(workload):
        return "unused"  # its user let the turn pass
    return "failed" if stop is not None and stop.why == NO_SERVER else "stopped"


def wait_in_vain(workload: Workload, over_ms: Millis) -> Stretch:
    """A workload that left the line without a start."""
    line_ms = in_line_since(workload, len(workload.attempts) + 1)
    from_ns, to_ns = line_ms * NS_PER_MS, over_ms * NS_PER_MS
    return Stretch(
        name=_name(workload),
        from_ns=from_ns,
        to_ns=to_ns,
        attributes={
            **_of_workload(workload),
            "gpucommons.outcome": workload.state.value,
            "gpucommons.queue_wait_ms": over_ms - line_ms,
        },
        within=(Stretch(name="wait", from_ns=from_ns, to_ns=to_ns),),
    )


def first_progress_of(workload: Workload, attempt_id: AttemptId) -> Stretch | None:
    """From when an attempt ran until it told, or printed, a first step; None as long as it has not."""
    attempt, progress = workload.current, workload.progress
    if attempt is None or attempt.attempt_id != attempt_id or attempt.started_ms is None:
        return None
    if progress is None or progress.at_ms < attempt.started_ms:
        return None
    from_ns, to_ns = attempt.started_ms * NS_PER_MS, progress.at_ms * NS_PER_MS
    return Stretch(name="until first progress", from_ns=from_ns, to_ns=to_ns)


def in_line_since(workload: Workload, number: int) -> Millis:
    """Since when it waited for the attempt of this number: submitted, stopped, or resumed by then."""
    before = [one for one in workload.attempts if one.number < number]
    after = [one for one in workload.attempts if one.number == number]
    until_ms = after[0].reserved_ms if after else None
    moments = [
        workload.submitted_ms,
        *(one.ended_ms for one in before if one.ended_ms is not None),
        *(one.to_ms for one in workload.pauses if until_ms is None or one.to_ms <= until_ms),
    ]
    return max(moments)


def _steps(attempt: Attempt, seen: Seen, line_ms: Millis, over_ms: Millis) -> list[Stretch]:
    promised_ms = seen.nominated_ms
    turn_ms = attempt.reserved_ms if promised_ms is None else promised_ms
    steps = [Stretch(name="wait", from_ns=line_ms * NS_PER_MS, to_ns=turn_ms * NS_PER_MS)]
    reserved_ns = begun_ns = attempt.reserved_ms * NS_PER_MS
    if promised_ms is not None:
        steps.append(Stretch(name="drain", from_ns=promised_ms * NS_PER_MS, to_ns=reserved_ns))
    if seen.decided_ns is not None:
        from_ns, begun_ns = seen.decided_ns
        links = () if seen.cycle is None else (seen.cycle,)
        steps.append(Stretch(name="decide", from_ns=from_ns, to_ns=begun_ns, links=links))
    calls = () if seen.call is None else (_ordered(seen.call),)
    within = (*calls, *_reached(seen.reached, begun_ns, over_ms * NS_PER_MS))
    to_ns = max([begun_ns, over_ms * NS_PER_MS, *(one.to_ns for one in within)])
    steps.append(Stretch(name="startup", from_ns=begun_ns, to_ns=to_ns, within=within))
    return steps


def _reached(
    reached: tuple[tuple[str, Millis], ...], begun_ns: int, over_ns: int
) -> Iterator[Stretch]:
    """What came before each step, and what after the last one."""
    for name, at_ms in reached:
        at_ns = max(begun_ns, at_ms * NS_PER_MS)
        yield Stretch(name=name, from_ns=begun_ns, to_ns=at_ns)
        begun_ns = at_ns
    if reached:
        yield Stretch(name="workers begun", from_ns=begun_ns, to_ns=max(begun_ns, over_ns))


def _ordered(call: Call) -> Stretch:
    return Stretch(
        name="executor.start",
        from_ns=call.from_ns,
        to_ns=call.to_ns,
        attributes={"gpucommons.calls": call.count},
        failed=call.failed,
    )


def _name(workload: Workload) -> str:
    return "notebook start" if is_lease(workload) else "job start"


def _of_workload(workload: Workload) -> Attributes:
    spec = workload.spec
    return {
        "gpucommons.workload.id": workload.workload_id,
        "gpucommons.workload.kind": spec.kind.value,
        "gpucommons.team": spec.team,
    }
