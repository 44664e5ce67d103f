"""Notebooks' pods: counted once, held until they are gone, and not left behind for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName, WorkerPlacement
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError, Connection
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import (
    PATIENCE_MS,
    LeaseHeld,
    Leases,
    NotebookSeen,
    StrayNotebooks,
    read_notebook,
)
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
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import ReservationSeen
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

SLOT, OTHER_SLOT = DeviceId("n1/gpu-0"), DeviceId("n1/gpu-1")
SLICE = SliceId("s-1")
BOOKS: Leases = {"lease": LeaseHeld(slices=frozenset({SLICE}))}
POOL = Pool(name=PoolName("build"), executor="kubernetes", gpu_kind="A100-40")
PLACE = WorkerPlacement(
    role="notebook",
    index=0,
    node_id="n1",  # type: ignore[arg-type] # a NodeId
    device_ids=(SLOT,),
    milli_gpu=500,
    slice_id=SLICE,
)


def a_notebook(*, gpus: int = 0, cards: str = "GPU-a", phase: str = "Running") -> dict[str, Any]:
    resources = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"nvidia.com/gpu": f"{gpus}"}}
    return {
        "metadata": {
            "name": "jupyter-ann",
            "namespace": "hub",
            "uid": "u",
            "labels": {names.KIND: "notebook", names.WORKLOAD: "lease", names.SLICE: SLICE},
            "annotations": {names.SLOTS: SLOT, names.DEVICES: cards},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "notebook", "resources": resources}]},
        "status": {"phase": phase},
    }


A_NODE = {
    "metadata": {"name": "n1", "labels": {"gpucommons.io/pool": "build"}},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
    },
}


@dataclass
class World:
    """A view of one node, and what is offered of it."""

    reservations: str = "on-demand"
    leases: Leases = field(default_factory=lambda: BOOKS)
    held: frozenset[DeviceId] = frozenset({SLOT})
    drivers: dict[NodeId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        place = PoolPlace(reservations=cast("Any", self.reservations))
        settings = KubernetesSettings(hub_namespace="hub", pools={"build": place})
        self.settings = settings
        hears = Hears(
            changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
        )
        connection = cast("Connection", None)
        self.view = ClusterView(connection, settings, threading.RLock(), hears)
        around = Around(
            pools=lambda: (POOL,),
            pool_of_node=lambda _node: POOL,
            held=lambda: self.held,
            leases=lambda: self.leases,
            drivers=lambda: dict(self.drivers),
        )
        self.upkeep = ReservationUpkeep(connection, settings, self.view, cast("Any", None))
        installed = Installed(connection, settings, cast("Any", None), changed=lambda: None)
        placeholders = Placeholders(connection, settings, around, self.view, cast("Any", None))
        provisioning = Provisioning(connection, settings, around, self.view, cast("Any", None))
        self.offer = Offer(
            settings, around, self.view, self.upkeep, installed, placeholders, provisioning
        )
        reads = {one.path.rpartition("/")[2]: one.read for one, _ in self.view._subjects()}
        self._read_pod = reads["pods"]
        self.view._nodes.event("ADDED", reads["nodes"](A_NODE))

    def shows(self, pod: dict[str, Any], kind: str = "ADDED") -> None:
        self.view._pod(kind, self._read_pod(pod))

    def reserves(self, slot: DeviceId, card: str | None, uid: str = "r") -> None:
        """A reservation runs; it has said which card it holds, or not yet."""
        if card is not None:
            self.upkeep._uuids[uid] = card
        seen = ReservationSeen(name=f"hold-{uid}", uid=uid, slot=slot, running=True)
        self.view._pod("ADDED", seen)

    def bound(self, placement: WorkerPlacement = PLACE) -> Bound | None:
        """Without what is said of parking."""
        found = self.offer.bound_to(placement)
        return None if found is None else replace(found, not_parked="")

    def slots(self) -> list[DeviceId]:
        (node,) = self.offer.nodes()
        return [device.device_id for device in node.devices]


def test_another_driver_is_seen_though_nothing_else_of_the_cluster_changed() -> None:
    world = World()
    for told in ("", "550.54.15", "580.95.05"):
        world.drivers = {NodeId("n1"): told} if told else {}
        (node,) = world.offer.nodes()
        assert node.driver == told


def test_what_a_notebook_takes_is_its_leases_and_not_taken_twice() -> None:
    world = World()
    world.shows(a_notebook(gpus=1, cards="void"))
    (node,) = world.offer.nodes()
    assert (node.cpu_milli, node.memory_mib, len(node.devices)) == (8000, 16_384, 2)


@pytest.mark.parametrize("leases", [{}, {"lease": LeaseHeld(slices=frozenset({SliceId("s-2")}))}])
def test_one_that_is_in_nobodys_books_takes_its_room_until_it_is_gone(leases: Leases) -> None:
    world = World(leases=leases, held=frozenset())
    world.shows(a_notebook(gpus=1, cards="void"))
    (node,) = world.offer.nodes()
    assert (node.cpu_milli, node.memory_mib, len(node.devices)) == (6000, 12_288, 1)
    world.shows(a_notebook(phase="Succeeded"), "MODIFIED")
    (node,) = world.offer.nodes()
    assert (node.cpu_milli, len(node.devices)) == (8000, 2)


def test_a_scheduler_that_comes_back_does_not_take_standing_slots_from_those_who_have_them() -> (
    None
):
    world = World(reservations="standing")
    world.shows(a_notebook())
    assert world.slots() == [SLOT]
    # Nor when its reservation runs and has not said yet which card it holds.
    world.reserves(SLOT, None)
    world.reserves(OTHER_SLOT, None, uid="r2")
    assert world.slots() == [SLOT, OTHER_SLOT]
    assert world.bound() is None


PARKED: Leases = {"lease": LeaseHeld(slices=frozenset({SLICE}), parked=True)}


def test_a_parked_notebooks_card_is_offered_while_its_pod_lives_and_stays_reserved() -> None:
    world = World(reservations="standing", leases=PARKED, held=frozenset())
    world.shows(a_notebook())
    world.reserves(SLOT, "GPU-a")
    world.reserves(OTHER_SLOT, "GPU-b", uid="r2")
    assert world.slots() == [SLOT, OTHER_SLOT]
    (node,) = world.offer.nodes()
    assert (node.cpu_milli, node.memory_mib) == (8000, 16_384)
    whole = replace(PLACE, milli_gpu=1000, slice_id=SliceId("s-2"))
    assert world.bound(whole) == Bound(visible_devices=("GPU-a",))
    # Its lease is over, and its pod not yet: whatever it does now, it does to nobody.
    world.leases = {}
    assert world.slots() == [OTHER_SLOT]


def test_a_card_that_another_pod_uses_beside_a_parked_one_is_not_offered() -> None:
    world = World(reservations="standing", leases=PARKED, held=frozenset())
    world.shows(a_notebook())
    other = a_notebook()
    other["metadata"] |= {"uid": "u2", "name": "jupyter-bob"}
    other["metadata"]["labels"] |= {names.WORKLOAD: "over", names.SLICE: "s-2"}
    world.shows(other)
    world.reserves(SLOT, "GPU-a")
    world.reserves(OTHER_SLOT, "GPU-b", uid="r2")
    assert world.slots() == [OTHER_SLOT]


def test_a_parked_notebook_whose_card_was_reserved_anew_is_not_given_the_new_one() -> None:
    world = World(reservations="standing", leases=PARKED, held=frozenset())
    world.shows(a_notebook())
    world.reserves(SLOT, "GPU-b")
    assert SLOT not in world.slots()
    assert world.bound() is None


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (PoolPlace(reservations="standing"), ""),
        (PoolPlace(), "sets reservations: standing for build"),
        (PoolPlace(reservations="on-demand"), "sets reservations: standing for build"),
        (PoolPlace(provider="kai"), "kai makes the slices of pool build"),
    ],
)
def test_what_the_cluster_holds_for_a_pod_is_not_parked_and_the_sentence_says_so(
    place: PoolPlace, says: str
) -> None:
    world = World()
    world.settings.pools["build"] = place
    world.reserves(SLOT, "GPU-a")
    bound = world.offer.bound_to(PLACE)
    assert bound is not None
    assert says in bound.not_parked
    assert bool(bound.not_parked) == bool(says)


def test_reservations_are_read_once_for_all_ranks_of_a_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, reads = World(), []
    world.reserves(SLOT, "GPU-a")

    def bound() -> dict[DeviceId, str]:
        reads.append(1)
        return {SLOT: "GPU-a"}

    monkeypatch.setattr(world.upkeep, "bound", bound)
    for _ in range(64):
        assert world.bound() == Bound(visible_devices=("GPU-a",))
    assert len(reads) == 1
    world.reserves(OTHER_SLOT, "GPU-b", uid="r2")
    world.bound()
    assert len(reads) == 2


@pytest.mark.parametrize("reservations", ["standing", "on-demand"])
def test_a_reservation_made_anew_on_another_card_is_lost_until_the_fractions_are_gone(
    reservations: str,
) -> None:
    world = World(reservations=reservations)
    world.shows(a_notebook())
    world.reserves(SLOT, "GPU-b")
    assert SLOT not in world.slots()
    assert world.bound() is None
    assert "pods run on GPU-a" in world.offer.sentences()[SLOT]
    world.shows(a_notebook(), "DELETED")
    world.held = frozenset()
    assert SLOT in world.slots()
    assert world.bound() == Bound(visible_devices=("GPU-b",))
    assert world.offer.sentences() == {}


def test_no_whole_card_starts_where_one_in_use_lost_its_reservation() -> None:
    world = World()
    world.shows(a_notebook())
    assert world.slots() == [SLOT]
    whole = replace(PLACE, milli_gpu=1000, device_ids=(OTHER_SLOT,))
    assert world.bound(whole) is None
    world.reserves(SLOT, "GPU-a")
    assert world.slots() == [SLOT, OTHER_SLOT]
    assert world.bound(whole) == Bound(plugin_devices=1)


# --- pods that nobody ends ---------------------------------------------------------------------


@dataclass
class Removals:
    """Notes what is removed, and may refuse."""

    refuses: bool = False
    removed: list[str] = field(default_factory=list)

    def give(
        self, _key: Hashable, work: Callable[[], None], done: Callable[[ApiError | None], None]
    ) -> bool:
        work()
        done(ApiError(403, "Forbidden", "no") if self.refuses else None)
        return True

    def remove_pod(self, _namespace: str, name: str, _uid: str) -> None:
        self.removed.append(name)


def strays(removals: Removals, remove_in: str | None = "hub") -> StrayNotebooks:
    return StrayNotebooks(cast("Any", removals), cast("Any", removals), remove_in=remove_in)


def pods() -> dict[str, NotebookSeen]:
    found = read_notebook(a_notebook())
    assert found is not None
    return {"u": found}


GONE: Leases = {"lease": LeaseHeld(slices=frozenset({SLICE}), gone_since_ms=0)}


@pytest.mark.parametrize("leases", [{}, GONE], ids=["no lease", "its server is gone"])
def test_a_pod_that_a_dead_hub_left_behind_is_removed_after_a_while(leases: Leases) -> None:
    removals = Removals()
    looks = strays(removals)
    for now_ms in (0, PATIENCE_MS - 1):
        looks.look(pods(), leases, now_ms=now_ms)
    assert removals.removed == []
    looks.look(pods(), leases, now_ms=PATIENCE_MS)
    assert removals.removed == ["jupyter-ann"]


def test_one_whose_lease_is_alive_is_left_alone() -> None:
    removals = Removals()
    looks = strays(removals)
    for now_ms in (0, 10 * PATIENCE_MS):
        looks.look(pods(), BOOKS, now_ms=now_ms)
    assert (removals.removed, looks.sentences) == ([], {})


@pytest.mark.parametrize(
    ("remove_in", "refuses"), [(None, False), ("elsewhere", False), ("hub", True)]
)
def test_where_we_may_not_remove_it_an_admin_is_told_how(
    remove_in: str | None, refuses: bool
) -> None:
    looks = strays(Removals(refuses=refuses), remove_in)
    for now_ms in (0, PATIENCE_MS, PATIENCE_MS + 1000):
        looks.look(pods(), {}, now_ms=now_ms)
    assert looks.sentences == {
        "n1/hub/jupyter-ann": (
            "The notebook's pod jupyter-ann on n1 outlived its lease, and holds what it has: remove"
            " it: kubectl delete pod --namespace hub jupyter-ann."
        )
    }
