"""Who held and used how much, minute by minute: the source of reports.

What was held is not counted while it happens but computed from the attempts, which say exactly when
devices were reserved and when they were free again. So a scheduler that was down writes the same
rows later, and writing a row twice changes nothing. They say as well from when to when a notebook was
parked: it holds nothing then, and what it would have held is counted by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.going_on.hibernating import is_kept
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.eviction_cause import StopCause
from gpucommons.scheduler.core.model.holds import class_of_worker
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Attempt, Millis, NodeId, Workload, WorkloadId
from gpucommons.scheduler.store.base import LedgerRow, LostMinutes

MINUTE_MS = 60_000
#: The agent needs a moment to finish a minute.
USAGE_DELAY_MS = 5_000
#: After a restart, how far back the last row is looked for, in growing steps.
_LOOK_BACK_MS = (10 * MINUTE_MS, 60 * MINUTE_MS, 24 * 60 * MINUTE_MS)
#: Rows so young may lack workloads that were still to be written when the scheduler stopped.
_OVERLAP_MS = 2 * MINUTE_MS

#: The label of a job whose value reports count by.
PROJECT_LABEL = "project"
_PROJECT_CHARACTERS = 100
#: What the agent measured, by slice and minute.
Usage = Mapping[tuple[SliceId, int], UsageMinute]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of time."""

    from_ms: int
    to_ms: int

    def minutes(self) -> range:
        """Every minute that it touches."""
        return range(minute_of(self.from_ms), self.to_ms, MINUTE_MS)

    def overlap_ms(self, other: Span) -> int:
        """How long both last together."""
        return max(0, min(self.to_ms, other.to_ms) - max(self.from_ms, other.from_ms))


def minute_of(at_ms: int) -> int:
    """The start of the minute."""
    return at_ms - at_ms % MINUTE_MS


def rows_of(
    workload: Workload, nodes: Mapping[NodeId, Node], span: Span, usage: Usage
) -> Iterator[LedgerRow]:
    """One workload's rows for the minutes of a span, each whole up to the span's end."""
    held = [(one, _held(one, span)) for one in workload.attempts if placed_milli_gpu_of(one)]
    parked = list(_parked(workload, span))
    for minute_ms in span.minutes():
        minute = Span(from_ms=minute_ms, to_ms=min(minute_ms + MINUTE_MS, span.to_ms))
        lasted = _Lasted(held=_within(minute, held), parked=_within(minute, parked))
        if lasted.held or lasted.parked:
            yield _row(workload, nodes, minute, lasted, usage)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lasted:
    """How many milliseconds of a minute attempts held devices, and how many they were parked."""

    held: Sequence[tuple[Attempt, int]]
    parked: Sequence[tuple[Attempt, int]]


def _within(minute: Span, spans: Iterable[tuple[Attempt, Span]]) -> list[tuple[Attempt, int]]:
    return [(one, lasted_ms) for one, span in spans if (lasted_ms := span.overlap_ms(minute))]


def project_of(labels: Mapping[str, str]) -> str:
    """What reports count its minutes by, in one line; "" without."""
    return " ".join(labels.get(PROJECT_LABEL, "").split())[:_PROJECT_CHARACTERS]


def placed_milli_gpu_of(attempt: Attempt) -> int:
    """All that an attempt holds."""
    return sum(placed_milli_gpu(placement) for placement in attempt.placements)


def _surplus_milli_gpu(attempt: Attempt) -> int:
    """What of it is borrowed though its attempt is guaranteed."""
    return sum(
        placed_milli_gpu(one)
        for one in attempt.placements
        if class_of_worker(attempt.hold_class, one) is not attempt.hold_class
    )


def _held(attempt: Attempt, span: Span) -> Span:
    end_ms = span.to_ms if attempt.ended_ms is None else attempt.ended_ms
    return Span(from_ms=attempt.reserved_ms, to_ms=end_ms)


def _parked(workload: Workload, span: Span) -> Iterator[tuple[Attempt, Span]]:
    """From when a notebook's devices were free until it had some again, or ended; in line, too."""
    for number, one in enumerate(workload.attempts, 1):
        if one.parked and one.ended_ms is not None:
            again = workload.attempts[number : number + 1]
            until_ms = again[0].reserved_ms if again else workload.ended_ms
            to_ms = span.to_ms if until_ms is None else until_ms
            yield one, Span(from_ms=one.ended_ms, to_ms=to_ms)


