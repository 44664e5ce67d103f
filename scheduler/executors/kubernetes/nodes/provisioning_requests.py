"""ProvisioningRequests: each asks the cluster autoscaler for one whole node of a pool. Pure.

In place of a placeholder pod, where a pool chose so: the autoscaler answers in the request's conditions, which
are read back. Karpenter knows no such requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.nodes.asked_nodes import Due, compare
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import placeholder_pod
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

Document = dict[str, Any]

GROUP = "autoscaling.x-k8s.io"
API = f"/apis/{GROUP}/v1"
#: What failed is asked for anew after so long: an autoscaler has tried by itself until then.
RETRY_S = 300
#: As much of an autoscaler's message is passed on.
_SAID = 300
_NAME = re.compile(r"gc-request-(?P<pool>.+)-(?P<number>[0-9]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSeen:
    """A request as the cluster shows it."""

    name: str
    uid: str
    pool: PoolName
    #: The condition that counts, ``Failed`` before all others; "" while nobody has taken it up.
    state: str = ""
    #: Why, in the autoscaler's words.
    message: str = ""
    since_s: float = 0.0
    leaving: bool = False


#: What an autoscaler says of a request; the first that is true counts.
_STATES = ("Failed", "CapacityRevoked", "BookingExpired", "Provisioned", "Accepted")
#: Nothing comes of these any more.
_OVER = frozenset({"Failed", "CapacityRevoked", "BookingExpired"})


def read_request(request: Mapping[str, Any]) -> RequestSeen | None:
    """A request of ours; None: another's, whatever its labels say."""
    meta = request["metadata"]
    pool = PoolName((meta.get("annotations") or {}).get(names.POOL, ""))
    found = _NAME.fullmatch(meta["name"])
    if found is None or found["pool"] != names.slug(pool):
        return None
    conditions = {
        one["type"]: one
        for one in (request.get("status") or {}).get("conditions") or ()
        if one.get("status") == "True"
    }
    state = next((one for one in _STATES if one in conditions), "")
    said = conditions.get(state, {})
    return RequestSeen(
        name=meta["name"],
        uid=meta["uid"],
        pool=pool,
        state=state,
        message=" ".join(str(said.get("message") or said.get("reason") or "").split())[:_SAID],
        since_s=_seconds(said.get("lastTransitionTime")),
        leaving="deletionTimestamp" in meta,
    )


def _seconds(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def request_name(pool: str, number: int) -> str:
    """Of a request and of its pod template. Two schedulers for a moment make the same."""
    return f"gc-request-{names.slug(pool)}-{number}"


def pod_template(
    pool: Pool,
    growth: Growth,
    number: int,
    settings: KubernetesSettings,
    *,
    owner: Document | None = None,
) -> Document:
    """What a node is asked for with: the placeholder pod that is not made."""
    pod = placeholder_pod(pool, growth, number, settings, owner=owner)
    meta = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {**meta, "name": request_name(pool.name, number)},
        "template": {"metadata": {"annotations": meta["annotations"]}, "spec": pod["spec"]},
    }


def provisioning_request(
    pool: Pool, number: int, settings: KubernetesSettings, *, owner: Document | None = None
) -> Document:
    """The request for one node."""
    name = request_name(pool.name, number)
    meta: Document = {
        "name": name,
        "namespace": settings.system_namespace,
        "labels": {names.MANAGED_BY: "gpucommons", names.INSTANCE: settings.instance},
        "annotations": {names.POOL: pool.name},
    }
    if owner is not None:
        meta["ownerReferences"] = [owner]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ProvisioningRequest",
        "metadata": meta,
        "spec": {
            "provisioningClassName": settings.place_of(pool.name).provisioning_class,
            "podSets": [{"count": 1, "podTemplateRef": {"name": name}}],
        },
    }


def due_requests(
    wanted: Mapping[PoolName, int], there: Iterable[RequestSeen], now_s: float
) -> Due[RequestSeen]:
    """Compare what is wanted with what is there."""
    return compare(
        wanted,
        there,
        name_of=request_name,
        is_over=lambda one: _is_over(one, now_s),
        # A node that has come was asked for by one that is provisioned.
        goes_first=lambda one: one.state == "Provisioned",
    )


def _is_over(request: RequestSeen, now_s: float) -> bool:
    """Nothing comes of it any more. One that failed stays for a while: it says why, and keeps us from asking."""
    rest_s = RETRY_S if request.state == "Failed" else 0
    return request.state in _OVER and now_s >= request.since_s + rest_s


def in_words(requests: Iterable[RequestSeen]) -> Mapping[PoolName, str]:
    """What the autoscaler says of each pool's nodes, the worst first."""
    order = [*_STATES[:3], "", *reversed(_STATES[3:])]
    found: dict[PoolName, RequestSeen] = {}
    for one in sorted(requests, key=lambda one: (order.index(one.state), one.name)):
        found.setdefault(one.pool, one)
    return {pool: _sentence(one) for pool, one in found.items()}


def _sentence(request: RequestSeen) -> str:
    said = {
        "Failed": "The cluster's autoscaler brings none for now: {}.",
        "CapacityRevoked": "The cluster's autoscaler took its capacity back: {}.",
        "BookingExpired": "The cluster's autoscaler no longer keeps its capacity: it is asked again.",
        "Provisioned": "The cluster's autoscaler has provisioned it.",
        "Accepted": "The cluster's autoscaler works on it.",
    }.get(request.state, "The cluster's autoscaler has not taken up the request yet.")
    return said.format(request.message.rstrip(".") or "it does not say why")
