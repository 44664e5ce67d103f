"""The ledger: exact to the millisecond, however often the scheduler was down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    AttemptState,
    Checkpoint,
    HoldClass,
    Idleness,
    Kind,
    Millis,
    NodeId,
    Parked,
    PoolName,
    Role,
    Spec,
    State,
    Stop,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.loop.usage_ledger import MINUTE_MS, LedgerKeeper, Span, rows_of
from gpucommons.scheduler.store.base import Epoch, LedgerRow
from gpucommons.scheduler.store.memory import MemoryStore

#: The start of some minute.
T = 28_333_333 * MINUTE_MS
NODE = Node(node_id=NodeId("n"), pool=PoolName("train"), devices=(), cpu_milli=1, memory_mib=1)
NODES = {NODE.node_id: NODE}
SLICE = SliceId("s-1")


def attempt(from_ms: int, to_ms: int | None = None, **changes: object) -> Attempt:
    plain = Attempt(
        attempt_id=AttemptId(f"a-{from_ms}"),
        workload_id=WorkloadId("w"),
        number=1,
        state=AttemptState.RUNNING if to_ms is None else AttemptState.ENDED,
        hold_class=HoldClass.OVER_QUOTA,
        placements=(
            WorkerPlacement(
                role="worker",
                index=0,
                node_id=NODE.node_id,
                device_ids=(DeviceId("sim-0"),),
                milli_gpu=500,
                slice_id=SLICE,
            ),
        ),
        reserved_ms=Millis(from_ms),
        started_ms=Millis(from_ms),
        ended_ms=None if to_ms is None else Millis(to_ms),
        exit_code=None if to_ms is None else 0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def job(*attempts: Attempt, **changes: object) -> Workload:
    spec = Spec(
        kind=Kind.TRAINING,
        name="digits-1",
        team=TeamName("vision"),
        owner=UserName("ada"),
        submitted_by=UserName("ada"),
        pools=(PoolName("elsewhere"), PoolName("train")),
        roles=(Role(),),
    )
    plain = Workload(
        workload_id=WorkloadId("w"),
        spec=spec,
        state=State.RUNNING,
        submitted_ms=Millis(T),
        since_ms=Millis(T),
        attempts=attempts,
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # any field


def evicted(from_ms: int, to_ms: int, why: str = "guarantee") -> Attempt:
    at = Millis(to_ms)
    stop = Stop(why=why, text="", announced_ms=at, term_ms=at, kill_ms=at)
    return attempt(from_ms, to_ms, stop=stop, exit_code=143)


def saved(of: Attempt, at_ms: int) -> Checkpoint:
    return Checkpoint(
        attempt_id=of.attempt_id, step=1, path="x", size_bytes=1, sha256="", at_ms=Millis(at_ms)
    )


def rows(workload: Workload, from_ms: int, to_ms: int) -> list[LedgerRow]:
    return list(rows_of(workload, NODES, Span(from_ms=from_ms, to_ms=to_ms), {}))


def held(found: Sequence[LedgerRow]) -> list[tuple[int, int]]:
    return [((row.minute_ms - T) // MINUTE_MS, row.held_milli_gpu_ms) for row in found]


# --- what was held -----------------------------------------------------------------------------


def test_each_minute_holds_what_the_attempts_held_in_it() -> None:
    workload = job(attempt(T + 30_000, T + 70_000), attempt(T + 110_000))
    assert held(rows(workload, T, T + 3 * MINUTE_MS)) == [
        (0, 500 * 30_000),
        (1, 500 * (10_000 + 10_000)),
        (2, 500 * 60_000),
    ]


def test_a_row_tells_who_and_under_which_quota() -> None:
    (row,) = rows(job(attempt(T)), T, T + 1)
    assert (row.workload_id, row.team, row.pool, row.owner) == ("w", "vision", "train", "ada")
    assert (row.kind, row.hold_class, row.idle) == (Kind.TRAINING, HoldClass.OVER_QUOTA, False)


def test_of_a_guaranteed_job_what_its_surplus_workers_hold_is_borrowed() -> None:
    inside = attempt(T).placements[0]
    beyond = replace(inside, index=1, surplus=True)
    grown = attempt(T, placements=(inside, beyond), hold_class=HoldClass.GUARANTEED)
    (row,) = rows(job(grown), T, T + MINUTE_MS)
    assert (row.held_milli_gpu_ms, row.borrowed_milli_gpu_ms) == (60_000_000, 30_000_000)

    borrowing = replace(grown, hold_class=HoldClass.OVER_QUOTA)
    (row,) = rows(job(borrowing), T, T + MINUTE_MS)
    assert (row.surplus_milli_gpu_ms, row.borrowed_milli_gpu_ms) == (0, 60_000_000)


def test_nothing_held_is_no_row() -> None:
    assert rows(job(), T, T + MINUTE_MS) == []
    assert rows(job(attempt(T - 5, T)), T, T + MINUTE_MS) == []
    on_cpu = WorkerPlacement(role="worker", index=0, node_id=NODE.node_id, cpu_milli=1000)
    assert rows(job(attempt(T, placements=(on_cpu,))), T, T + MINUTE_MS) == []


def test_a_minute_is_idle_when_the_culler_said_so_before_it_began() -> None:
    idle = job(attempt(T), idleness=Idleness(idle_since_ms=Millis(T + 1)))
    assert [row.idle for row in rows(idle, T, T + 2 * MINUTE_MS)] == [False, True]


def test_usage_of_several_slices_is_weighted_by_samples() -> None:
    def minute(slice_id: str, samples: int, percent: int | None, memory: int | None) -> UsageMinute:
        return UsageMinute(
            slice_id=SliceId(slice_id),
            minute_ms=T,
            samples=samples,
            compute_percent_mean=percent,
            compute_percent_max=percent,
            memory_used_mib_max=memory,
        )

    placement = attempt(T).placements[0]
    others = tuple(replace(placement, slice_id=SliceId(f"s-{i}")) for i in (1, 2, 3))
    usage = {
        (SliceId("s-1"), T): minute("s-1", 60, 90, 100),
        (SliceId("s-2"), T): minute("s-2", 20, 10, None),
        (SliceId("s-3"), T): minute("s-3", 60, None, 300),
    }
    span = Span(from_ms=T, to_ms=T + MINUTE_MS)
    (row,) = rows_of(job(attempt(T, placements=others)), NODES, span, usage)
    assert (row.compute_percent_mean, row.memory_used_mib_max) == (70, 300)


# --- what was thrown away ----------------------------------------------------------------------


def test_an_eviction_throws_away_what_was_done_since_the_checkpoint() -> None:
    gone = evicted(T, T + 90_000)
    workload = job(gone, state=State.QUEUED, checkpoint=saved(gone, T + 50_000))
    found = rows(workload, T, T + 2 * MINUTE_MS)
    assert [row.lost_milli_gpu_ms for row in found] == [500 * 10_000, 500 * 30_000]


def test_without_a_checkpoint_everything_was_for_nothing() -> None:
    (row,) = rows(job(evicted(T, T + 40_000), state=State.QUEUED), T, T + MINUTE_MS)
    assert row.lost_milli_gpu_ms == 500 * 40_000


def test_a_later_checkpoint_of_another_attempt_saves_nothing_of_this_one() -> None:
    first, second = evicted(T, T + 20_000), attempt(T + 30_000)
    resumed = replace(second, resumed_from=saved(first, T + 15_000))
    workload = job(first, resumed, checkpoint=saved(resumed, T + 50_000))
    (row,) = rows(workload, T, T + MINUTE_MS)
    assert row.lost_milli_gpu_ms == 500 * 5_000


def test_success_failure_and_cancel_throw_nothing_away() -> None:
    for ended in (
        attempt(T, T + 40_000),
        attempt(T, T + 40_000, exit_code=1),
        evicted(T, T + 40_000, why="cancel"),
    ):
        (row,) = rows(job(ended, state=State.FAILED), T, T + MINUTE_MS)
        assert row.lost_milli_gpu_ms == 0


def test_a_lost_attempt_threw_its_work_away() -> None:
    (row,) = rows(job(attempt(T, T + 40_000, exit_code=None)), T, T + MINUTE_MS)
    assert row.lost_milli_gpu_ms == 500 * 40_000


# --- what is parked ----------------------------------------------------------------------------

PLACE = attempt(T).placements[0]


def parked_until(from_ms: int, to_ms: int) -> Attempt:
    """It held its devices for so long, and was parked then."""
    return attempt(from_ms, to_ms, hold_class=HoldClass.FIXED, parked=True)


def notebook(*attempts: Attempt, ended_ms: int | None = None) -> Workload:
    """It runs, or is parked where its last attempt says so; or it ended."""
    last, plain = attempts[-1], job(*attempts)
    spec = replace(plain.spec, kind=Kind.NOTEBOOK, name="", pools=(PoolName("train"),))
    notebook = replace(plain, spec=spec, state=State.ACTIVE)
    if ended_ms is not None:
        return replace(notebook, state=State.ENDED, ended_ms=Millis(ended_ms))
    if not last.parked or last.ended_ms is None:
        return notebook
    parked = Parked(place=PLACE, rest=replace(last, placements=()), since_ms=last.ended_ms)
    return replace(notebook, state=State.PARKED, parked=parked)


def parked_of(found: Sequence[LedgerRow]) -> list[tuple[int, int]]:
    return [((row.minute_ms - T) // MINUTE_MS, row.parked_milli_gpu_ms) for row in found]


def test_a_parked_notebook_holds_nothing_and_what_it_would_have_held_is_counted_by_itself() -> None:
    found = rows(notebook(parked_until(T, T + 20_000)), T, T + 2 * MINUTE_MS)
    assert held(found) == [(0, 500 * 20_000), (1, 0)]
    assert parked_of(found) == [(0, 500 * 40_000), (1, 500 * 60_000)]
    assert {(row.pool, row.hold_class, row.lost_milli_gpu_ms, row.borrowed_milli_gpu_ms) for row in found} == {
        ("train", HoldClass.FIXED, 0, 0)
    }  # fmt: skip


def test_parked_time_ends_with_the_next_devices_or_with_the_notebook() -> None:
    first, second = parked_until(T, T + 10_000), parked_until(T + 30_000, T + 45_000)
    again = notebook(first, second, attempt(T + 70_000))
    assert parked_of(rows(again, T, T + 2 * MINUTE_MS)) == [
        (0, 500 * (20_000 + 15_000)),
        (1, 500 * 10_000),
    ]
    ended = notebook(first, second, ended_ms=T + 50_000)
    assert parked_of(rows(ended, T, T + 2 * MINUTE_MS)) == [(0, 500 * (20_000 + 5_000))]


def test_a_notebook_that_ended_otherwise_was_not_parked() -> None:
    gone = notebook(attempt(T, T + 10_000), ended_ms=T + 10_000)
    assert parked_of(rows(gone, T, T + MINUTE_MS)) == [(0, 0)]


# --- keeping it --------------------------------------------------------------------------------


class Book:
    """A store's ledger and a keeper that can be restarted."""

    def __init__(self, measured: Sequence[UsageMinute] = ()) -> None:
        self.store = MemoryStore()
        self.epoch = self.store.take_lead("me")
        self.measured = list(measured)
        self.asking = False
        self.asked_of: list[frozenset[WorkloadId] | None] = []
        self.cluster = Cluster(nodes=NODES)
        self.keeper = self.restart(T)

    def restart(self, now_ms: int) -> LedgerKeeper:
        self.keeper = LedgerKeeper(
            written=self._written,
            measured=lambda after_ms: (
                None if self.asking else [m for m in self.measured if m.minute_ms > after_ms]
            ),
        )
        self.keeper.resume(self.cluster, Millis(now_ms))
        return self.keeper

    def _written(
        self, from_ms: Millis, to_ms: Millis, of: frozenset[WorkloadId] | None
    ) -> Sequence[LedgerRow]:
        self.asked_of.append(of)
        return self.store.ledger(from_ms=from_ms, to_ms=to_ms, of=of)

    def commit(self, workload: Workload, now_ms: int) -> None:
        before = self.cluster
        self.closing = self.keeper.closing(before, [workload], Millis(now_ms))
        self.store.add_ledger(self.epoch, self.closing.rows, self.closing.lost)
        kept = workload.state is State.QUEUED or workload.parked is not None
        live = workload.current is not None or kept
        self.cluster = replace(before, workloads={workload.workload_id: workload} if live else {})

    def tick(self, now_ms: int) -> None:
        if now_ms >= self.keeper.due_at_ms():
            due = self.keeper.due(self.cluster, Millis(now_ms))
            if due is not None:
                self.store.add_ledger(self.epoch, due.rows)
                self.keeper.wrote()

    def rows(self) -> tuple[LedgerRow, ...]:
        return self.store.ledger(from_ms=Millis(0), to_ms=Millis(2**60))


