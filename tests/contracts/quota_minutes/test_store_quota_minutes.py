"""How large quotas were and what was lent of them is known for as long as history is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName
from gpucommons.scheduler.errors import LeaderLost
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store
from gpucommons.scheduler.store.quota_minutes.base import FOLDED_MS, WHOLE_POOL, QuotaMinute

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ROW = QuotaMinute(
    minute_ms=Millis(0), pool=PoolName("train"), team=TeamName("vision"), size=60, lent=7
)


def at(minute: int, **changes: object) -> QuotaMinute:
    return replace(ROW, minute_ms=Millis(minute * MINUTE_MS), **changes)  # type: ignore[arg-type]


def read(store: Store, step_ms: int, to_ms: int = 10 * HOUR_MS) -> tuple[QuotaMinute, ...]:
    return store.quota_minutes.sums(from_ms=Millis(0), to_ms=Millis(to_ms), step_ms=step_ms)


def test_minutes_are_replaced_by_key_and_there_after_a_restart(url: str, store: Store) -> None:
    epoch = store.take_lead("me")
    store.quota_minutes.put(epoch, [at(1), at(2)])
    store.quota_minutes.put(epoch, [at(2, lent=9)])
    store.quota_minutes.put(epoch, [])
    if url != "memory:":
        store.close()
        store = open_store(url)
    assert read(store, MINUTE_MS) == (at(1), at(2, lent=9))
    assert read(store, MINUTE_MS, to_ms=2 * MINUTE_MS) == (at(1),)
    store.close()


def test_they_add_up_by_step_pool_and_team(store: Store) -> None:
    epoch = store.take_lead("me")
    others = [at(1, team=WHOLE_POOL, size=2**45), at(1, pool=PoolName("build"))]
    store.quota_minutes.put(epoch, [at(1), at(59), at(60), *others])
    assert read(store, HOUR_MS) == (
        others[1], others[0], at(1, size=120, lent=14), at(60),
    )  # fmt: skip


def test_minutes_that_are_long_over_become_one_row_a_quarter_of_an_hour_and_say_the_same(
    store: Store,
) -> None:
    epoch = store.take_lead("me")
    rows = [at(minute) for minute in (1, 2, 14, 15, 16, 30, 26 * 60, 26 * 60 + 1)]
    store.quota_minutes.put(epoch, rows)
    before = [(row.size, row.lent) for row in read(store, FOLDED_MS, to_ms=100 * HOUR_MS)]

    assert store.quota_minutes.fold(epoch, before_ms=Millis(2 * FOLDED_MS + 1)) == 3
    assert read(store, MINUTE_MS) == (at(0, size=180, lent=21), at(15, size=120, lent=14), at(30))
    assert store.quota_minutes.fold(epoch, before_ms=Millis(2 * FOLDED_MS + 1)) == 0
    assert store.quota_minutes.fold(epoch, before_ms=Millis(27 * HOUR_MS)) == 1

    after = [(row.size, row.lent) for row in read(store, FOLDED_MS, to_ms=100 * HOUR_MS)]
    assert after == before


def test_what_is_older_is_forgotten(store: Store) -> None:
    epoch = store.take_lead("me")
    store.quota_minutes.put(epoch, [at(1), at(2)])
    assert store.quota_minutes.drop(epoch, before_ms=Millis(2 * MINUTE_MS)) == 1
    assert read(store, MINUTE_MS) == (at(2),)


def test_the_leader_alone_writes_them(store: Store) -> None:
    old = store.take_lead("old")
    epoch = store.take_lead("new")
    store.quota_minutes.put(epoch, [at(1)])
    for write in (
        lambda: store.quota_minutes.put(old, [at(2)]),
        lambda: store.quota_minutes.fold(old, before_ms=Millis(HOUR_MS)),
        lambda: store.quota_minutes.drop(old, before_ms=Millis(HOUR_MS)),
    ):
        with pytest.raises(LeaderLost):
            write()
    assert read(store, MINUTE_MS) == (at(1),)
