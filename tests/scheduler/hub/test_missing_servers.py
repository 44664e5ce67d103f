"""A lease whose server is gone without a word ends, on the word of two witnesses."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from builders import World, a_notebook, a_team

from gpucommons.scheduler.core.model.intents import Cancel, Started
from gpucommons.scheduler.core.model.types import Workload
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.hub.missing_servers import EMPTY_FOR_MS, MissingServers


@dataclass
class Scene:
    """One running notebook, what the hub and the agent say of it, and a clock."""

    lease: Workload
    server: bool | None = False
    empty: bool = True
    now_ms: int = 0
    ended: list[Cancel] = field(default_factory=list)

    async def has_server(self, _user: str, _server_name: str) -> bool:
        if self.server is None:
            raise Unavailable
        return self.server

    def watch(self) -> MissingServers:
        return MissingServers(
            self,
            workloads=lambda: (self.lease,),
            is_empty=lambda _lease: self.empty,
            end=self.ended.append,
            now_ms=lambda: self.now_ms,
        )


@pytest.fixture
def scene() -> Scene:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook("ann", 500), redeem=True)
    world.ask(Started(workload_id=lease))
    return Scene(lease=world.get(lease))


async def after_a_minute(scene: Scene) -> list[Cancel]:
    watch = scene.watch()
    await watch.step()
    scene.now_ms += EMPTY_FOR_MS
    await watch.step()
    return scene.ended


async def test_a_server_that_nobody_sees_any_more_gives_its_gpu_back(scene: Scene) -> None:
    (end,) = await after_a_minute(scene)
    assert (end.workload_id, end.why) == (scene.lease.workload_id, "stopped")


async def test_the_hubs_word_that_it_runs_keeps_the_lease(scene: Scene) -> None:
    scene.server = True
    assert await after_a_minute(scene) == []


async def test_a_hub_that_does_not_answer_is_no_witness(scene: Scene) -> None:
    scene.server = None
    assert await after_a_minute(scene) == []


async def test_a_store_that_is_away_when_a_lease_is_to_end_ends_nothing_else(scene: Scene) -> None:
    watch = scene.watch()
    caller = threading.current_thread()
    asked_in: list[threading.Thread] = []

    def end(_action: Cancel) -> None:
        asked_in.append(threading.current_thread())
        raise Unavailable

    watch._end = end
    await watch.step()
    scene.now_ms += EMPTY_FOR_MS
    await watch.step()
    # The next pass asks again; and the one thread that answers everybody never waits for the store.
    await watch.step()
    assert len(asked_in) == 2
    assert caller not in asked_in


async def test_a_process_in_the_slice_keeps_the_lease(scene: Scene) -> None:
    scene.empty = False
    assert await after_a_minute(scene) == []


async def test_the_minute_begins_anew_when_a_process_was_seen(scene: Scene) -> None:
    watch = scene.watch()
    await watch.step()
    scene.now_ms, scene.empty = EMPTY_FOR_MS, False
    await watch.step()
    scene.now_ms, scene.empty = 2 * EMPTY_FOR_MS, True
    await watch.step()
    assert scene.ended == []


@pytest.fixture
def never_came() -> Scene:
    """A slice was taken for a server that gave up; its user runs another one of the same name."""
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook("ann", 500), redeem=True)
    world.wait(300_000)
    return Scene(lease=world.get(lease), server=True)


async def test_a_slice_whose_server_never_came_is_free_though_another_has_its_name(
    never_came: Scene,
) -> None:
    (end,) = await after_a_minute(never_came)
    assert (end.workload_id, end.why) == (never_came.lease.workload_id, "stopped")


async def test_a_server_that_never_reported_may_live_while_its_hub_is_away(
    never_came: Scene,
) -> None:
    never_came.server = None
    assert await after_a_minute(never_came) == []


async def test_a_process_in_the_slice_of_a_server_that_never_reported_keeps_it(
    never_came: Scene,
) -> None:
    never_came.empty = False
    assert await after_a_minute(never_came) == []


async def test_a_server_that_starts_slowly_is_left_alone() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    lease = world.submit(a_notebook("ann", 500), redeem=True)
    assert await after_a_minute(Scene(lease=world.get(lease))) == []
