"""What the cluster offers the scheduler: nodes with their slots, and which cards those are.

Used with the view's lock held.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.hibernation.containers import RESOURCE as HIBERNATE
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName, WorkerPlacement
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebooks import (
    Leases,
    is_in_books,
    is_parked,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.placeholder_upkeep import Placeholders
from gpucommons.scheduler.executors.kubernetes.cluster_state.provisioning_upkeep import (
    Provisioning,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.reservation_upkeep import (
    ReservationUpkeep,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import (
    Holdings,
    holds_ahead,
    is_simulated,
    nodes_of,
    taken_by_others,
    why_no_part,
    why_not_parked,
    with_drivers,
)
from gpucommons.scheduler.executors.kubernetes.nodes.installed import Installed
from gpucommons.scheduler.executors.kubernetes.nodes.other_systems import (
    Cluster,
    bound_by,
    isolation_of,
    why_not,
    why_unusable,
)
from gpucommons.scheduler.executors.kubernetes.nodes.taken_back import TakenBack
from gpucommons.scheduler.executors.kubernetes.nodes.unhealthy_cards import Told, with_unhealthy
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, OtherPod
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


class Offer:
    """Worked out anew only when something of it changed: a thousand nodes take a while."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it is made of
        self,
        settings: KubernetesSettings,
        around: Around,
        view: ClusterView,
        reservations: ReservationUpkeep,
        installed: Installed,
        placeholders: Placeholders,
        provisioning: Provisioning,
    ) -> None:
        self._settings = settings
        self._around = around
        self._view = view
        self._reservations = reservations
        self._installed = installed
        self._placeholders = placeholders
        self._provisioning = provisioning
        self._taken_back = TakenBack(lambda: time.time_ns() // 1_000_000)
        self._nodes: tuple[tuple[object, ...], tuple[Node, ...]] | None = None
        self._slots: tuple[tuple[object, ...], tuple[Node, ...]] | None = None

    def nodes(self) -> tuple[Node, ...]:
        """The nodes that answer, without what others take."""
        pools, held, leases = self._around.pools(), self._around.held(), self._around.leases()
        notices, drivers = self._around.notices(), self._around.drivers()
        unhealthy = self._around.unhealthy()
        told = Told(
            by_agents=unhealthy,
            on_record=self._around.were_unhealthy(),
            # Worked out only where somebody says that a card is unhealthy.
            cards=self.cards() if any(unhealthy.values()) else {},
        )
        key = (self._view.version, pools, held, leases, notices, drivers, told)
        if self._nodes is None or self._nodes[0] != key:
            cards = self._reservations.cards_in_use()
            holdings = Holdings(
                taken=taken_by_others(self._others(leases)),
                held=held,
                reserved=self._reservations.standing(),
                lost=cards.at_odds,
                strayed=self._strayed(leases),
                closed=cards.open_nodes,
                unmade=self._unmade(pools),
            )
            found = nodes_of(self._view.nodes.values(), pools, self._settings, holdings)
            found = with_unhealthy(with_drivers(found, drivers), told)
            self._nodes = (key, self._taken_back.marked(found, self._view.nodes, notices))
        return self._nodes[1]

    def _strayed(self, leases: Leases) -> Set[DeviceId]:
        """Slots of cards that pods run on, in the books or not; a parked notebook's runs on none."""
        parked = {uid for uid, pod in self._view.notebooks.items() if is_parked(pod, leases)}
        if not parked:
            return self._reservations.cards_in_use().used.keys()
        return {slot for slot, _ in self._view.uses(without=parked)}

    def _unmade(self, pools: Iterable[Pool]) -> frozenset[str]:
        """Nodes whose slices nobody makes."""
        return frozenset(
            node.name
            for pool in pools
            if self._settings.place_of(pool.name).provider is not None
            for node in self._of(pool)
            if self._why_unusable(pool, (node,)) is not None
        )

    def _why_unusable(self, pool: Pool, nodes: Iterable[NodeSeen]) -> str | None:
        known = Cluster(traits=self._installed.traits, unknown=self._installed.unknown)
        return why_unusable(self._settings.place_of(pool.name), pool, nodes, known)

    def _others(self, leases: Leases) -> Iterator[OtherPod]:
        """Pods whose room is in nobody's books; notebooks that have a lease are not among them."""
        yield from self._view.others.values()
        for pod in self._view.notebooks.values():
            if pod.room is not None and not is_in_books(pod, leases):
                yield pod.room

    def bound_to(self, placement: WorkerPlacement) -> Bound | None:
        """Which cards a placement's slots are; None while that is not known."""
        pool = self._around.pool_of_node(placement.node_id)
        found, node = self._cards_of(placement, pool), self._view.nodes.get(placement.node_id)
        if found is None or node is None or pool is None:
            return found
        return replace(
            found,
            can_hibernate=bool(node.allocatable.get(HIBERNATE)),
            not_parked=why_not_parked(self._settings.place_of(pool.name), pool),
        )

    def _cards_of(self, placement: WorkerPlacement, pool: Pool | None) -> Bound | None:
        place = None if pool is None else self._settings.place_of(pool.name)
        if pool is not None and place is not None and place.provider and placement.device_ids:
            node = self._view.nodes.get(placement.node_id)
            return bound_by(place, pool, node, placement.milli_gpu)
        return self._reservations.bound_to(placement, "" if pool is None else pool.name)

    def isolation_of(self, pool: Pool) -> str | None:
        """How another system keeps a pool's slices apart; None where we make them."""
        place, nodes = self._settings.place_of(pool.name), self._of(pool)
        if place.provider is None:
            return None
        # Of a pool that is not seen nothing new is known.
        return isolation_of(place, pool, nodes) if nodes else pool.isolation

    def why_not(self, pool: Pool, milli_gpu: int) -> str | None:
        """Why a pool makes no slices of this size; None where it does."""
        place, nodes = self._settings.place_of(pool.name), self._of(pool)
        unusable = self._why_unusable(pool, nodes) if milli_gpu else None
        part = why_no_part(place, pool, milli_gpu)
        return unusable or part or why_not(place, pool, nodes, milli_gpu)

    def _of(self, pool: Pool) -> list[NodeSeen]:
        wanted = self._settings.selector_of(pool.name).items()
        return [node for node in self._view.nodes.values() if wanted <= node.labels.items()]

    def cards(self) -> Mapping[DeviceId, DeviceId]:
        """The UUID of every slot that is held."""
        return {slot: DeviceId(uuid) for slot, uuid in self._reservations.bound().items()}

    def agents(self) -> Mapping[NodeId, str]:
        """Address of each node's agent."""
        scheme = "http" if self._settings.agent_in_clear else "https"
        port = self._settings.agent_port
        return {
            NodeId(pod.node): f"{scheme}://{_host(pod.address)}:{port}"
            for pod in self._view.agents.values()
        }

    def sentences(self) -> Mapping[str, str]:
        """What an admin is told of slots that are lost for now, and of pools that offer nothing."""
        pools = {
            f"pools/{pool.name}": why
            for pool in self._around.pools()
            if (why := self._why_unusable(pool, self._of(pool))) is not None
        }
        lost = {str(slot): said for slot, said in self._reservations.sentences().items()}
        asking = {**self._placeholders.sentences(), **self._provisioning.sentences()}
        return {**asking, **pools, **lost}

    def scale_up(self) -> Mapping[PoolName, str]:
        """What the cluster's autoscaler says of nodes that are asked for, by pool; takes the lock."""
        with self._view.lock:
            return self._provisioning.said()

    def why_no_nodes(self) -> Mapping[PoolName, str]:
        """Why no node can be asked for, by pool; takes the lock."""
        with self._view.lock:
            return {**self._placeholders.refused(), **self._provisioning.refused()}

    def open(self) -> None:
        """Ask what must be known before the first question; without the lock."""
        self._installed.open()

    def beat(self) -> None:
        """Keep the reservations in step with what is shared out, and what is known of the cluster."""
        self._installed.beat()
        self._placeholders.beat()
        self._provisioning.beat()
        pools = self._around.pools()
        places = {pool.name: self._settings.place_of(pool.name) for pool in pools}
        ahead = {name for name, place in places.items() if holds_ahead(place)}
        stands = any(place.reservations == "standing" for place in places.values())
        # What a pod outlives its attempt with is not given up either.
        shared = self._around.fractions() | self._reservations.cards_in_use().used.keys()
        # A share of a simulated card waits for nobody.
        expected = {
            slot for slot in self._around.next_shares(ahead) if not self._is_simulated(slot)
        }
        if expected:
            # A whole GPU that was given away meanwhile is not kept from who has it.
            shared |= expected - self._around.held()
        if not (stands or shared or self._view.reservations):
            return
        self._reservations.step(self._all_slots(pools), shared)

    def _is_simulated(self, slot: DeviceId) -> bool:
        node = self._view.nodes.get(slot.rpartition("/")[0])
        return node is not None and is_simulated(node)

    def _all_slots(self, pools: tuple[Pool, ...]) -> tuple[Node, ...]:
        """Also those that are not offered because nothing holds them yet."""
        held = self._around.held() | self._reservations.standing()
        key = (self._view.version, pools, held)
        if self._slots is None or self._slots[0] != key:
            kept = Holdings(taken={}, held=held)
            found = nodes_of(self._view.nodes.values(), pools, self._settings, kept)
            self._slots = (key, found)
        return self._slots[1]


def offer_of(
    connection: Connection,
    settings: KubernetesSettings,
    around: Around,
    view: ClusterView,
    orders: Orders,
) -> Offer:
    """What a cluster offers, with reservations made by ``orders``."""

    def changed() -> None:
        with view.lock:
            view.nodes_differ()

    reservations = ReservationUpkeep(connection, settings, view, orders)
    installed = Installed(connection, settings, orders, changed=changed)
    placeholders = Placeholders(connection, settings, around, view, orders)
    provisioning = Provisioning(connection, settings, around, view, orders)
    return Offer(settings, around, view, reservations, installed, placeholders, provisioning)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
