"""A pool that leaves its slices to a system that is not there offers nothing, and says why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from cluster_objects import Discovery, SilentWatches

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.providers.cluster.hami import REGISTERED
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.executor import KubernetesExecutor
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

POOL = Pool(name=PoolName("train"), executor="kubernetes", gpu_kind="A100-40")
SLOTS = ["n0/gpu-0", "n0/gpu-1"]


@dataclass
class Api(SilentWatches, Discovery):
    """One node with two GPUs in a cluster that serves what it serves."""

    registered: bool = True

    def get(self, path: str, **query: object) -> dict[str, Any]:
        if not path.startswith(("/apis/scheduling.run.ai", "/apis/resource.k8s.io")):
            items = [self._node()] if path == "/api/v1/nodes" else []
            return {"items": items, "metadata": {"resourceVersion": "1"}}
        return super().get(path, **query)

    def _node(self) -> dict[str, Any]:
        labels = {"gpucommons.io/pool": "train", "nvidia.com/gpu.count": "2"}
        ready = {"type": "Ready", "status": "True"}
        resources = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "16Gi"}
        notes = {REGISTERED: "…"} if self.registered else {}
        return {
            "metadata": {"name": "n0", "labels": labels, "annotations": notes},
            "status": {"conditions": [ready], "allocatable": resources},
        }


@dataclass
class World:
    provider: str
    api: Api = field(default_factory=Api)
    held: set[DeviceId] = field(default_factory=set)

    def __post_init__(self) -> None:
        settings = KubernetesSettings.model_validate(
            {"pools": {"train": {"provider": self.provider}}}
        )
        around = Around(pools=lambda: (POOL,), held=lambda: frozenset(self.held))
        self.executor = KubernetesExecutor(cast("Connection", self.api), settings, around)

    def slots(self) -> list[str]:
        (node,) = self.executor.nodes()
        return [device.device_id for device in node.devices]

    def ask_again(self) -> None:
        installed = self.executor._offer._installed
        installed._asked_s = None
        self.executor._beat()
        give_up_s = time.monotonic() + 90
        while installed._asked_s is None or not self.executor._orders.idle:
            assert time.monotonic() < give_up_s
            threading.Event().wait(0.005)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(*request.param)
    yield made
    made.executor.close()


WITHOUT = [
    ("kai", Api(groups={}), "KAI is not installed: no bindrequests.scheduling.run.ai, queues.s"),
    ("kai", Api(groups={"scheduling.run.ai": {"v2": ("queues",)}}), "no bindrequests.scheduling"),
    ("hami", Api(registered=False), "HAMi is not installed: the pool's nodes have no hami.io/"),
    ("dra", Api(groups={}), "does not serve resource.k8s.io/v1"),
    ("dra", Api(classes={"another.example.org"}), "There is no DeviceClass"),
    ("dra", Api(away=True), "It could not be asked whether it is installed: The API server"),
]


@pytest.mark.parametrize(
    ("world", "says"), [((name, api), says) for name, api, says in WITHOUT], indirect=["world"]
)
def test_where_it_is_not_there_the_pool_offers_nothing_and_says_why(
    world: World, says: str
) -> None:
    assert world.slots() == []
    for size in (500, 1000):
        why = world.executor.why_not(POOL, size)
        assert why is not None
        assert why.startswith(f"Pool train leaves its slices to {world.provider}, which does not")
        assert says in why
        assert why.endswith("until then the pool offers no GPUs.")
    assert world.executor.why_not(POOL, 0) is None
    assert world.executor.troubles() == {"pools/train": why}


@pytest.mark.parametrize("world", [("kai",), ("hami",), ("dra",)], indirect=True)
def test_where_it_is_there_the_pool_offers_its_gpus(world: World) -> None:
    assert world.slots() == SLOTS
    assert world.executor.why_not(POOL, 1000) is None
    assert world.executor.troubles() == {}


@pytest.mark.parametrize("world", [("kai", Api(groups={}))], indirect=True)
def test_one_that_is_installed_later_is_found_and_one_that_goes_takes_nothing_from_who_holds(
    world: World,
) -> None:
    assert world.slots() == []
    world.api.groups = Discovery().groups
    world.ask_again()
    assert world.slots() == SLOTS
    world.api.groups = {}
    world.held.add(DeviceId(SLOTS[1]))
    world.ask_again()
    assert world.slots() == SLOTS[1:]


@pytest.mark.parametrize("world", [("kai",)], indirect=True)
def test_an_api_server_that_is_away_for_a_moment_takes_nothing_away(world: World) -> None:
    assert world.slots() == SLOTS
    world.api.away = True
    world.ask_again()
    assert world.slots() == SLOTS
