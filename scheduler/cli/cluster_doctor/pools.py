"""Nodes of each pool: whether there are any, what their device plugin offers, who may run there."""

from __future__ import annotations

from collections.abc import Iterator

from gpucommons.gpu.doctor.diagnosis import ADVICE, OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import Cluster, Document, labels_of, name_of
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_HOLDS_BACK = (
    " A pool that teams have quotas in holds back the whole first configuration until it has nodes for them:"
    " GPU admin says whether it does. One with `growth` needs none to begin with."
)
#: Taints that Kubernetes sets for a while, and takes off again.
_PASSING = "node.kubernetes.io/"


def check(cluster: Cluster) -> Iterator[Finding]:
    """Each pool that the chart's values place, and each that nodes are labelled for."""
    settings = cluster.settings
    labelled = {
        labels_of(node)[names.POOL] for node in cluster.nodes if names.POOL in labels_of(node)
    }
    places = {name: PoolPlace() for name in sorted(labelled)} | settings.pools
    for name, place in places.items():
        selector = place.selector or {names.POOL: name}
        nodes = [node for node in cluster.nodes if selector.items() <= labels_of(node).items()]
        if nodes:
            yield _devices(name, place, nodes)
            yield from _taints(name, settings, nodes)
            continue
        words = " ".join(f"{key}={value}" for key, value in selector.items())
        change = f"kubectl label node NODE {words}.{_HOLDS_BACK}"
        text = f"no node has {words}"
        yield Finding(check=f"pool {name}", level=PROBLEM, found=text, change=change)
    if not places:
        change = f"kubectl label node NODE {names.POOL}=POOL.{_HOLDS_BACK}"
        text = f"no node has the label {names.POOL}, and the values (jobs.pools) name no other"
        yield Finding(check="pools", level=PROBLEM, found=text, change=change)


def _devices(name: str, place: PoolPlace, nodes: list[Document]) -> Finding:
    check = f"pool {name}"
    offered = {name_of(node): _count(node, place.gpu_resource) for node in nodes}
    total, none = sum(offered.values()), sorted(name for name, n in offered.items() if not n)
    text = f"{len(nodes)} node(s), {total} {place.gpu_resource}"
    if place.provider == "dra" or not none:
        return Finding(check=check, level=OK, found=text)
    if not total:
        change = (
            f"A pool of processors needs none. Else NVIDIA's device plugin does not run there, or"
            f" offers another resource than {place.gpu_resource} (jobs.pools.{name}.gpu_resource)."
        )
        return Finding(check=check, level=ADVICE, found=text, change=change)
    listed = ", ".join(none)
    change = f"Look at the device plugin's pod and the driver on {listed}."
    return Finding(check=check, level=PROBLEM, found=f"{text}; none on {listed}", change=change)


def _count(node: Document, resource: str) -> int:
    return int(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def _taints(pool: str, settings: KubernetesSettings, nodes: list[Document]) -> Iterator[Finding]:
    check, open_to_all = f"taints of pool {pool}", []
    for node in nodes:
        taints = (node.get("spec") or {}).get("taints") or ()
        closed = [one for one in taints if one["effect"] in _KEEPS_AWAY]
        if not any(_is_ours(one, pool) for one in closed):
            open_to_all.append(name_of(node))
        for taint in closed:
            if _is_ours(taint, pool) or taint["key"].startswith(_PASSING):
                continue
            if not any(_tolerates(one, taint) for one in settings.pod.tolerations):
                yield _unknown(check, name_of(node), taint)
    if open_to_all:
        listed = ", ".join(open_to_all)
        yield Finding(
            check=check,
            level=ADVICE,
            found=f"pods of others may run on {listed}",
            change=f"kubectl taint node NODE {names.POOL}={pool}:NoSchedule",
        )
        return
    yield Finding(check=check, level=OK, found="only what is meant for the pool runs there")


def _unknown(check: str, node: str, taint: Document) -> Finding:
    words = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return Finding(
        check=check,
        level=PROBLEM,
        found=f"{node} has {words}, which pods of jobs do not tolerate",
        change="Take it off the node, or add a toleration to jobs.pod.tolerations and to the hub's"
        " singleuser.extraTolerations.",
    )


def _is_ours(taint: Document, pool: str) -> bool:
    return taint["key"] == names.POOL and taint.get("value") == pool


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key = toleration.get("key", "")
    if toleration.get("operator") == "Exists":
        return key in ("", taint["key"])
    return bool(key == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
