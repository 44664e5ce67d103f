"""Cards of pools that hold some before anybody asks: made, let go for a whole GPU, and never in its way."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName, WorkerPlacement
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.offered_nodes import Offer
from gpucommons.scheduler.executors.kubernetes.cluster_state.placeholder_upkeep import Placeholders
from gpucommons.scheduler.executors.kubernetes.cluster_state.provisioning_upkeep import (
    Provisioning,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.reservation_upkeep import (
    ReservationUpkeep,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.installed import Installed
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import (
    read_reservation,
    reservation_name,
)
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, Why
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

ONE, TWO = DeviceId("n1/gpu-0"), DeviceId("n1/gpu-1")
POOL = Pool(name=PoolName("build"), executor="kubernetes", gpu_kind="A100-40")


class Cluster:
    """Does at once what it is asked, and shows it."""

    def __init__(self) -> None:
        self.view: Any = None
        self.deletions: list[Any] = []
        self.made = 0
        #: As the kubelet shows pods that it does not run.
        self.failed: dict[str, str] | None = None

    def get(self, _path: str, **_query: Any) -> dict[str, Any]:
        return {"items": []}

    def post(self, path: str, body: dict[str, Any]) -> None:
        self.made += 1
        meta = {**body["metadata"], "uid": f"uid-{self.made}"}
        status = self.failed or {"phase": "Running"}
        self.view._pod("ADDED", read_reservation({"metadata": meta, "status": status}))

    def delete(self, path: str, body: dict[str, Any]) -> None:
        self.deletions.append(body)
        uid = body["preconditions"]["uid"]
        self.view._pod("DELETED", self.view.reservations[uid])

    def text(self, path: str, **_query: Any) -> bytes:
        return f"GPU-{path.split('/')[-2]}\n".encode()

    def give(self, _key: object, work: Any, done: Any) -> bool:
        work()
        done(None)
        return True


@dataclass
class World:
    """One node with two cards."""

    place: PoolPlace = field(default_factory=PoolPlace)
    labels: dict[str, str] = field(default_factory=dict)
    held: frozenset[DeviceId] = frozenset()
    shared: frozenset[DeviceId] = frozenset()
    next_shares: frozenset[DeviceId] = frozenset({ONE})
    now_s: float = 0.0

    def __post_init__(self) -> None:
        settings = KubernetesSettings(pools={"build": self.place})
        hears = Hears(
            changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
        )
        self.cluster = Cluster()
        connection = cast("Any", self.cluster)
        self.view = self.cluster.view = ClusterView(connection, settings, threading.RLock(), hears)
        around = Around(
            pools=lambda: (POOL,),
            pool_of_node=lambda _node: POOL,
            held=lambda: self.held,
            fractions=lambda: self.shared,
            next_shares=lambda pools: self.next_shares if pools else frozenset(),
        )
        orders = cast("Any", self.cluster)
        upkeep = ReservationUpkeep(
            connection, settings, self.view, orders, now_s=lambda: self.now_s
        )
        installed = Installed(connection, settings, orders, changed=lambda: None)
        placeholders = Placeholders(connection, settings, around, self.view, orders)
        provisioning = Provisioning(connection, settings, around, self.view, orders)
        self.offer = Offer(
            settings, around, self.view, upkeep, installed, placeholders, provisioning
        )
        self.offers(2)

    def offers(self, cards: int, **others: int) -> None:
        """What the kubelet says of its node."""
        self.view._nodes.event(
            "MODIFIED",
            NodeSeen(
                name="n1",
                labels={"gpucommons.io/pool": "build"} | self.labels,
                ready=True,
                ready_changed_s=0,
                cordoned=False,
                allocatable={"nvidia.com/gpu": cards, "nvidia.com/mig-1g.10gb": cards, **others},
                cpu_milli=8000,
                memory_mib=16_384,
            ),
        )

    def beats(self) -> set[DeviceId]:
        """Let time go by; returns the slots that are held then."""
        self.offer.beat()
        self.offer.beat()
        return {pod.slot for pod in self.view.reservations.values()}

    def bound(self, slot: DeviceId, milli_gpu: int) -> Bound | None:
        placement = WorkerPlacement(
            role="notebook",
            index=0,
            node_id=NodeId("n1"),
            device_ids=(slot,),
            milli_gpu=milli_gpu,
        )
        found = self.offer.bound_to(placement)
        return None if found is None else replace(found, not_parked="")


def test_the_card_of_the_next_share_is_there_before_anybody_asks_for_it() -> None:
    world = World()
    assert world.beats() == {ONE}
    assert world.bound(ONE, 500) == Bound(visible_devices=(f"GPU-{reservation_name(ONE)}",))


def test_a_slice_can_be_saved_where_its_node_offers_that_now() -> None:
    world = World()
    world.beats()
    for count, can in ((512, True), (0, False)):
        world.offers(2, **{"gpucommons.io/hibernate": count})
        bound = world.bound(ONE, 500)
        assert bound is not None
        assert bound.can_hibernate == can


@pytest.mark.parametrize("place", [PoolPlace(), PoolPlace(reservations="standing")])
def test_no_card_is_let_go_because_the_kubelet_offers_none_for_a_while(place: PoolPlace) -> None:
    world = World(place=place, shared=frozenset({ONE}), next_shares=frozenset())
    before = world.beats()
    world.held = world.shared
    world.offers(0)
    assert world.beats() == before
    assert world.cluster.deletions == []
    assert [one.device_id for one in world.offer.nodes()[0].devices] == [ONE]
    world.offers(2)
    assert [one.device_id for one in world.offer.nodes()[0].devices] == [ONE, TWO]


def test_a_whole_gpu_waits_no_longer_than_until_its_slots_card_is_let_go() -> None:
    world = World()
    world.beats()
    world.held = frozenset({ONE})
    assert world.bound(ONE, 1000) is None
    # What was expected next may not have been worked out anew yet.
    assert world.beats() == set()
    assert world.bound(ONE, 1000) == Bound(plugin_devices=1)
    assert [body["gracePeriodSeconds"] for body in world.cluster.deletions] == [0]


def test_a_whole_gpu_beside_a_card_that_is_held_waits_for_nothing() -> None:
    world = World()
    world.beats()
    world.held = frozenset({TWO})
    assert world.bound(TWO, 1000) == Bound(plugin_devices=1)
    assert world.beats() == {ONE}


def test_a_card_that_is_shared_is_kept_though_another_is_the_next() -> None:
    world = World()
    world.beats()
    world.held = world.shared = frozenset({ONE})
    world.next_shares = frozenset({TWO})
    assert world.beats() == {ONE, TWO}
    world.held = world.shared = frozenset()
    assert world.beats() == {TWO}


@pytest.mark.parametrize(
    "place",
    [
        PoolPlace(reservations="on-demand"),
        PoolPlace(provider="hami"),
        PoolPlace(gpu_resource="nvidia.com/mig-1g.10gb"),
    ],
    ids=["on demand", "another system", "instances"],
)
def test_nothing_is_held_beforehand_where_it_should_not_or_cannot(place: PoolPlace) -> None:
    assert World(place=place).beats() == set()


def test_a_simulated_card_is_not_held_beforehand_as_nobody_waits_for_it() -> None:
    assert World(labels={"gpucommons.io/simulated": "true"}).beats() == set()


def test_a_standing_pool_holds_every_card_as_before() -> None:
    world = World(place=PoolPlace(reservations="standing"))
    assert world.beats() == {ONE, TWO}
    assert world.bound(TWO, 1000) == Bound(visible_devices=(f"GPU-{reservation_name(TWO)}",))


def test_a_card_whose_holder_its_node_does_not_run_is_tried_with_growing_rests_and_said() -> None:
    world = World()
    said = "Allocate failed due to no healthy devices present"
    world.cluster.failed = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": said,
    }
    made_at_s = []
    for second in range(180):
        world.now_s = second
        before = world.cluster.made
        world.beats()
        made_at_s += [second] * (world.cluster.made - before)
    rests = [later - earlier for earlier, later in itertools.pairwise(made_at_s)]
    assert rests == sorted(rests)
    assert rests[-1] == 60
    sentence = world.offer.sentences()[ONE]
    assert sentence.startswith(f"Nothing of ours can hold {ONE}: its node does not run what would")
    assert f"(UnexpectedAdmissionError: {said})" in sentence
    # The device plugin is back.
    world.cluster.failed = None
    world.now_s += 60
    assert world.beats() == {ONE}
    assert world.offer.sentences() == {}
    # Much later it fails once: that is the first time again.
    world.cluster.failed = {"phase": "Failed", "reason": "Evicted"}
    (pod,) = world.view.reservations.values()
    world.view._pod("MODIFIED", replace(pod, running=False, leaving=True, failed=Why()))
    world.beats()
    made = world.cluster.made
    world.now_s += 2
    world.beats()
    assert world.cluster.made == made + 1