def _row(
    workload: Workload,
    nodes: Mapping[NodeId, Node],
    minute: Span,
    lasted: _Lasted,
    usage: Usage,
) -> LedgerRow:
    spec, idleness, held = workload.spec, workload.idleness, lasted.held
    last = (held or lasted.parked)[-1][0]
    node = nodes.get(last.placements[0].node_id)
    measured = [
        usage[placement.slice_id, minute.from_ms]
        for attempt, _ in held
        for placement in attempt.placements
        if placement.slice_id is not None and (placement.slice_id, minute.from_ms) in usage
    ]
    idle_since_ms = None if idleness is None else idleness.idle_since_ms
    return LedgerRow(
        workload_id=workload.workload_id,
        minute_ms=Millis(minute.from_ms),
        team=spec.team,
        pool=spec.pools[0] if node is None else node.pool,
        owner=spec.owner,
        kind=spec.kind,
        hold_class=last.hold_class,
        held_milli_gpu_ms=sum(placed_milli_gpu_of(one) * lasted_ms for one, lasted_ms in held),
        surplus_milli_gpu_ms=sum(_surplus_milli_gpu(one) * lasted_ms for one, lasted_ms in held),
        lost_milli_gpu_ms=_lost(workload, minute),
        parked_milli_gpu_ms=sum(placed_milli_gpu_of(one) * for_ms for one, for_ms in lasted.parked),
        idle=idle_since_ms is not None and idle_since_ms <= minute.from_ms,
        compute_percent_mean=_mean(measured),
        memory_used_mib_max=max(
            (m.memory_used_mib_max for m in measured if m.memory_used_mib_max is not None),
            default=None,
        ),
        project=project_of(spec.labels),
    )


def _mean(measured: Sequence[UsageMinute]) -> int | None:
    known = [
        (m.compute_percent_mean, m.samples) for m in measured if m.compute_percent_mean is not None
    ]
    samples = sum(count for _, count in known)
    return sum(percent * count for percent, count in known) // samples if samples else None


def thrown_away(workload: Workload, attempt: Attempt) -> Span | None:
    """Which part of an attempt's time was for nothing: since its last checkpoint, unless it ended
    by itself or its owner ended the job.
    """
    stop, started_ms, ended_ms = attempt.stop, attempt.started_ms, attempt.ended_ms
    if is_lease(workload) or started_ms is None or ended_ms is None:
        return None
    by_itself = stop is None and attempt.exit_code is not None
    if by_itself or (stop is not None and stop.why == StopCause.CANCEL) or attempt.exit_code == 0:
        return None
    if is_kept(workload, attempt):
        return None
    saved = (workload.checkpoint, *(later.resumed_from for later in workload.attempts))
    mine = (c.at_ms for c in saved if c is not None and c.attempt_id == attempt.attempt_id)
    return Span(from_ms=max(started_ms, max(mine, default=0)), to_ms=ended_ms)