def measured(minute: int, percent: int) -> UsageMinute:
    return UsageMinute(
        slice_id=SLICE,
        minute_ms=T + minute * MINUTE_MS,
        samples=60,
        compute_percent_mean=percent,
        compute_percent_max=percent,
        memory_used_mib_max=7,
    )


def test_rows_are_due_once_a_minute_after_the_agents_have_measured() -> None:
    book = Book([measured(0, 40)])
    book.commit(job(attempt(T)), T)
    book.tick(T + MINUTE_MS + 4_999)
    assert book.rows() == ()
    assert book.keeper.due_at_ms() == T + MINUTE_MS + 5_000
    book.tick(T + MINUTE_MS + 5_000)
    (row,) = book.rows()
    assert (row.held_milli_gpu_ms, row.compute_percent_mean) == (500 * MINUTE_MS, 40)


def test_rows_wait_for_agents_that_are_still_asked_and_end_where_those_were_asked() -> None:
    book = Book([measured(0, 40)])
    book.commit(job(attempt(T)), T)
    book.asking = True
    book.tick(T + MINUTE_MS + 5_000)
    assert book.keeper.asking
    book.commit(job(attempt(T, T + 70_000), state=State.SUCCEEDED), T + 70_000)
    book.asking = False
    book.tick(T + 2 * MINUTE_MS + 5_000)
    assert not book.keeper.asking
    assert [row.compute_percent_mean for row in book.rows()] == [40, None]
    book.measured.append(measured(1, 50))
    book.tick(T + 2 * MINUTE_MS + 5_000)
    assert [row.compute_percent_mean for row in book.rows()] == [40, 50]
    assert sum(row.held_milli_gpu_ms for row in book.rows()) == 500 * 70_000


