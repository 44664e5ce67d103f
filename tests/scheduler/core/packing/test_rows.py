"""What is free, in plain Python and in arrays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.core.packing.rows import Rows

writes = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 1000), min_size=2, max_size=2)),
    max_size=30,
)


@given(st.lists(writes, max_size=4))
def test_whenever_they_are_asked_arrays_say_what_was_written_last(parts: list[list]) -> None:
    rows = Rows(["a", "b", "a"], [2, 2, 2])
    free = [[0, 0], [0, 0], [0, 0]]
    for part in parts:
        for row, written in part:
            rows.write(row, written, sum(written), 2 * sum(written))
            free[row] = written
        assert rows.free.tolist() == free
        assert rows.cpu_milli.tolist() == [sum(one) for one in free]
        assert rows.memory_mib.tolist() == [2 * sum(one) for one in free]


def test_arrays_that_were_not_asked_for_long_are_right_all_the_same() -> None:
    rows = Rows(["a", "a"], [1, 1])
    for number in range(5000):
        rows.write(number % 2, [number % 1000], 1, 1)
    assert rows.free.tolist() == [[998], [999]]
