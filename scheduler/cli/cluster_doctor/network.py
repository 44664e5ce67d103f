"""Whether network policies let hub and scheduler call each other; not whether anything enforces them.

Policies only ever admit, and add up: a pod that none of them closes may be called by all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpucommons.gpu.doctor.diagnosis import OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import (
    SCHEDULER,
    Cluster,
    Document,
    labels_of,
    name_of,
)

Labels = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _End:
    """One of two that talk: its pods, and their namespace."""

    namespace: str
    labels: Labels
    of_namespace: Labels


def check(cluster: Cluster) -> Iterator[Finding]:
    """Whether the hub's network policies let us in, and ours the hub."""
    ours = _pods_of(cluster, cluster.namespace, SCHEDULER)
    hub = _pods_of(cluster, cluster.hub_namespace, "hub")
    if ours is None or hub is None:
        return  # lines of their own say that they are not there
    yield _opening(
        cluster,
        hub,
        ours,
        "hub lets us in",
        "Set hub.networkPolicy.interNamespaceAccessLabels: accept in the hub's values"
        " (`gpucommons install --values` shows it); then upgrade its release.",
    )
    yield _opening(
        cluster,
        ours,
        hub,
        "scheduler lets the hub in",
        "hub.hubLabels of our chart must be labels of the hub's pods; another policy here may close it, too.",
    )


def _opening(cluster: Cluster, to: _End, caller: _End, check: str, change: str) -> Finding:
    path = f"/apis/networking.k8s.io/v1/namespaces/{to.namespace}/networkpolicies"
    closing = [one for one in cluster.items(path) if _closes(one, to.labels)]
    if not closing:
        return Finding(check=check, level=OK, found="no network policy closes it")
    for one in closing:
        if any(_admits(rule, to, caller) for rule in one["spec"].get("ingress") or ()):
            return Finding(check=check, level=OK, found=f"by the network policy {name_of(one)}")
    names = ", ".join(name_of(one) for one in closing)
    text = f"network policies of {to.namespace} ({names}) admit no such pod of {caller.namespace}"
    return Finding(check=check, level=PROBLEM, found=text, change=change)


def _pods_of(cluster: Cluster, namespace: str, deployment: str) -> _End | None:
    found = cluster.find(f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}")
    if found is None:
        return None
    # Each namespace has its name as a label, also where one may not read namespaces.
    known = {"kubernetes.io/metadata.name": namespace}
    known |= labels_of(cluster.find(f"/api/v1/namespaces/{namespace}") or {})
    return _End(
        namespace=namespace, labels=labels_of(found["spec"]["template"]), of_namespace=known
    )


def _closes(policy: Document, labels: Labels) -> bool:
    spec = policy["spec"]
    closes = "Ingress" in (spec.get("policyTypes") or ("Ingress",))
    return closes and _chooses(spec.get("podSelector") or {}, labels)


def _admits(rule: Document, to: _End, caller: _End) -> bool:
    """Ports are left aside: both parts have one port for all that they are asked."""
    if not rule.get("from"):
        return True
    for peer in rule["from"]:
        if "ipBlock" in peer:
            continue
        spaces = peer.get("namespaceSelector")
        if spaces is None and to.namespace != caller.namespace:
            continue
        if _chooses(spaces or {}, caller.of_namespace) and _chooses(
            peer.get("podSelector") or {}, caller.labels
        ):
            return True
    return False


def _chooses(selector: Document, labels: Labels) -> bool:
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(one, labels) for one in selector.get("matchExpressions") or ()
    )


def _holds(expression: Document, labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "In":
            return labels.get(key) in values
        case _:
            return labels.get(key) not in values
