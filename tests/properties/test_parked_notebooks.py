"""Parked notebooks over random histories: no GPU is used by two, and what was said to be parked is there.

Beside what the scheduler believes stands what is true: where the memory of each server's kernels really
is. Servers park and take back late, twice, or never; the scheduler dies before or after it wrote down what
it was told; nodes are lost and fenced. Beside what the ledger has as parked stands what a clock counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import truths
from properties.histories import History, days, rough, small
from properties.test_core_promises import EXAMPLES, many

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.intents import Intent, NoteParked, Park, Unpark
from gpucommons.scheduler.core.model.lifecycle import is_final, is_lease
from gpucommons.scheduler.core.model.state import Cluster, Observation, Outcome, SliceCleared
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    State,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
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
_RUNS = frozenset({State.ACTIVE, State.WARNED})


@dataclass
class Server:
    """What is really the case with the kernels of one notebook."""

    #: On these devices; None = on the host.
    gpu: WorkerPlacement | None
    #: It said that its memory is on the host, and was not told since that it has a GPU again.
    said: bool = False


@dataclass
class Truth:
    """All servers."""

    servers: dict[WorkloadId, Server] = field(default_factory=dict)

    def look(self, history: History) -> None:
        """Servers see what the scheduler tells them: who is active uses its GPU."""
        live = history.world.cluster.workloads
        for workload_id in tuple(self.servers):
            lease = live.get(workload_id)
            if lease is None or is_final(lease) or workload_id in history.machines.down:
                del self.servers[workload_id]
        for lease in live.values():
            if lease.spec.kind is not Kind.NOTEBOOK or lease.state not in _RUNS:
                continue
            attempt = lease.current
            if attempt is not None and attempt.stop is None:
                self.servers[lease.workload_id] = Server(attempt.placements[0])


class Parking(History):
    """Notebooks are parked and take their GPUs back beside all else that happens."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.said: dict[WorkloadId, Workload] = {}
        super().__init__(self._look)

    def _look(self, _: History) -> None:
        self.truth.look(self)
        cluster = self.world.cluster
        truths.nothing_is_held_twice(cluster)
        # Nobody's kernels are on a GPU that others have: what is there, is held.
        used = [one.gpu for one in self.truth.servers.values() if one.gpu is not None]
        truths.held_bits(used)
        for workload_id, server in self.truth.servers.items():
            lease = cluster.workloads[workload_id]
            if server.gpu is not None:
                assert lease.current is not None, "its GPU was given away under it"
                assert lease.current.placements[0].device_ids == server.gpu.device_ids
            else:
                assert lease.parked is not None or lease.state in _RUNS
        for lease in cluster.workloads.values():
            if lease.state is State.PARKED:
                assert lease.current is None
                assert lease.nomination is None
                assert self.truth.servers[lease.workload_id].gpu is None
            if lease.parked is not None and lease.current is None:
                assert lease.state in {State.PARKED, State.WAITING}
        self._is_not_lost()
        self._is_counted()

    def _is_not_lost(self) -> None:
        """What was parked is parked still, waits, has its GPU, or ended with a sentence."""
        for workload_id in tuple(self.said):
            lease = self.world.cluster.workloads.get(workload_id)
            if lease is None or is_final(lease):
                assert self.world.finals[workload_id].ended_text
                del self.said[workload_id]
            elif lease.state in _RUNS:
                place, parked = lease.current, self.said.pop(workload_id).parked
                assert place is not None
                assert parked is not None
                # The same slice on the same devices: nothing else of it is known to its processes.
                assert place.placements[0].slice_id == parked.place.slice_id
                assert set(place.placements[0].device_ids) == set(parked.place.device_ids)
        for lease in self.world.cluster.workloads.values():
            if lease.state is State.PARKED:
                self.said[lease.workload_id] = lease

    def _is_counted(self) -> None:
        """What their servers hold of the nodes is what a fresh look finds."""
        cluster = self.world.cluster
        fresh = Capacity.of(cluster.nodes.values(), cluster.workloads.values(), cluster.blocks)
        for node_id, node in fresh.nodes.items():
            here = [
                one.parked.rest.placements[0].memory_mib
                for one in cluster.workloads.values()
                if one.parked is not None
                and one.current is None
                and one.parked.place.node_id == node_id
            ]
            assert node.held.memory_mib >= sum(here)

    def _notebook_in(self, number: int, *states: State) -> Workload | None:
        found = [
            one
            for _, one in sorted(self.world.cluster.workloads.items())
            if one.spec.kind is Kind.NOTEBOOK and one.state in states
        ]
        return found[number % len(found)] if found else None

    def _park(self, number: int, *_: int) -> None:
        lease = self._notebook_in(number, *_RUNS)
        if lease is not None:
            self.world.ask(Park(workload_id=lease.workload_id), "culler")

    def _parked(self, number: int, how: int, *_: int) -> None:
        """A server does what it was asked, and says so; or it says that it cannot."""
        lease = self._notebook_in(number, State.PARKING)
        if lease is None or lease.workload_id not in self.truth.servers:
            return
        if how == 7:
            self.world.ask(NoteParked(workload_id=lease.workload_id, because="it cannot"))
            return
        self.truth.servers[lease.workload_id] = Server(None, said=True)
        self.world.ask(NoteParked(workload_id=lease.workload_id, host_mib=how * 100))

    def _cleared(self, number: int, *_: int) -> None:
        """Its node says what it sees; only what is true."""
        lease = self._notebook_in(number, State.PARKING, *_RUNS)
        if lease is None or lease.current is None:
            return
        server = self.truth.servers.get(lease.workload_id)
        if server is not None and server.gpu is None:
            self.world.step(SliceCleared(attempt_id=lease.current.attempt_id))

    def _unpark(self, number: int, how: int, *_: int) -> None:
        lease = self._notebook_in(number, State.PARKED, State.PARKING, State.WAITING)
        if lease is not None and (lease.parked is not None or lease.state is State.PARKING):
            self.world.ask(Unpark(workload_id=lease.workload_id, waits=how != 7))

    def _last(self, number: int, *_: int) -> None:
        """One after the other, so that it comes to that often."""
        self._started(number)
        self._park(number)
        self._parked(number, 1)
        self._cleared(number)


parks = st.tuples(
    st.sampled_from(["park", "parked", "cleared", "unpark", "unpark", "started", "last", "last"]),
    small,
    small,
    small,
    small,
)


@many
@given(days(st.one_of(rough, parks, parks, parks)))
def test_no_gpu_is_used_by_two_and_nothing_that_is_parked_is_lost(
    steps: list[tuple[str, int, int, int, int]],
) -> None:
    start = [
        ("acquire", 0, 0, 3, 0),
        ("last", 0, 0, 0, 0),
        ("acquire", 0, 1, 3, 0),
        ("unpark", 0, 0, 0, 0),
    ]
    Parking().play([*start, *steps])  # type: ignore[list-item] # names and numbers


# --- what is counted of it ----------------------------------------------------------------------

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
