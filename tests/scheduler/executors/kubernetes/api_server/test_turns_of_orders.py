"""What goes before what, where more is ordered than can be done at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders, Turn

_PATIENCE_S = 60


class World:
    """One thread for orders, a clock, and what was carried out."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.done: list[str] = []
        self.orders = Orders(at_once=1, now_s=lambda: self.now_s)

    def give(self, name: str, turn: Turn) -> None:
        self.orders.give(name, lambda: self.done.append(name), lambda _error: None, turn=turn)

    def until(self, *names: str) -> None:
        give_up_s = time.monotonic() + _PATIENCE_S
        while self.done != list(names):
            assert time.monotonic() < give_up_s, self.done
            threading.Event().wait(0.005)

    def pass_s(self, seconds: float) -> None:
        give_up_s = time.monotonic() + _PATIENCE_S
        while not self.orders.idle:
            assert time.monotonic() < give_up_s
            threading.Event().wait(0.005)
        self.now_s += seconds
        self.orders.tidy()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.orders.close()


def test_a_stop_does_not_wait_until_thousands_are_made(world: World) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def first() -> None:
        busy.set()
        assert go_on.wait(_PATIENCE_S)

    world.orders.give("first", first, lambda _error: None)
    assert busy.wait(_PATIENCE_S)
    world.give("made", Turn.NEW)
    world.give("made too", Turn.NEW)
    world.give("stopped", Turn.FIRST)
    world.give("let go", Turn.FIRST)
    go_on.set()
    world.until("stopped", "let go", "made", "made too")


def test_leftovers_are_removed_at_a_quiet_moment(world: World) -> None:
    world.give("made", Turn.NEW)
    world.give("left over", Turn.TIDY)
    world.until("made")
    world.pass_s(1)
    world.give("let go", Turn.FIRST)
    world.pass_s(1)
    world.until("made", "let go")
    world.pass_s(1)
    world.until("made", "let go", "left over")


def test_leftovers_do_not_wait_for_ever(world: World) -> None:
    world.give("left over", Turn.TIDY)
    for _ in range(59):
        world.give("made", Turn.NEW)
        world.pass_s(1)
    assert "left over" not in world.done
    world.give("made", Turn.NEW)
    world.pass_s(1)
    world.until(*["made"] * 60, "left over")
