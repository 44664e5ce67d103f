"""What will be asked for while somebody waits: the last days once more, each future from another
hour of them.

Work that arrives later and goes first (a guarantee, a priority, a team that had less) is what a
forecast of the present line misses most. Its rate, its bursts and its sizes are in the submissions
of the last days; played again from a different start in each future, they need no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.types import Kind, Millis, Spec
from gpucommons.scheduler.forecast.runs import History, Run

_HOUR_MS = 3_600_000
#: A week holds a weekend; what is older says little of today.
LONGEST_MS = 7 * 24 * _HOUR_MS
#: From a shorter past, a rate would be a guess.
SHORTEST_MS = 6 * _HOUR_MS
#: So many of a future's arrivals are played at most.
_MOST = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """Something that will be asked for, and how long it will run."""

    at_ms: Millis
    spec: Spec
    run_ms: int


#: What arrives in a future, by its number.
Arriving = Callable[[int], Iterable[Arrival]]


def nothing_arrives(_future: int) -> Iterable[Arrival]:
    """Only those who wait already."""
    return ()


def the_past_again(
    runs: Sequence[Run],
    history: History,
    now_ms: Millis,
    futures: int,
    forgotten_ms: int = 0,
) -> Arriving:
    """Replay the submissions of the last days, each future from another time on.

    ``forgotten_ms``: of those submitted up to then, some are not among the runs any more. The few
    that are would make a busy day look like a quiet week.
    """
    after_ms = max(now_ms - LONGEST_MS, forgotten_ms)
    recent = sorted(
        (run for run in runs if run.spec is not None and run.submitted_ms > after_ms),
        key=lambda run: run.submitted_ms,
    )
    span_ms = now_ms - recent[0].submitted_ms if recent else 0
    if span_ms < SHORTEST_MS:
        return nothing_arrives

    def arriving(future: int) -> Iterator[Arrival]:
        start_ms = span_ms * future // futures
        shifted = ((now_ms - run.submitted_ms - start_ms) % span_ms for run in recent)
        ahead = sorted((span_ms - back_ms, i) for i, back_ms in enumerate(shifted))
        for after_ms, index in ahead[:_MOST]:
            run = recent[index]
            run_ms = _length(run, history, (future + 0.5) / futures)
            if run.spec is not None and run_ms is not None:
                spec = _once_more(run.spec, f"{future}-{index}")
                yield Arrival(at_ms=Millis(now_ms + after_ms), spec=spec, run_ms=run_ms)

    return arriving


def _length(run: Run, history: History, share: float) -> int | None:
    if run.ended:
        return run.ran_ms
    curve = history.curve(run.like, run.ran_ms)
    return None if curve is None else curve.length_ms(run.ran_ms, share)


def _once_more(spec: Spec, name: str) -> Spec:
    """The same request by somebody new: it waits for nobody and takes nobody's place."""
    server = f"again-{name}" if spec.kind is Kind.NOTEBOOK else spec.server_name
    return replace(
        spec,
        name=f"again-{name}",
        server_name=server,
        after=(),
        not_before_ms=Millis(0),
        resume_from=None,
    )