def test_what_thousands_lose_in_one_cycle_is_looked_up_once_per_minute() -> None:
    book = Book()
    running = [replace(job(attempt(T + n)), workload_id=WorkloadId(f"w-{n}")) for n in range(3)]
    before = replace(book.cluster, workloads={one.workload_id: one for one in running})
    end_ms = T + 3 * MINUTE_MS + 20_000
    book.keeper.done_ms = T + 3 * MINUTE_MS
    lost = [
        replace(one, attempts=(attempt(T + n, end_ms, exit_code=None),))
        for n, one in enumerate(running)
    ]
    asked = len(book.asked_of)
    closing = book.keeper.closing(before, lost, Millis(end_ms))
    assert book.asked_of[asked:] == [frozenset(before.workloads)] * 2
    assert [row.minute_ms - T for row in closing.rows] == [0] * 3 + [3 * MINUTE_MS] * 3


def test_an_end_is_written_at_once_and_its_usage_follows() -> None:
    book = Book([measured(0, 40)])
    book.commit(job(attempt(T)), T)
    book.commit(job(attempt(T, T + 20_000), state=State.SUCCEEDED), T + 20_000)
    (row,) = book.rows()
    # Others' rows are not read for it: with thousands of ends in a minute that would be all, each time.
    assert book.asked_of[-1] == {row.workload_id}
    assert (row.held_milli_gpu_ms, row.compute_percent_mean) == (500 * 20_000, None)
    book.tick(T + MINUTE_MS + 5_000)
    (row,) = book.rows()
    assert (row.held_milli_gpu_ms, row.compute_percent_mean) == (500 * 20_000, 40)


