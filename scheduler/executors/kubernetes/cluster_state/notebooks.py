"""Notebooks' pods: the hub makes them, and the scheduler's books say what they hold.

One whose slice is in the books takes nothing besides; any other takes its room like everybody's pod until
it is gone. A hub that was killed, or lost its database, leaves such pods behind: nobody else ends them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.cards_in_use import Use, uses_of
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import OtherPod, read_other

_LOG = logging.getLogger(__name__)

Document = Mapping[str, Any]

NOTEBOOK = "notebook"
_TERMINAL = frozenset({"Succeeded", "Failed"})
#: A hub takes its time to end a server, and its pod.
PATIENCE_MS = 120_000


@dataclass(frozen=True, kw_only=True, slots=True)
class NotebookSeen:
    """A notebook's pod that is not over."""

    name: str
    namespace: str
    uid: str
    #: The lease that it was made for, and the slice.
    lease: str
    slice_id: SliceId
    uses: tuple[Use, ...] = ()
    deleting: bool = False
    #: What it takes, once it is on a node.
    room: OtherPod | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseHeld:
    """What the scheduler's books say of a lease that holds something."""

    slices: frozenset[SliceId]
    #: Since when the hub says that its server is gone.
    gone_since_ms: int | None = None
    #: Its server lives on without its cards, which are others' meanwhile.
    parked: bool = False


#: Leases that hold something, by id.
Leases = Mapping[str, LeaseHeld]


def read_notebook(pod: Document) -> NotebookSeen | None:
    """A pod of kind ``notebook`` that has a slice; None where it has none, or is over."""
    meta = pod["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    lease, slice_id = labels.get(names.WORKLOAD), labels.get(names.SLICE)
    if not lease or not slice_id or (pod.get("status") or {}).get("phase") in _TERMINAL:
        return None
    return NotebookSeen(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        lease=lease,
        slice_id=SliceId(slice_id),
        uses=uses_of(notes.get(names.SLOTS, ""), notes.get(names.DEVICES, "")),
        deleting="deletionTimestamp" in meta,
        room=read_other(pod),
    )


def is_in_books(pod: NotebookSeen, leases: Leases) -> bool:
    """Whether what it takes is a lease's."""
    held = leases.get(pod.lease)
    return held is not None and pod.slice_id in held.slices


def is_parked(pod: NotebookSeen, leases: Leases) -> bool:
    """Whether it uses none of the cards that it was told."""
    return is_in_books(pod, leases) and leases[pod.lease].parked


def is_stray(pod: NotebookSeen, leases: Leases, *, since_ms: int, now_ms: int) -> bool:
    """Whether it outlives its lease, or its server, by more than a hub needs to end one.

    ``since_ms`` is when it was first seen with no lease.
    """
    held = leases.get(pod.lease)
    if held is not None and held.gone_since_ms is None:
        return False
    gone_ms = since_ms if held is None or held.gone_since_ms is None else held.gone_since_ms
    return now_ms - gone_ms >= PATIENCE_MS


class StrayNotebooks:
    """Removes them, or says that they are there. Used with the lock of the view held."""

    def __init__(self, orders: Orders, requests: Requests, *, remove_in: str | None) -> None:
        """``remove_in`` is the hub's namespace: elsewhere labels prove nothing."""
        self._orders = orders
        self._requests = requests
        self._remove_in = remove_in
        #: Since when each was seen to be one.
        self._since_ms: dict[str, int] = {}
        self._refused: set[str] = set()
        self.sentences: Mapping[str, str] = {}

    def look(self, pods: Mapping[str, NotebookSeen], leases: Leases, *, now_ms: int) -> None:
        """See which there are; once a second."""
        alone = [uid for uid, pod in pods.items() if pod.lease not in leases]
        self._since_ms = {uid: self._since_ms.get(uid, now_ms) for uid in alone}
        late = {
            uid: pod
            for uid, pod in pods.items()
            if is_stray(pod, leases, since_ms=self._since_ms.get(uid, now_ms), now_ms=now_ms)
        }
        self._refused &= late.keys()
        said = {}
        for uid, pod in late.items():
            if pod.namespace == self._remove_in and uid not in self._refused:
                self._remove(pod)
            else:
                node = "" if pod.room is None else pod.room.node
                said[f"{node}/{pod.namespace}/{pod.name}"] = _sentence(pod)
        self.sentences = said

    def _remove(self, pod: NotebookSeen) -> None:
        if pod.deleting:
            return
        _LOG.warning("%s", _sentence(pod).replace("remove it:", "it is removed, as with"))
        work = partial(self._requests.remove_pod, pod.namespace, pod.name, pod.uid)
        self._orders.give(("stray", pod.uid), work, partial(self._removed, pod.uid))

    def _removed(self, uid: str, error: ApiError | None) -> None:
        if error is not None and not error.try_again:
            self._refused.add(uid)


def _sentence(pod: NotebookSeen) -> str:
    node = "" if pod.room is None else f" on {pod.room.node}"
    return (
        f"The notebook's pod {pod.name}{node} outlived its lease, and holds what it has: remove it:"
        f" kubectl delete pod --namespace {pod.namespace} {pod.name}."
    )
