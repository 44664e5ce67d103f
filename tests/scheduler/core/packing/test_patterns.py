"""Which shares fill a device together: prices and worth of free room."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.packing.patterns import (
    FINE,
    MAX_SIZES,
    best_filling,
    worth_of_capacity,
)

sizes = st.sampled_from([100, 190, 240, 330, 350, 470, 530, 650, 810, 1000])


def _fits(size: int, free: int, worth: np.ndarray) -> int:
    """What a share of this size costs beyond its own worth on a device with so much free."""
    own = int((worth[size:] - worth[:-size]).min())
    return int(worth[free] - worth[free - size]) - own


def test_a_share_belongs_beside_the_one_that_completes_it() -> None:
    """650 and 350 come in pairs, so 350 on an empty device wastes nothing but 200 would."""
    worth = worth_of_capacity({650: 10, 350: 10})

    assert _fits(350, 350, worth) == 0
    assert _fits(650, 1000, worth) == 0
    assert worth[1000] == 1000 * FINE
    # On a device with 650 left, 350 leaves 300 that nothing fills.
    assert _fits(350, 650, worth) > 0


def test_room_that_nothing_fills_is_worth_nothing() -> None:
    """Beside 810 there is room for 190; nothing of that size comes."""
    worth = worth_of_capacity({810: 5, 470: 4})

    assert worth[190] == 0
    assert worth[469] == 0
    assert worth[470] > 0


def test_without_shares_only_a_whole_device_is_worth_something() -> None:
    """Nothing is known of shares: whole devices are not to be broken."""
    for shares in ({}, {1000: 7}):
        worth = worth_of_capacity(shares)
        assert worth[999] == 0
        assert worth[1000] == 1000 * FINE


def test_the_worth_is_that_of_the_best_mix() -> None:
    """By hand: 600 alone wastes 400; 300s beside it waste 100; there are as many of each."""
    worth = worth_of_capacity({600: 100, 300: 100})

    # 90 devices' worth of demand. 600 + 300 leaves 100 of each device: one more device holds 900.
    assert worth[1000] == 900 * FINE
    assert worth[300] + worth[700] == 900 * FINE


@settings(deadline=None)  # a linear programme in each example
@given(st.dictionaries(sizes, st.integers(1, 500), min_size=1, max_size=7))
def test_more_room_is_never_worth_less(shares: dict[int, int]) -> None:
    """Worth grows with room and never exceeds it."""
    worth = worth_of_capacity(shares)

    assert (np.diff(worth) >= 0).all()
    assert (worth <= FINE * np.arange(1001) + len(shares)).all()


@settings(deadline=None, max_examples=20)  # each example is a linear programme
@given(st.dictionaries(st.integers(1, 1000), st.integers(1, 50), min_size=MAX_SIZES, max_size=90))
def test_many_sizes_are_told_apart_coarsely(shares: dict[int, int]) -> None:
    """However many sizes there are, an answer comes."""
    assert worth_of_capacity(shares)[1000] > 0


@given(
    st.lists(st.tuples(st.sampled_from([210, 260, 400, 610]), st.integers(0, 900)), max_size=3),
    st.integers(0, 1000),
)
def test_the_best_filling_is_best(items: list[tuple[int, int]], capacity: int) -> None:
    """Against all mixes, tried one by one."""
    best = best_filling([size for size, _ in items], [worth for _, worth in items])

    tried = (
        sum(n * worth for n, (_, worth) in zip(counts, items, strict=True))
        for counts in product(range(5), repeat=len(items))
        if sum(n * size for n, (size, _) in zip(counts, items, strict=True)) <= capacity
    )
    assert max(tried) == best[capacity]
