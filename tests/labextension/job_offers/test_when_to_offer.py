from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpucommons.labextension.job_offers.when_to_offer import (
    DAY_MS,
    Cell,
    Look,
    Told,
    done_by_ms,
    faster,
    sizes,
    was_busy,
    whose,
)

MINUTE = 60_000
AFTER = 30 * MINUTE
NOW = 1_800_000_000_000


def cell(kernel: str = "k1", *, ran_ms: int = 45 * MINUTE) -> Cell:
    path = f"{kernel}.ipynb"
    return Cell(
        run=f"run-{kernel}",
        kernel_id=kernel,
        path=path,
        file=f"/home/ann/{path}",
        begun_ms=NOW - ran_ms,
    )


def looks(percents: Sequence[int | None]) -> list[Look]:
    """One each quarter of a minute, the last of them now."""
    count = len(percents)
    return [
        Look(at_ms=NOW - (count - 1 - at) * 15_000, percent=one) for at, one in enumerate(percents)
    ]


BUSY = looks([80] * 121)


def test_a_cell_that_kept_its_gpu_busy_for_long_is_offered_to_become_a_job() -> None:
    assert whose([cell()], BUSY, Told(), AFTER, NOW) == cell()


def test_who_waits_for_data_half_of_the_time_is_busy_and_who_draws_now_and_then_is_not() -> None:
    assert was_busy(looks([100, 0] * 61), NOW - AFTER, NOW)
    assert not was_busy(looks([100, 0, 0, 0] * 31), NOW - AFTER, NOW)


@pytest.mark.parametrize(
    ("cells", "used", "told", "after"),
    [
        ([], BUSY, Told(), AFTER),
        ([cell(ran_ms=AFTER - 1)], BUSY, Told(), AFTER),
        # Nobody can tell which of them it was.
        ([cell("k1"), cell("k2")], BUSY, Told(), AFTER),
        ([cell()], looks([20] * 121), Told(), AFTER),
        ([cell()], looks([80] * 60), Told(), AFTER),
        ([cell()], looks([80] * 60 + [None] * 6 + [80] * 60), Told(), AFTER),
        ([cell()], [], Told(), AFTER),
        ([cell()], BUSY, Told(kernels={"k1": NOW - DAY_MS + 1}), AFTER),
        ([cell()], BUSY, Told(refused=frozenset({"/home/ann/k1.ipynb"})), AFTER),
        ([cell()], BUSY, Told(), 0),
    ],
)
def test_nothing_is_offered(cells: list[Cell], used: list[Look], told: Told, after: int) -> None:
    assert whose(cells, used, told, after, NOW) is None


def test_it_is_offered_again_on_another_day_and_another_kernel_today() -> None:
    told = Told(kernels={"k1": NOW - DAY_MS, "k2": NOW - 1})
    assert whose([cell()], BUSY, told, AFTER, NOW) == cell()


def test_only_code_that_joins_workers_is_offered_several_gpus() -> None:
    assert sizes(500, joins=False) == (1,)
    assert sizes(2000, joins=False) == (2,)
    assert sizes(500, joins=True) == (8, 4, 2, 1)
    assert sizes(2000, joins=True) == (8, 4, 2)


def test_a_job_begins_anew_and_is_done_sooner_by_as_many_gpus() -> None:
    hour = 60 * MINUTE
    ran = cell(ran_ms=hour)
    assert done_by_ms(ran, 11 * hour, 4, 1000, NOW) == NOW + 3 * hour
    # As fast as here, it would only do an hour once more.
    assert done_by_ms(ran, 11 * hour, 1, 1000, NOW) is None
    assert done_by_ms(ran, 11 * hour, 4, 4000, NOW) is None
    assert done_by_ms(ran, None, 4, 1000, NOW) is None
    # Nearly done: what is won is not worth the start.
    assert done_by_ms(ran, 10 * MINUTE, 4, 1000, NOW) is None


@given(
    ran_ms=st.integers(1, 10 * DAY_MS),
    left_ms=st.integers(0, 10 * DAY_MS),
    gpus=st.integers(1, 16),
    held=st.sampled_from([125, 250, 500, 1000, 2000, 4000]),
)
@example(ran_ms=1, left_ms=0, gpus=4, held=1000)
def test_no_job_is_said_to_be_done_later_than_the_notebook_or_faster_than_its_gpus(
    ran_ms: int, left_ms: int, gpus: int, held: int
) -> None:
    done_ms = done_by_ms(cell(ran_ms=ran_ms), left_ms, gpus, held, NOW)
    if done_ms is not None:
        assert done_ms < NOW + left_ms
        assert (done_ms - NOW) * faster(gpus, held) >= ran_ms + left_ms - gpus
