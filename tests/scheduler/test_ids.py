"""Ids are UUIDv7 and never go backwards."""

from __future__ import annotations

import threading
from uuid import UUID

from gpucommons.scheduler.ids import IdSource, uuid7


def test_an_id_is_a_lowercase_uuid_of_version_7() -> None:
    made = UUID(uuid7(1_700_000_000_000, 5, 2**62 - 1))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 1_700_000_000_000


def test_ids_sort_by_time_even_within_a_millisecond_and_when_the_clock_goes_back() -> None:
    times = iter([5, 5, 5, 3, 9, 1])
    source = IdSource(lambda: next(times), lambda _bits: 0)
    made = [next(source) for _ in range(6)]
    assert made == sorted(set(made))


def test_more_ids_than_fit_a_millisecond_stay_in_order() -> None:
    source = IdSource(lambda: 7)
    made = [next(source) for _ in range(10_000)]
    assert made == sorted(set(made))


def test_threads_never_get_the_same_id() -> None:
    source = IdSource(lambda: 7, lambda _bits: 0)
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.extend(next(source) for _ in range(500)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2000