def test_an_eviction_reaches_back_over_rows_that_were_written_and_keeps_their_usage() -> None:
    book = Book([measured(0, 40), measured(1, 50)])
    running = attempt(T)
    book.commit(job(running), T)
    for minute in (1, 2):
        book.tick(T + minute * MINUTE_MS + 5_000)
    gone = evicted(T, T + 130_000)
    book.commit(job(gone, state=State.QUEUED, checkpoint=saved(gone, T + 50_000)), T + 130_000)
    found = book.rows()
    assert [row.lost_milli_gpu_ms // 500 for row in found] == [10_000, 60_000, 10_000]
    assert [row.compute_percent_mean for row in found] == [40, 50, None]


def test_a_week_that_was_for_nothing_is_marked_and_not_written_again() -> None:
    book = Book()
    book.commit(job(attempt(T + 20_000)), T + 20_000)
    week = T + 7 * 24 * 60 * MINUTE_MS
    book.tick(week)
    gone = evicted(T + 20_000, week + 30_000)
    book.commit(job(gone, state=State.QUEUED), week + 30_000)
    assert len(book.closing.rows) < 5
    found = book.rows()
    assert sum(row.held_milli_gpu_ms for row in found) == 500 * (week + 10_000 - T)
    assert all(row.lost_milli_gpu_ms == row.held_milli_gpu_ms for row in found)


def test_what_was_saved_or_lost_before_stays_as_it_was() -> None:
    book = Book()
    first = evicted(T, T + 130_000)
    book.commit(job(attempt(T)), T)
    book.tick(T + 125_000)
    book.commit(job(first, state=State.QUEUED), T + 130_000)
    second = attempt(T + 190_000)
    book.commit(job(first, second), T + 190_000)
    book.tick(T + 485_000)
    gone = evicted(T + 190_000, T + 490_000)
    saved_ms = T + 250_000
    book.commit(job(first, gone, state=State.QUEUED, checkpoint=saved(gone, saved_ms)), T + 490_000)
    lost = [row.lost_milli_gpu_ms // 500 for row in book.rows()]
    assert lost == [60_000, 60_000, 10_000, 0, 50_000, 60_000, 60_000, 60_000, 10_000]


@settings(deadline=None)
@given(
    jumps=st.lists(st.integers(1, 200_000), min_size=1, max_size=12),
    restarts=st.lists(st.booleans(), min_size=12, max_size=12),
    ends_after=st.integers(1, 12),
)
def test_sums_are_exact_whenever_the_scheduler_was_down(
    jumps: list[int], restarts: list[bool], ends_after: int
) -> None:
    book = Book()
    now = T + 12_345
    began = now
    book.commit(job(attempt(began)), now)
    ended: int | None = None
    for index, jump in enumerate(jumps):
        now += jump
        if restarts[index]:
            book.restart(now)
        if index + 1 == ends_after:
            ended = now
            book.commit(job(attempt(began, ended), state=State.SUCCEEDED), now)
        book.tick(now)
    if ended is None:
        ended = now + 1
        book.commit(job(attempt(began, ended), state=State.SUCCEEDED), ended)
    assert sum(row.held_milli_gpu_ms for row in book.rows()) == 500 * (ended - began)


def test_a_scheduler_that_was_down_for_days_fills_the_gap() -> None:
    book = Book()
    days = 3 * 24 * 3_600_000
    book.commit(job(attempt(T)), T)
    book.restart(T + days)
    book.commit(job(attempt(T, T + days), state=State.SUCCEEDED), T + days)
    assert sum(row.held_milli_gpu_ms for row in book.rows()) == 500 * days
    assert Epoch(1) == book.epoch


@settings(deadline=None)
@given(
    stretches=st.lists(
        st.tuples(st.integers(1, 200_000), st.integers(1, 200_000)), min_size=1, max_size=6
    ),
    restarts=st.lists(st.booleans(), min_size=13, max_size=13),
    ends_parked=st.booleans(),
)
def test_held_and_parked_are_exact_however_often_a_notebook_is_parked(
    stretches: list[tuple[int, int]], restarts: list[bool], ends_parked: bool
) -> None:
    book, down = Book(), iter(restarts)
    now = T + 12_345
    before: tuple[Attempt, ...] = ()

    def commit(lease: Workload) -> None:
        if next(down):
            book.restart(now)
        book.commit(lease, now)
        book.tick(now)

    for held_ms, parked_ms in stretches:
        began = now
        commit(notebook(*before, attempt(began, hold_class=HoldClass.FIXED)))
        now += held_ms
        before = (*before, parked_until(began, now))
        commit(notebook(*before))
        now += parked_ms
    if not ends_parked:
        before = (*before, attempt(now, now, hold_class=HoldClass.FIXED))
    commit(notebook(*before, ended_ms=now))
    book.tick(now + 10 * MINUTE_MS)
    found = book.rows()
    assert sum(row.held_milli_gpu_ms for row in found) == 500 * sum(one for one, _ in stretches)
    assert sum(row.parked_milli_gpu_ms for row in found) == 500 * sum(one for _, one in stretches)
    # A minute has room for no more than itself.
    assert all(row.held_milli_gpu_ms + row.parked_milli_gpu_ms <= 500 * MINUTE_MS for row in found)


def test_a_notebook_that_was_parked_while_the_scheduler_was_down_for_days_is_counted() -> None:
    book = Book()
    days = 3 * 24 * 3_600_000
    parked = parked_until(T, T + 30_000)
    book.commit(notebook(attempt(T)), T)
    book.commit(notebook(parked), T + 30_000)
    book.restart(T + days)
    book.commit(notebook(parked, ended_ms=T + days), T + days)
    assert sum(row.parked_milli_gpu_ms for row in book.rows()) == 500 * (days - 30_000)
