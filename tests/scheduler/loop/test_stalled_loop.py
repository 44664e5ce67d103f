"""A scheduler whose loop hangs or fails says so, and only one that hangs is to be started anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from launches import until

from gpucommons.scheduler.core.advance import advance
from gpucommons.scheduler.core.model.state import Observation, Outcome
from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import LeaderLost, Unavailable
from gpucommons.scheduler.executors.fake import FakeExecutor, FakeWorld
from gpucommons.scheduler.ids import IdSource
from gpucommons.scheduler.loop import loop as loop_module
from gpucommons.scheduler.loop.loop import Loop, Surroundings
from gpucommons.scheduler.store.memory import MemoryStore
from gpucommons.scheduler.wiring.rest_api import is_alive, is_healthy

NOW = Millis(1_700_000_000_000)


class Follower:
    """A replica that waits for the lead."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    def leads(self) -> bool:
        return False

    def resign(self) -> None: ...

    def works(self, well: bool) -> None:
        self.told.append(well)


class Stalling(FakeExecutor):
    """One whose call does not come back until it is let go."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.stalls, self.stalled, self.let_go = (threading.Event() for _ in range(3))

    def observe(self) -> tuple[Observation, ...]:
        if self.stalls.is_set():
            self.stalled.set()
            self.let_go.wait()
        return super().observe()


class World:
    """One scheduler's loop in its thread, and a steady clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        world = FakeWorld(now=lambda: NOW, nodes=())
        self.executor = Stalling(world)
        self.turns = 0
        self.fails = False

    def start(self, **changes: Any) -> Loop:
        around = Surroundings(
            store=MemoryStore(),
            executors={"fake": self.executor},
            now=lambda: NOW,
            new_ids=IdSource(lambda: NOW),
            token_of=str,
            api_url="http://127.0.0.1:1",
            usage=lambda _after_ms: (),
            steady_s=self._steady_s,
            **changes,
        )
        self.loop = Loop(around)
        self.loop.start()
        return self.loop

    def _steady_s(self) -> float:
        return self.now_s

    def healthy(self) -> bool:
        return is_healthy(self._scheduler())

    def alive(self) -> bool:
        return is_alive(self._scheduler())

    def _scheduler(self) -> Any:
        return SimpleNamespace(loop=self.loop, settings=SimpleNamespace(stalled_after_s=60))

    def turns_at(self, now_s: float) -> None:
        self.now_s = now_s
        self.loop.wake()
        until(lambda: self.loop.pulse.silent_s == 0)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.executor.let_go.set()
    made.loop.stop()


def test_a_loop_that_hangs_is_not_healthy_until_it_goes_on(world: World) -> None:
    world.start()
    world.turns_at(100.0)
    world.executor.stalls.set()
    world.loop.wake()
    assert world.executor.stalled.wait(60)
    world.now_s = 159.0
    assert world.healthy()
    world.now_s = 160.0
    assert not world.healthy()
    assert not world.alive()
    world.executor.let_go.set()
    until(world.healthy)
    assert world.alive()


def test_a_loop_whose_cycles_fail_is_not_healthy_but_is_not_started_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is away is no reason to restart: the new process would not find it either."""
    fails = threading.Event()

    def failing(*args: Any, **named: Any) -> Outcome:
        if fails.is_set():
            raise RuntimeError("this core fails")
        return advance(*args, **named)

    monkeypatch.setattr(loop_module, "RETRY_S", 0.01)
    loop = world.start(advance=failing)
    world.turns_at(100.0)
    assert loop.pulse.failed == 0
    fails.set()
    loop.wake()
    until(lambda: loop.pulse.failed > 0)
    world.turns_at(159.0)
    assert world.healthy()
    world.turns_at(160.0)
    assert not world.healthy()
    assert world.alive()
    fails.clear()
    until(world.healthy)


def test_a_follower_is_healthy(world: World) -> None:
    world.start(leadership=Follower())
    world.turns_at(1000.0)
    assert world.healthy()


def test_the_election_hears_whether_a_replica_can_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "RETRY_S", 0.01)
    election = Follower()
    loop = world.start(leadership=election)
    until(lambda: election.told[-1:] == [True])
    loop._mirror = cast("Any", SimpleNamespace(refresh=_cut_off))
    loop.wake()
    until(lambda: election.told[-1] is False)
    loop._mirror = None
    until(lambda: election.told[-1] is True)


def _cut_off() -> Any:
    raise Unavailable("The store does not answer.")


def test_one_that_lost_the_lead_for_good_is_not(world: World) -> None:
    loop = world.start()
    loop._step_down(LeaderLost("Another one leads."))
    assert not world.healthy()
