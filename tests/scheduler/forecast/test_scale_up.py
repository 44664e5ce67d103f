"""Missing nodes over time: one that came is not asked for again, and each is awaited since it was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.background_tasks import scale_up
from gpucommons.scheduler.background_tasks.scale_up import PeriodicScaleUp
from gpucommons.scheduler.core.model.intents import NoteFacts
from gpucommons.scheduler.core.model.resources import Growth
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.core.whatif.scale_up import ScaleUp
from gpucommons.scheduler.forecast.estimating import AskedNode, Budget, estimate
from gpucommons.scheduler.forecast.runs import History

CLOUD = PoolName("cloud")
BOOT_MS = 240_000
GROWTH = Growth(max_nodes=3, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_ms=BOOT_MS)


class Clock:
    def __init__(self) -> None:
        pools = [a_pool("here"), a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)]
        self.world = World(a_node("h1", pool="here"), teams=[a_team(pool="cloud")], pools=pools)
        self.seconds = 0.0
        self.scale_ups = PeriodicScaleUp(
            lambda: self.world.cluster, lambda: self.world.now, lambda: self.seconds
        )

    def come(self, *names: str, boots: tuple[str, ...] = ()) -> None:
        """``boots``: nodes that are ready, and whose GPUs are not."""
        nodes = (
            a_node("h1", pool="here"),
            *(a_node(name, pool="cloud") for name in names),
            *(replace(a_node(name, pool="cloud"), devices=()) for name in boots),
        )
        self.world.step(NodesObserved(executor="fake", nodes=nodes))


def test_a_leader_that_comes_knows_since_when_nodes_are_asked_for() -> None:
    clock = Clock()

    def leader() -> PeriodicScaleUp:
        world = clock.world
        return PeriodicScaleUp(
            lambda: world.cluster,
            lambda: world.now,
            lambda: clock.seconds,
            note=lambda news: world.ask(NoteFacts(pools=news)),
        )

    before, since_ms = leader(), clock.world.now
    clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    before.step()
    clock.world.wait(60_000)
    after = leader()
    after.step()
    assert after.asked() == {CLOUD: (AskedNode(since_ms=since_ms),)}
    clock.come("c1")
    after.step()
    assert clock.world.cluster.pools[CLOUD].scale_up_since_ms == ()


def test_a_node_that_came_is_not_asked_for_again_before_that_is_worked_out() -> None:
    clock = Clock()
    for name in ("a", "b"):
        clock.world.submit(a_job(name, 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {CLOUD: 2}
    clock.come("c1")
    assert clock.scale_ups.missing() == {CLOUD: 1}
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {CLOUD: 1}
    clock.come("c1", "c2")
    assert clock.scale_ups.missing() == {}


def test_a_node_has_come_when_it_offers_its_gpus_and_not_before() -> None:
    clock = Clock()
    clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.come(boots=("c1",))
    assert clock.scale_ups.missing() == {CLOUD: 1}, "before that is worked out"
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {CLOUD: 1}, "and after"
    clock.come("c1")
    assert clock.scale_ups.missing() == {}
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {}


def test_the_last_node_that_a_pool_may_have_is_awaited_until_it_offers_its_gpus() -> None:
    clock = Clock()
    for name in ("a", "b", "c"):
        clock.world.submit(a_job(name, 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.come("c1", "c2", boots=("c3",))
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {CLOUD: 1}
    clock.come("c1", "c2", "c3")
    assert clock.scale_ups.missing() == {}


def test_nothing_is_said_of_missing_nodes_before_the_first_look() -> None:
    clock = Clock()
    assert (clock.scale_ups.missing(), clock.scale_ups.upcoming()) == (None, ())
    clock.scale_ups.step()
    assert clock.scale_ups.missing() == {}


def test_each_is_likely_a_boot_after_it_was_asked_for() -> None:
    clock = Clock()
    first_ms = clock.world.now
    clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.world.wait(60_000)
    clock.world.submit(a_job("b", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.world.wait(30_000)
    clock.scale_ups.step()
    assert [one.at_ms for one in clock.scale_ups.upcoming()] == [
        first_ms + BOOT_MS,
        first_ms + 60_000 + BOOT_MS,
    ]
    clock.come("c1")
    clock.scale_ups.step()
    assert [one.at_ms for one in clock.scale_ups.upcoming()] == [first_ms + 60_000 + BOOT_MS]


def test_it_is_known_since_when_those_that_are_missing_are_asked_for() -> None:
    clock = Clock()
    assert clock.scale_ups.asked() is None
    first_ms = clock.world.now
    clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.world.wait(60_000)
    clock.world.submit(a_job("b", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    first = AskedNode(since_ms=first_ms, or_earlier=True)
    second = AskedNode(since_ms=Millis(first_ms + 60_000))
    assert clock.scale_ups.asked() == {CLOUD: (first, second)}
    clock.come("c1")
    assert clock.scale_ups.asked() == {CLOUD: (second,)}, "before that is worked out"
    clock.scale_ups.step()
    assert clock.scale_ups.asked() == {CLOUD: (second,)}, "and after"
    clock.come("c1", "c2")
    assert clock.scale_ups.asked() == {}


def test_a_node_that_is_overdue_is_awaited_as_if_it_were_asked_for_now() -> None:
    clock = Clock()
    clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.world.wait(BOOT_MS + 60_000)
    clock.scale_ups.step()
    assert [one.at_ms for one in clock.scale_ups.upcoming()] == [clock.world.now + BOOT_MS]


def test_a_forecast_counts_the_time_that_a_node_takes_to_boot() -> None:
    clock = Clock()
    job = clock.world.submit(a_job("a", 4000, pools=(CLOUD,)))
    clock.scale_ups.step()
    clock.world.wait(60_000)

    def waits(**upcoming: object) -> object:
        playing = estimate(clock.world.cluster, History(()), Budget(futures=2), **upcoming)  # type: ignore[arg-type] # by name
        while True:
            try:
                next(playing)
            except StopIteration as done:
                return done.value.waits[job]

    assert waits(upcoming=clock.scale_ups.upcoming()) == (BOOT_MS - 60_000,) * 2
    assert waits() == (None, None)


def test_where_no_pool_grows_nothing_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []

    def look(*asked: object) -> ScaleUp:
        looks.append(asked)
        return ScaleUp()

    monkeypatch.setattr(scale_up, "plan_scale_up", look)
    world = World(a_node(), teams=[a_team()])
    scale_ups = PeriodicScaleUp(lambda: world.cluster, lambda: world.now)
    world.submit(a_job("a", 9000))
    scale_ups.step()
    assert (looks, scale_ups.missing(), scale_ups.upcoming()) == ([], {}, ())
    Clock().scale_ups.step()
    assert len(looks) == 1
