"""What a job used of what it asked: only what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stored_rows import NOW, ledger_row, running

from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler.core.model.going_on import Resized, Size
from gpucommons.scheduler.core.model.resources import Device, Node, Pool
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    DeviceId,
    Millis,
    NodeId,
    PoolName,
    State,
    Workload,
)
from gpucommons.scheduler.service.views.use import MAX_SPANS, use_text, use_view
from gpucommons.scheduler.store.base import LedgerRow

MINUTE = 60_000


def _row(number: int, percent: int | None, memory_mib: int | None = None) -> LedgerRow:
    return replace(
        ledger_row(NOW + number * MINUTE),
        minute_ms=Millis(NOW + number * MINUTE),
        held_milli_gpu_ms=500 * MINUTE,
        compute_percent_mean=percent,
        memory_used_mib_max=memory_mib,
    )


def _holding() -> Workload:
    """A job that holds half of a GPU."""
    job = running(1)
    half = replace(job.attempts[0].placements[0], device_ids=(DeviceId("d"),), milli_gpu=500)
    return replace(job, attempts=(replace(job.attempts[0], placements=(half,)),))


def test_use_is_the_mean_of_what_was_measured_and_the_rest_stays_unknown() -> None:
    found = use_view(_holding(), [_row(0, 20, 100), _row(1, None), _row(2, 60, 300)], now_ms=NOW)
    assert [span.used_milli_gpu for span in found.spans] == [100, None, 300]
    assert (found.used_milli_gpu, found.memory_used_mib_max) == (200, 300)


def test_use_of_simulated_gpus_is_said_to_be_so_where_there_is_a_number() -> None:
    pool = Pool(name=PoolName("gpu"), executor="fake")
    row = replace(_row(0, 20, 100), pool=pool.name)
    for simulated, said in ((True, "used 0.10 (simulated)"), (False, "used 0.10")):
        cluster = Cluster(pools={pool.name: replace(pool, simulated=simulated)})
        found = use_view(_holding(), [row], now_ms=NOW, cluster=cluster)
        assert found.text.endswith(said)
        assert found.simulated is simulated
    unread = use_view(
        _holding(), [replace(row, compute_percent_mean=None)], now_ms=NOW, cluster=cluster
    )
    assert unread.simulated is False


def test_memory_is_told_beside_that_of_the_worker_that_has_most() -> None:
    job = _holding()
    gpu = Device(device_id=DeviceId("d"), index=0, kind="A100-40", memory_mib=40_000)
    node = Node(
        node_id=NodeId("n"), pool=PoolName("gpu"), devices=(gpu,), cpu_milli=1, memory_mib=1
    )

    known = use_view(
        job, [_row(0, 20, 100)], now_ms=NOW, cluster=Cluster(nodes={NodeId("n"): node})
    )
    assert known.memory_held_mib == share_memory_mib(gpu, 500)
    gone = use_view(job, [_row(0, 20, 100)], now_ms=NOW, cluster=Cluster())
    assert gone.memory_held_mib is None


def test_without_any_reading_there_is_no_number() -> None:
    found = use_view(running(1), [_row(0, None)], now_ms=NOW)
    assert (found.used_milli_gpu, found.memory_used_mib_max) == (None, None)
    assert found.text.endswith("no GPU data")


def test_before_the_first_minute_is_over_nothing_is_said_to_be_missing() -> None:
    found = use_view(running(1), [], now_ms=NOW)
    assert found.spans == []
    assert found.text.endswith("not measured yet (each minute is, once it is over)")


def _ended(at_ms: int) -> Workload:
    return replace(running(1), state=State.SUCCEEDED, ended_ms=Millis(at_ms))


def test_the_last_minute_of_a_job_that_is_over_is_waited_for_and_no_longer() -> None:
    short = [replace(_row(0, None), held_milli_gpu_ms=500 * 8_000)]
    soon = use_view(_ended(NOW), short, now_ms=NOW + MINUTE)
    late = use_view(_ended(NOW), short, now_ms=NOW + 2 * MINUTE)
    assert (soon.is_pending, late.is_pending) == (True, False)
    assert soon.text.endswith("not measured yet (each minute is, once it is over)")
    assert late.text.endswith("too short to be measured: 8 s")


def test_after_a_resume_the_number_of_the_new_attempt_is_waited_for() -> None:
    """What is known of an attempt that ended too soon says nothing of the one that runs."""
    first = replace(running(1).attempts[0], reserved_ms=Millis(NOW), ended_ms=Millis(NOW + 8_000))
    again = replace(first, reserved_ms=Millis(NOW + 3 * MINUTE), ended_ms=None)
    job = replace(running(1), attempts=(first, again))
    rows = [replace(_row(0, None), held_milli_gpu_ms=500 * 8_000)]
    now_ms = NOW + 3 * MINUTE + 30_000
    assert "not measured yet" in use_view(job, rows, now_ms=now_ms).text
    paused = replace(job, attempts=(first,), state=State.PAUSED)
    assert use_view(paused, rows, now_ms=now_ms).text.endswith("too short to be measured: 8 s")


def test_what_ran_for_long_without_a_reading_was_not_too_short() -> None:
    found = use_view(
        _ended(NOW), [_row(0, None), _row(1, None), _row(2, None)], now_ms=NOW + 9 * MINUTE
    )
    assert found.text.endswith("no GPU data")


def test_of_a_job_that_never_began_nothing_is_waited_for() -> None:
    """It was cancelled in line a moment ago: no minute of it will ever be told."""
    never = replace(_ended(NOW), state=State.CANCELLED, attempts=())
    found = use_view(never, [], now_ms=NOW + 1000)
    assert (found.text, found.is_pending) == ("asked ½ GPU, held none", False)


def test_what_never_held_a_gpu_says_so() -> None:
    assert use_view(_ended(NOW), [], now_ms=NOW + 9 * MINUTE).text.endswith("held none")


def test_what_ran_for_a_part_of_a_minute_is_drawn_as_long_and_as_high_as_it_held() -> None:
    first, second = NOW + 10_000, NOW + 45_000
    before = _holding()
    stopped = replace(
        before.attempts[0], reserved_ms=Millis(first), ended_ms=Millis(first + 20_000)
    )
    again = replace(before.attempts[0], reserved_ms=Millis(second), ended_ms=None)
    row = replace(_row(0, 50), held_milli_gpu_ms=500 * 35_000)
    found = use_view(replace(before, attempts=(stopped, again)), [row], now_ms=NOW + MINUTE)
    assert [(span.from_ms, span.to_ms) for span in found.spans] == [
        (first, first + 20_000),
        (second, NOW + MINUTE),
    ]
    assert [(span.held_milli_gpu, span.used_milli_gpu) for span in found.spans] == [(500, 250)] * 2


def test_a_minute_that_is_not_over_is_drawn_as_high_as_it_holds() -> None:
    row = replace(_row(0, 50), held_milli_gpu_ms=500 * 20_000)
    (span,) = use_view(_holding(), [row], now_ms=NOW + 20_000).spans
    assert (span.held_milli_gpu, span.used_milli_gpu) == (500, 250)


def test_weeks_come_in_spans_that_can_be_drawn() -> None:
    rows = [_row(number, 50) for number in range(0, 20_000, 3)]
    spans = use_view(_holding(), rows, now_ms=NOW).spans
    assert len(spans) <= MAX_SPANS
    assert spans[0].from_ms == rows[0].minute_ms
    assert spans[-1].to_ms > rows[-1].minute_ms


@pytest.mark.parametrize(
    ("asked", "used", "text"),
    [
        (2000, 213, "asked 2 GPUs, used 0.2"),
        (1000, 1000, "asked 1 GPU, used 1.0"),
        (500, 30, "asked ½ GPU, used 0.03"),
        (2000, None, "asked 2 GPUs, no GPU data"),
        (0, None, "asked no GPU"),
    ],
)
def test_it_is_said_in_one_line(asked: int, used: int | None, text: str) -> None:
    assert use_text(asked, used) == text


def test_of_a_size_that_was_changed_both_are_said() -> None:
    job = running(1)
    (role,) = job.spec.roles
    first = Size(milli_gpu=3000, workers=1, cpu_milli=1000, memory_mib=1024)
    resized = Resized(submitted=first, now=replace(first, milli_gpu=role.milli_gpu))
    found = use_view(replace(job, resized=resized), [_row(0, 20)], now_ms=NOW)
    assert found.text == "asked ½ GPU (3 at first), used 0.10"
