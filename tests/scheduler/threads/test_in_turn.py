"""Work of several owners is done in a few threads, one piece of each at a time."""

from __future__ import annotations

import pytest
from service_world import OnDemand

from gpucommons.scheduler.threads.in_turn import InTurn


def test_who_asks_for_much_keeps_nobody_else_waiting() -> None:
    pool, done = OnDemand(waits=True), list[str]()
    in_turn = InTurn(pool)
    for owner, piece in (("ann", "1"), ("ann", "2"), ("ann", "3"), ("bob", "1"), ("cleo", "1")):
        in_turn.submit(owner, lambda what=owner + piece: done.append(what))  # type: ignore[misc]
    while pool.waiting:
        pool.run_one()
    assert done == ["ann1", "bob1", "cleo1", "ann2", "ann3"]


def test_what_fails_is_told_to_who_asked_and_stops_nothing() -> None:
    in_turn = InTurn(OnDemand())
    failed, worked = in_turn.submit("ann", lambda: 1 // 0), in_turn.submit("ann", lambda: 7)
    with pytest.raises(ZeroDivisionError):
        failed.result(0)
    assert worked.result(0) == 7
