"""Keeps the reservations in step with what is shared out, and knows which card each slot is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import WorkerPlacement
from gpucommons.scheduler.executors.base import Bound
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    ApiError,
    Connection,
    create_once,
    delete_at_once,
)
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import Refusals, is_refusal
from gpucommons.scheduler.executors.kubernetes.attempts.sentences import not_held, not_run
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import (
    ReservationSeen,
    reservation_name,
    reservation_pod,
    uuid_in,
    wanted,
)
from gpucommons.scheduler.executors.kubernetes.objects.cards_in_use import CardsInUse, cards_in_use
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


class ReservationUpkeep:
    """Used with the lock of the view held."""

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesSettings,
        view: ClusterView,
        orders: Orders,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._view = view
        self._orders = orders
        #: By the reservation's own id: a new pod may have got another card.
        self._uuids: dict[str, str] = {}
        #: Those that were asked and named no card.
        self._mute: set[str] = set()
        #: What an admin is told of reservations that the cluster will not make…
        self._refused: dict[DeviceId, str] = {}
        #: …and of those that it makes and their nodes do not run.
        self._failed: dict[DeviceId, str] = {}
        #: Pods of which that was noted, by their ids.
        self._noted: set[str] = set()
        self._rests = Refusals(now_s)
        self._cards: tuple[int, CardsInUse] | None = None

    def bound(self) -> Mapping[DeviceId, str]:
        """UUIDs of the slots that are held now."""
        found = {}
        for pod in self._view.reservations.values():
            uuid = self._uuids.get(pod.uid)
            if uuid is not None and pod.running and not pod.leaving:
                found[pod.slot] = uuid
        return found

    def standing(self) -> frozenset[DeviceId]:
        """Slots that are held now, also where it is not known yet which card each is."""
        return frozenset(
            pod.slot
            for pod in self._view.reservations.values()
            if pod.running and not pod.leaving and pod.uid not in self._mute
        )

    def cards_in_use(self) -> CardsInUse:
        """What pods of ours run on, against what is reserved."""
        known, version = self._cards, self._view.version
        if known is None or known[0] != version:
            bound = self.bound()
            unasked = self.standing() - bound.keys()
            found = cards_in_use(self._view.uses(), bound, unasked=unasked)
            known = self._cards = (version, found)
        return known[1]

    def sentences(self) -> Mapping[DeviceId, str]:
        """What an admin is told of slots that are lost for now."""
        cards = self.cards_in_use()
        return (self._failed | self._refused) | {
            slot: (
                f"The reservation of {slot} was made anew and holds {cards.reserved[slot]}, but pods"
                f" run on {', '.join(sorted(used))}, which the cluster may give to others: they are"
                " stopped, and the slot is offered again when they are gone."
            )
            for slot, used in cards.at_odds.items()
        }

    def bound_to(self, placement: WorkerPlacement, pool: str) -> Bound | None:
        """What a worker or notebook is given; None while that is not known."""
        if not placement.device_ids:
            return Bound()
        standing = self._settings.place_of(pool).reservations == "standing"
        cards = self.cards_in_use()
        if not standing and placement.milli_gpu >= WHOLE_MILLI_GPU:
            if placement.node_id in cards.open_nodes:
                return None  # the device plugin might choose a card that somebody runs on
            if any(pod.slot in placement.device_ids for pod in self._view.reservations.values()):
                return None  # there is a card for it when its slot's is let go
            return Bound(plugin_devices=len(placement.device_ids))
        lost, held = cards.at_odds, cards.reserved
        slots = (slot for slot in placement.device_ids if slot in held and slot not in lost)
        uuids = tuple(held[slot] for slot in slots)
        if len(uuids) != len(placement.device_ids):
            return None
        return Bound(visible_devices=uuids)

    def step(self, nodes: Iterable[Node], shared: Iterable[DeviceId]) -> None:
        """Order what is missing, and remove what nothing needs."""
        due = wanted(nodes, shared, self._settings)
        self._refused = {slot: said for slot, said in self._refused.items() if slot in due}
        self._failed = {slot: said for slot, said in self._failed.items() if slot in due}
        there = {pod.name: pod for pod in self._view.reservations.values()}
        self._note_failures(there.values())
        for slot, node in due.items():
            if reservation_name(slot) not in there and not self._rests.rests(slot):
                self._make(slot, node)
        for pod in there.values():
            if (pod.slot not in due and not self._is_unknown(pod)) or pod.leaving:
                self._remove(pod)
            elif pod.running and pod.uid not in self._uuids:
                self._ask(pod)
        known = {pod.uid for pod in there.values()}
        self._mute &= known
        self._noted &= known
        self._uuids = {uid: uuid for uid, uuid in self._uuids.items() if uid in known}

    def _note_failures(self, pods: Iterable[ReservationSeen]) -> None:
        """A pod that its node does not run is not made anew as fast as that is said."""
        for pod in pods:
            if pod.failed is not None and pod.uid not in self._noted:
                self._noted.add(pod.uid)
                self._rests.add(pod.slot)
                self._failed[pod.slot] = not_run(pod.slot, pod.failed)
            elif pod.running and not pod.leaving:
                self._rests.forget(pod.slot)
                self._failed.pop(pod.slot, None)

    def _is_unknown(self, pod: ReservationSeen) -> bool:
        """Its node does not answer now: that says nothing about what runs there."""
        node = self._view.nodes.get(pod.slot.rpartition("/")[0])
        return node is None or not node.ready

    def _make(self, slot: DeviceId, node: Node) -> None:
        selector = self._view.node_selector(node.node_id)
        body = reservation_pod(slot, node, selector, self._settings)
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods"
        work = partial(create_once, self._connection, path, body)
        self._orders.give(("hold", slot), work, partial(self._told, slot))

    def _told(self, slot: DeviceId, error: ApiError | None) -> None:
        with self._view.lock:
            if error is None:
                self._refused.pop(slot, None)
            elif is_refusal(error):
                self._refused[slot] = not_held(slot, error.message)

    def _remove(self, pod: ReservationSeen) -> None:
        if pod.leaving and pod.running:
            return
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods/{pod.name}"
        # Nothing of it uses the card, so nobody has to wait until it has ended.
        work = partial(delete_at_once, self._connection, path, pod.uid)
        self._orders.give(("let go", pod.uid), work, lambda _error: None)

    def _ask(self, pod: ReservationSeen) -> None:
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods/{pod.name}/log"

        def work() -> None:
            text = self._connection.text(path, limitBytes=1024)
            uuid = uuid_in(text)
            with self._view.lock:
                if uuid is not None:
                    self._uuids[pod.uid] = uuid
                    self._mute.discard(pod.uid)
                elif text.strip() and pod.uid not in self._mute:
                    self._mute.add(pod.uid)
                else:
                    return
                self._view.version += 1

        self._orders.give(("which", pod.uid), work, lambda _error: None)
