"""Follows the loop from outside: what each cycle decided and committed, and when executors were told.

All of it runs in the loop's thread, and none of it may disturb that: what fails here is said in the log.
Spans are made when their last moment is on record, so one that is still waiting shows nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    StatusCode,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gpucommons.scheduler.core.model.intents import Intent, Submit
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.state import AttemptStarted, Cluster, Observation, Outcome
from gpucommons.scheduler.core.model.types import (
    AttemptId,
    Millis,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.loop.core_step import Advance
from gpucommons.scheduler.service.in_memory.newest import keep
from gpucommons.scheduler.tracing.changes import (
    as_it_was,
    in_line_again_since,
    is_nominated,
    is_over,
    is_reserved,
    left_the_line,
    newest,
    pool_of,
)
from gpucommons.scheduler.tracing.harmless import harmless
from gpucommons.scheduler.tracing.stretches import (
    NS_PER_MS,
    Call,
    Seen,
    Stretch,
    first_progress_of,
    start_of,
    wait_in_vain,
)
from gpucommons.scheduler.tracing.timed_executor import TimedExecutor

#: What is under way is remembered of so many workloads; of more of them the oldest are forgotten.
_MOST = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Decided:
    """One call of the core."""

    before: Cluster
    intents: Sequence[Intent]
    observations: Sequence[Observation]
    outcome: Outcome
    from_ns: int
    to_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    """A start whose span is made."""

    attempt_id: AttemptId
    span: SpanContext
    #: What came first of the attempt itself was told, too.
    has_progress: bool = False


class StartTraces:
    """Makes the spans of cycles and starts."""

    def __init__(self, tracer: Tracer, *, steady_ns: Callable[[], int]) -> None:
        self._tracer = tracer
        self._steady_ns = steady_ns
        #: The time by which the last cycle decided, and the steady clock at that moment.
        self._cycle_ms, self._cycle_steady_ns = Millis(0), 0
        self._decided: _Decided | None = None
        self._seen: dict[AttemptId, Seen] = {}
        #: Whose request a workload came with, and its last start's span.
        self._callers: dict[WorkloadId, Context] = {}
        self._starts: dict[WorkloadId, _Start] = {}

    def _now_ns(self) -> int:
        """The loop's own time, finer than its milliseconds: replicas go by their database's clock."""
        return self._cycle_ms * NS_PER_MS + self._steady_ns() - self._cycle_steady_ns

    # --- what the loop is given ------------------------------------------------------------------

    def deciding(self, advance: Advance) -> Advance:
        """The core's step, remembered until it is committed."""

        def step(
            cluster: Cluster,
            intents: Sequence[Intent],
            observations: Sequence[Observation],
            *,
            now_ms: Millis,
            new_ids: Iterator[str],
        ) -> Outcome:
            self._cycle_ms, self._cycle_steady_ns = now_ms, self._steady_ns()
            outcome = advance(cluster, intents, observations, now_ms=now_ms, new_ids=new_ids)
            self._decided = _Decided(
                before=cluster,
                intents=intents,
                observations=observations,
                outcome=outcome,
                from_ns=now_ms * NS_PER_MS,
                to_ns=self._now_ns(),
            )
            return outcome

        return step

    def starting(self, executor: Executor) -> Executor:
        """The executor, with a note of when it was told to start what."""
        return cast("Executor", TimedExecutor(executor, now_ns=self._now_ns, note=self._called))

    def committed(self, cluster: Cluster) -> None:
        """A cycle was committed; to be called from the loop's thread."""
        decided, self._decided = self._decided, None
        # A decision whose commit failed is none.
        if decided is None or decided.outcome.cluster is not cluster:
            return
        with harmless():
            self._tell(decided, self._now_ns())

    def _called(self, attempt_id: AttemptId, call: Call) -> None:
        seen = self._seen.get(attempt_id, Seen())
        if seen.call is not None:
            # The first order is what counts; later ones are answered from what is known.
            call = replace(seen.call, count=seen.call.count + 1, failed=call.failed)
        self._see(attempt_id, replace(seen, call=call))

    def _see(self, attempt_id: AttemptId, seen: Seen) -> None:
        keep(self._seen, attempt_id, seen, most=_MOST)

    # --- spans -----------------------------------------------------------------------------------

    def _tell(self, decided: _Decided, committed_ns: int) -> None:
        for intent in decided.intents:
            action = intent.action
            if isinstance(action, Submit) and action.traceparent:
                caller = context_of(action.traceparent)
                keep(self._callers, action.workload_id, caller, most=_MOST)
        for one in decided.observations:
            if isinstance(one, AttemptStarted) and one.steps:
                seen = self._seen.get(one.attempt_id, Seen())
                self._see(one.attempt_id, replace(seen, reached=one.steps))
        before = decided.before.workloads
        changed = [(one, before.get(one.workload_id)) for one in decided.outcome.changes.workloads]
        cycle = self._cycle(decided, changed, committed_ns)
        for workload, known in changed:
            self._note_reserved(workload, known, decided, cycle, committed_ns)
            self._note_over(workload, known)
            self._note_progress(workload)
            if is_final(workload):
                self._callers.pop(workload.workload_id, None)
                self._starts.pop(workload.workload_id, None)

    def _cycle(
        self,
        decided: _Decided,
        changed: Sequence[tuple[Workload, Workload | None]],
        committed_ns: int,
    ) -> SpanContext | None:
        """The cycle's own span, in a trace of its own; None where nothing came and nothing was reserved."""
        reserved = sum(is_reserved(*one) for one in changed)
        nominated = sum(is_nominated(*one) for one in changed)
        submitted = sum(isinstance(one.action, Submit) for one in decided.intents)
        if not (reserved or nominated or submitted):
            return None
        span = self._tracer.start_span(
            "cycle",
            Context(),
            start_time=decided.from_ns,
            attributes={
                "gpucommons.cycle.workloads": len(decided.outcome.cluster.workloads),
                "gpucommons.cycle.asked": len(decided.intents),
                "gpucommons.cycle.observations": len(decided.observations),
                "gpucommons.cycle.changed": len(changed),
                "gpucommons.cycle.reserved": reserved,
                "gpucommons.cycle.nominated": nominated,
            },
        )
        span.add_event("decided", timestamp=decided.to_ns)
        span.add_event("committed", timestamp=committed_ns)
        span.end(committed_ns)
        return span.get_span_context()

    def _note_reserved(
        self,
        workload: Workload,
        before: Workload | None,
        decided: _Decided,
        cycle: SpanContext | None,
        committed_ns: int,
    ) -> None:
        nomination = None if before is None else before.nomination
        for attempt in newest(workload):
            if as_it_was(attempt, before) is None:
                seen = Seen(
                    in_line_ms=in_line_again_since(before),
                    nominated_ms=None if nomination is None else nomination.decided_ms,
                    cycle=cycle,
                    decided_ns=(decided.from_ns, committed_ns),
                    pool=pool_of(decided.outcome.cluster, attempt),
                )
                self._see(attempt.attempt_id, seen)

    def _note_over(self, workload: Workload, before: Workload | None) -> None:
        for attempt in newest(workload):
            if is_over(as_it_was(attempt, before)):
                continue
            stretch = start_of(workload, attempt, self._seen.get(attempt.attempt_id, Seen()))
            if stretch is not None:
                self._seen.pop(attempt.attempt_id, None)
                span = self._emit_start(workload, stretch, first=attempt.number == 1)
                start = _Start(attempt_id=attempt.attempt_id, span=span)
                keep(self._starts, workload.workload_id, start, most=_MOST)
        if left_the_line(workload, before):
            over_ms = workload.since_ms if workload.ended_ms is None else workload.ended_ms
            stretch = wait_in_vain(workload, over_ms)
            self._emit_start(workload, stretch, first=not workload.attempts)

    def _note_progress(self, workload: Workload) -> None:
        """How long the program itself took until it told, or printed, a first step."""
        start = self._starts.get(workload.workload_id)
        if start is None or start.has_progress:
            return
        stretch = first_progress_of(workload, start.attempt_id)
        if stretch is not None:
            self._emit(stretch, set_span_in_context(NonRecordingSpan(start.span), Context()))
            self._starts[workload.workload_id] = replace(start, has_progress=True)

    def _emit_start(self, workload: Workload, stretch: Stretch, *, first: bool) -> SpanContext:
        """A first start belongs to the request that asked for it; each later one is a trace of its own."""
        caller = self._callers.get(workload.workload_id)
        last = self._starts.get(workload.workload_id)
        if last is not None:
            stretch = replace(stretch, links=(*stretch.links, last.span))
        context = caller if first and caller is not None else Context()
        return self._emit(stretch, context).get_span_context()

    def _emit(self, stretch: Stretch, context: Context) -> Span:
        span = self._tracer.start_span(
            stretch.name,
            context,
            start_time=stretch.from_ns,
            attributes=stretch.attributes,
            links=[Link(one) for one in stretch.links],
        )
        inside = set_span_in_context(span, context)
        for one in stretch.within:
            self._emit(one, inside)
        if stretch.failed:
            # Without a description: what was told of it may hold users' commands.
            span.set_status(StatusCode.ERROR)
        span.end(stretch.to_ns)
        return span


def context_of(traceparent: str) -> Context:
    """The context of a request that was recorded; an empty one where it makes no sense."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context())