def _lost(workload: Workload, minute: Span) -> int:
    return sum(
        placed_milli_gpu_of(attempt) * lost.overlap_ms(minute)
        for attempt in workload.attempts
        if (lost := thrown_away(workload, attempt)) is not None
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """What is written when devices are given back."""

    rows: tuple[LedgerRow, ...]
    lost: tuple[LostMinutes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Minutes that are over, and all that was held in them."""

    minutes: range
    rows: tuple[LedgerRow, ...]


@dataclass(kw_only=True)
class LedgerKeeper:
    """Knows up to where the ledger is written, and which rows are due."""

    #: Rows of a span that are written already: (from, to, of which workloads; None = of all).
    written: Callable[[Millis, Millis, frozenset[WorkloadId] | None], Sequence[LedgerRow]]
    #: Minutes that start later than this, as the agents measured them; None while they are asked.
    measured: Callable[[Millis], Sequence[UsageMinute] | None]
    #: Every minute before this one has its rows.
    done_ms: int = 0
    #: Workloads that gave devices back since the last rows: their last minute is written again
    #: when its usage is known.
    _closed: dict[WorkloadId, Workload] = field(default_factory=dict)
    #: The rows that are due now end here: later minutes were not over when agents were asked.
    _due_to_ms: int | None = None
    _asking: bool = False

    def resume(self, cluster: Cluster, now_ms: Millis) -> None:
        """Find where an earlier scheduler stopped writing."""
        self._due_to_ms, self._asking = None, False
        for back_ms in _LOOK_BACK_MS:
            rows = self.written(Millis(now_ms - back_ms), Millis(now_ms + MINUTE_MS), None)
            if rows:
                newest_ms = max(row.minute_ms for row in rows)
                self.done_ms = minute_of(min(newest_ms, now_ms) - _OVERLAP_MS)
                return
        begun = (ms for w in cluster.workloads.values() if (ms := _counts_since_ms(w)) is not None)
        self.done_ms = minute_of(min(begun, default=now_ms))

    def closing(self, before: Cluster, after: Iterable[Workload], now_ms: Millis) -> Closing:
        """Rows of workloads whose devices are given back in this cycle, lost work included, and of
        notebooks that end while they are parked.

        What was lost may reach back for weeks. Rows that are written already are not made again:
        this is stored before the cycle's commit, for which everybody waits.
        """
        rows: list[LedgerRow] = []
        #: By minute: thousands may end in one cycle, and each look at what is written costs as much.
        earlier: dict[int, list[LedgerRow]] = defaultdict(list)
        minutes: list[LostMinutes] = []
        for workload in after:
            known = before.workloads.get(workload.workload_id)
            ended = None if known is None else _ended(workload, known)
            if ended is None:
                continue
            self._closed[workload.workload_id] = workload
            lost = thrown_away(workload, ended)
            from_ms = self.done_ms if lost is None else min(self.done_ms, minute_of(lost.to_ms))
            rows += rows_of(workload, before.nodes, Span(from_ms=from_ms, to_ms=now_ms), {})
            if lost is not None and lost.from_ms < from_ms:
                first = Span(from_ms=lost.from_ms, to_ms=minute_of(lost.from_ms) + MINUTE_MS)
                earlier[minute_of(lost.from_ms)] += rows_of(workload, before.nodes, first, {})
                minutes.append(
                    LostMinutes(
                        workload_id=workload.workload_id,
                        from_ms=Millis(first.to_ms),
                        to_ms=Millis(from_ms),
                    )
                )
        written = (self._with_known_usage(of_minute) for of_minute in (*earlier.values(), rows))
        return Closing(rows=tuple(chain.from_iterable(written)), lost=tuple(minutes))

    def due(self, cluster: Cluster, now_ms: Millis) -> Due | None:
        """What is to be written of the minutes that are over, None while their usage is asked; call
        :meth:`wrote` once it is stored.
        """
        if self._due_to_ms is None:
            self._due_to_ms = self.next_done_ms(now_ms)
        span = Span(from_ms=self.done_ms, to_ms=self._due_to_ms)
        measured = self.measured(Millis(span.from_ms - 1)) if span.to_ms > span.from_ms else ()
        self._asking = measured is None
        if measured is None:
            return None
        usage = {(minute.slice_id, minute.minute_ms): minute for minute in measured}
        workloads = {**self._closed, **cluster.workloads}
        rows = [
            row
            for workload in workloads.values()
            for row in rows_of(workload, cluster.nodes, span, usage)
        ]
        return Due(minutes=span.minutes(), rows=self._with_known_usage(rows))

    def next_done_ms(self, now_ms: Millis) -> int:
        """Minutes before this one are over, and measured."""
        return max(self.done_ms, minute_of(now_ms - USAGE_DELAY_MS))

    def due_at_ms(self) -> Millis:
        """When the next rows are due."""
        return Millis(self.done_ms + MINUTE_MS + USAGE_DELAY_MS)

    @property
    def asking(self) -> bool:
        """Whether they wait for what agents answer."""
        return self._asking

    def wrote(self) -> None:
        """The rows that were due are stored."""
        if self._due_to_ms is not None:
            self.done_ms, self._due_to_ms = self._due_to_ms, None
        self._closed = {
            workload_id: workload
            for workload_id, workload in self._closed.items()
            if (workload.ended_ms or workload.attempts[-1].ended_ms or 0) > self.done_ms
        }

    def _with_known_usage(self, rows: Sequence[LedgerRow]) -> tuple[LedgerRow, ...]:
        """A row that is written again keeps what was measured the first time."""
        if not rows:
            return ()
        from_ms, to_ms = (pick(row.minute_ms for row in rows) for pick in (min, max))
        of = frozenset(row.workload_id for row in rows)
        known = {
            (row.workload_id, row.minute_ms): row
            for row in self.written(from_ms, Millis(to_ms + MINUTE_MS), of)
        }
        return tuple(_merged(row, known.get((row.workload_id, row.minute_ms))) for row in rows)


def _counts_since_ms(workload: Workload) -> int | None:
    """Since when it holds devices or is parked; None where it does neither."""
    if workload.current is not None:
        return workload.current.reserved_ms
    return None if workload.parked is None else workload.attempts[-1].ended_ms


def _ended(workload: Workload, known: Workload) -> Attempt | None:
    """The attempt that held devices before this cycle, or was parked, if that is over; of who was
    parked and has devices again nothing is to be written yet.
    """
    held = known.current
    if held is None:
        was_parked = known.parked is not None and is_final(workload)
        return workload.attempts[-1] if was_parked else None
    return next(
        (
            a
            for a in workload.attempts
            if a.attempt_id == held.attempt_id and a.ended_ms is not None
        ),
        None,
    )


def _merged(row: LedgerRow, known: LedgerRow | None) -> LedgerRow:
    if known is None:
        return row
    measured = row.compute_percent_mean is not None or row.memory_used_mib_max is not None
    source = row if measured else known
    return replace(
        row,
        idle=row.idle or known.idle,
        compute_percent_mean=source.compute_percent_mean,
        memory_used_mib_max=source.memory_used_mib_max,
    )
