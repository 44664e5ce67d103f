"""Placeholder pods: each takes a whole node of a pool that has too few, so that an autoscaler brings one. Pure.

Pods of jobs wait behind a gate until their node is there, and no autoscaler looks behind gates. As soon as
a node takes work its placeholder goes. Where nobody is left to remove it, it ends all the same: with the
scheduler's Deployment, and some time after it got a node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName
from gpucommons.scheduler.executors.kubernetes.nodes.asked_nodes import Due, compare
from gpucommons.scheduler.executors.kubernetes.nodes.reservation_pods import (
    holding_pod,
    toleration_of,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

Document = dict[str, Any]

#: Leaves at once when told to.
_SLEEPS = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); signal.pause()"
#: A node that takes no work so long after its placeholder got it is not kept for it; at least…
_DEADLINE_S = 3600
#: …and twice the time that nodes of the pool need.
_BOOTS = 2
_NAME = re.compile(r"gc-node-(?P<pool>.+)-(?P<number>[0-9]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceholderSeen:
    """A placeholder as the cluster shows it."""

    name: str
    uid: str
    pool: PoolName
    #: The node that it was bound to; None while there is none for it.
    node: str | None = None
    #: It is being deleted.
    leaving: bool = False
    #: Its node ran it no more, as where it was evicted: it stays until it is deleted.
    ended: bool = False


def read_placeholder(pod: Mapping[str, Any]) -> PlaceholderSeen:
    """A pod of kind ``placeholder``."""
    meta, status = pod["metadata"], pod.get("status") or {}
    return PlaceholderSeen(
        name=meta["name"],
        uid=meta["uid"],
        pool=PoolName((meta.get("annotations") or {}).get(names.POOL, "")),
        node=pod["spec"].get("nodeName"),
        leaving="deletionTimestamp" in meta,
        ended=status.get("phase") in {"Succeeded", "Failed"},
    )


def placeholder_name(pool: str, number: int) -> str:
    """Two schedulers for a moment make the same."""
    return f"gc-node-{names.slug(pool)}-{number}"


def is_named_so(pod: PlaceholderSeen) -> bool:
    """Whether it has a name that we give: labels and annotations are free to choose."""
    found = _NAME.fullmatch(pod.name)
    return found is not None and found["pool"] == names.slug(pod.pool)


def owner_of(deployment: Mapping[str, Any]) -> Document:
    """What the cluster removes a placeholder with; the Deployment itself does not look after it."""
    meta = deployment["metadata"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": meta["name"],
        "uid": meta["uid"],
    }


def placeholder_pod(
    pool: Pool,
    growth: Growth,
    number: int,
    settings: KubernetesSettings,
    *,
    owner: Document | None = None,
) -> Document:
    """A pod that needs a whole node of the pool, and is the first to go."""
    place = settings.place_of(pool.name)
    room: Document = {"cpu": f"{growth.cpu_milli}m", "memory": f"{growth.memory_mib}Mi"}
    limits: Document = {"memory": room["memory"]}
    if growth.gpus:
        limits[place.gpu_resource] = str(growth.gpus)
    pod = holding_pod(
        placeholder_name(pool.name, number),
        settings,
        kind=names.PLACEHOLDER,
        command=_SLEEPS,
        resources={"requests": room, "limits": limits},
        priority_class=settings.placeholder_priority_class,
    )
    pod["metadata"]["annotations"] = {names.POOL: pool.name}
    if owner is not None:
        pod["metadata"]["ownerReferences"] = [owner]
    pod["spec"]["activeDeadlineSeconds"] = max(_DEADLINE_S, _BOOTS * growth.boot_ms // 1000)
    pod["spec"]["nodeSelector"] = dict(settings.selector_of(pool.name))
    pod["spec"]["tolerations"] = [toleration_of(pool.name)]
    return pod


def due(
    wanted: Mapping[PoolName, int],
    there: Iterable[PlaceholderSeen],
    takes_work: Callable[[NodeId], bool],
) -> Due[PlaceholderSeen]:
    """Compare what is wanted with what is there; ``takes_work``: the scheduler counts on that node."""

    def is_over(pod: PlaceholderSeen) -> bool:
        return pod.ended or (pod.node is not None and takes_work(NodeId(pod.node)))

    return compare(
        wanted,
        there,
        name_of=placeholder_name,
        is_over=is_over,
        # The node of another is on its way.
        goes_first=lambda pod: pod.node is None,
    )
