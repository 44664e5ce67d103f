"""Pods that hold a GPU for us, so that nobody else is given it: one per slot. Pure.

The device plugin hands whole cards to pods and knows no parts. What holds a card asks for it once, says
which one it got, and sleeps; those that share the card are told its UUID.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import Why
from gpucommons.scheduler.executors.kubernetes.objects.restricted import (
    restricted_container,
    restricted_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

Document = dict[str, Any]

#: Says which card it was given, and leaves at once when told to: nothing of its own runs.
_HOLDS = (
    "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); "
    "print(os.environ.get('NVIDIA_VISIBLE_DEVICES', ''), flush=True); signal.pause()"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationSeen:
    """A reservation as the cluster shows it."""

    name: str
    uid: str
    slot: DeviceId
    running: bool = False
    #: It ended or is being deleted: it holds its card no more, or not for long.
    leaving: bool = False
    #: Why its node did not run it, or ended it.
    failed: Why | None = None


def read_reservation(pod: Mapping[str, Any]) -> ReservationSeen:
    """A pod of kind ``reservation``."""
    meta, status = pod["metadata"], pod.get("status") or {}
    phase = status.get("phase")
    why = Why(reason=status.get("reason") or "", message=status.get("message") or "")
    return ReservationSeen(
        name=meta["name"],
        uid=meta["uid"],
        slot=DeviceId((meta.get("annotations") or {}).get(names.SLOT, "")),
        running=phase == "Running",
        leaving="deletionTimestamp" in meta or phase in {"Succeeded", "Failed"},
        failed=why if phase == "Failed" else None,
    )


def wanted(
    nodes: Iterable[Node], shared: Iterable[DeviceId], settings: KubernetesSettings
) -> dict[DeviceId, Node]:
    """Slots that are to be held: every one of standing pools, else those that are or will be shared."""
    shared = frozenset(shared)
    found: dict[DeviceId, Node] = {}
    for node in nodes:
        place = settings.place_of(node.pool)
        if place.provider is not None:
            continue  # another system holds its cards
        stands = place.reservations == "standing"
        for device in node.devices:
            if stands or device.device_id in shared:
                found[device.device_id] = node
    return found


def reservation_name(slot: DeviceId) -> str:
    """One name per slot, so that two schedulers for a moment make one pod."""
    node, _, index = slot.rpartition("/gpu-")
    return f"gc-hold-{names.slug(node)}-{index}"


def reservation_pod(
    slot: DeviceId, node: Node, selector: Mapping[str, str], settings: KubernetesSettings
) -> Document:
    """The pod that holds one slot."""
    resource = settings.place_of(node.pool).gpu_resource
    pod = holding_pod(
        reservation_name(slot),
        settings,
        kind=names.RESERVATION,
        command=_HOLDS,
        resources={
            "requests": {"cpu": "1m", "memory": "16Mi"},
            "limits": {resource: "1", "memory": "64Mi"},
        },
        priority_class=settings.reservation_priority_class,
    )
    pod["metadata"]["annotations"] = {names.SLOT: slot, names.NODE: node.node_id}
    pod["spec"]["nodeSelector"] = dict(selector)
    pod["spec"]["tolerations"] = [
        toleration_of(node.pool),
        {"operator": "Exists", "effect": "NoExecute"},
    ]
    return pod


def toleration_of(pool: str) -> Document:
    """Of the taint that keeps others from a pool's nodes."""
    return {"key": names.POOL, "operator": "Equal", "value": pool, "effect": "NoSchedule"}


def _labels(settings: KubernetesSettings, kind: str) -> dict[str, str]:
    return {
        names.MANAGED_BY: "gpucommons",
        names.INSTANCE: settings.instance,
        names.KIND: kind,
    }


def holding_pod(  # noqa: PLR0913 - what such pods differ by
    name: str,
    settings: KubernetesSettings,
    *,
    kind: str,
    command: str,
    resources: Mapping[str, Any],
    priority_class: str | None,
) -> Document:
    """A pod that only takes room: some Python that sleeps, in a restricted namespace."""
    pod: Document = restricted_pod(user=settings.run_as_user, group=settings.run_as_group) | {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": names.CONTAINER,
                "image": settings.own_image,
                "imagePullPolicy": settings.image_pull_policy,
                "command": [names.PYTHON, "-c", command],
                "resources": dict(resources),
                "securityContext": restricted_container(),
            }
        ],
    }
    if priority_class:
        pod["priorityClassName"] = priority_class
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": settings.system_namespace,
            "labels": _labels(settings, kind),
        },
        "spec": pod,
    }


def uuid_in(log: bytes) -> str | None:
    """What a reservation said it holds; None while it has said nothing, or holds no single card."""
    said = log.decode(errors="replace").strip().splitlines()
    first = said[0].strip() if said else ""
    if not first or first in {"void", "all", "none"} or "," in first or "/" in first:
        return None
    return first
