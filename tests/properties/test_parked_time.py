"""What reports count as parked is, over random histories, the time in which notebooks lived on without a GPU.

The ledger reads it from attempts, as it does what was held. Beside it a clock counts from step to step: whose
notebook is parked, or waits in line for its GPU, and how large that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.histories import days, rough, small
from properties.test_core_promises import EXAMPLES, many
from properties.test_parked_notebooks import Parking, parks

from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.intents import Intent
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.state import Cluster, Observation, Outcome
from gpucommons.scheduler.core.model.types import Kind, Millis, WorkloadId
from gpucommons.scheduler.loop.usage_ledger import (
    MINUTE_MS,
    USAGE_DELAY_MS,
    LedgerKeeper,
    minute_of,
    placed_milli_gpu_of,
)
from gpucommons.scheduler.store.memory import MemoryStore

#: Many histories take their time.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES))
waits = st.tuples(st.just("wait"), small, small, small, small)


class Counted(Parking):
    """A ledger is kept as the loop keeps it, and a clock counts once more."""

    def __init__(self) -> None:
        super().__init__()
        self.book = MemoryStore()
        self.epoch = self.book.take_lead("me")
        self.keeper = LedgerKeeper(
            written=lambda from_ms, to_ms, of: self.book.ledger(
                from_ms=from_ms, to_ms=to_ms, of=of
            ),
            measured=lambda _after_ms: (),
        )
        self.keeper.resume(self.world.cluster, self.world.now)
        self.clock_ms: int = self.world.now
        #: In milli-GPU·milliseconds, by notebook.
        self.held: Counter[WorkloadId] = Counter()
        self.parked: Counter[WorkloadId] = Counter()
        self._plain_step = self.world.step
        self.world.step = self._step  # type: ignore[method-assign] # each step is written down

    def _step(self, *observations: Observation, intents: Sequence[Intent] = ()) -> Outcome:
        before = self.world.cluster
        self._count(before)
        outcome = self._plain_step(*observations, intents=intents)
        closing = self.keeper.closing(before, outcome.changes.workloads, self.world.now)
        self.book.add_ledger(self.epoch, closing.rows, closing.lost)
        self.write_due(self.world.now)
        return outcome

    def _count(self, cluster: Cluster) -> None:
        """What has lasted since the step before."""
        lasted_ms, self.clock_ms = self.world.now - self.clock_ms, self.world.now
        for lease in cluster.workloads.values():
            if not is_lease(lease) or is_final(lease):
                continue
            if lease.current is not None:
                self.held[lease.workload_id] += lasted_ms * placed_milli_gpu_of(lease.current)
            elif lease.parked is not None:
                self.parked[lease.workload_id] += lasted_ms * placed_milli_gpu(lease.parked.place)

    def write_due(self, now_ms: int) -> None:
        """As the loop does after each cycle."""
        if now_ms >= self.keeper.due_at_ms():
            due = self.keeper.due(self.world.cluster, Millis(now_ms))
            assert due is not None
            self.book.add_ledger(self.epoch, due.rows)
            self.keeper.wrote()


@many
@given(days(st.one_of(rough, parks, parks, waits, waits)))
def test_the_ledger_has_parked_what_a_clock_counts(
    steps: list[tuple[str, int, int, int, int]],
) -> None:
    history = Counted()
    start = [
        ("acquire", 0, 0, 3, 0),
        ("started", 0, 0, 0, 0),
        ("last", 0, 0, 0, 0),
        ("wait", 5, 0, 0, 0),
        ("acquire", 0, 1, 3, 0),
        ("unpark", 0, 0, 0, 0),
    ]
    history.play([*start, *steps])  # type: ignore[list-item] # names and numbers
    end_ms = minute_of(history.world.now) + MINUTE_MS
    history.world.wait(end_ms - history.world.now)
    history.write_due(end_ms + USAGE_DELAY_MS)
    held: Counter[WorkloadId] = Counter()
    parked: Counter[WorkloadId] = Counter()
    for row in history.book.ledger(from_ms=Millis(0), to_ms=Millis(end_ms)):
        if row.kind is Kind.NOTEBOOK:
            held[row.workload_id] += row.held_milli_gpu_ms
            parked[row.workload_id] += row.parked_milli_gpu_ms
    assert +parked == +history.parked
    assert +held == +history.held
    assert sum(parked.values()) > 0
