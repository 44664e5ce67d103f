"""What the release stands on: the server's version, clocks, its parts, namespaces, claims."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gpucommons.gpu.doctor.diagnosis import ADVICE, OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import (
    SCHEDULER,
    Cluster,
    Document,
    labels_of,
    name_of,
)

_OLDEST = (1, 33)
_ENFORCE = "pod-security.kubernetes.io/enforce"
_GUARDED = "gpucommons.io/guarded"
#: A kubelet renews its lease every 10 s, and is called lost after 40.
_LATE_S = 40
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_CLAIM = "--storage-claim="


def version(cluster: Cluster) -> Iterator[Finding]:
    """Of the API server."""
    found = cluster.server.get("/version")
    numbers = tuple(int(re.sub(r"\D", "", str(found[name])) or 0) for name in ("major", "minor"))
    text = str(found.get("gitVersion", ""))
    if numbers >= _OLDEST:
        yield Finding(check="Kubernetes", level=OK, found=text)
        return
    change = "The chart needs 1.33 or newer."
    yield Finding(check="Kubernetes", level=PROBLEM, found=text, change=change)


def clocks(cluster: Cluster) -> Iterator[Finding]:
    """Each kubelet writes the time of its own clock into its lease every ten seconds."""
    ready = {name_of(node) for node in cluster.nodes if _is_ready(node)}
    behind = {
        name_of(lease): cluster.now_s - _seconds(lease["spec"]["renewTime"])
        for lease in cluster.items(_LEASES)
        if name_of(lease) in ready and (lease.get("spec") or {}).get("renewTime")
    }
    if not behind:
        yield Finding(check="clocks", level=ADVICE, found="no node that is ready has a lease")
        return
    # Of two this machine says which is right; of more it may be the one that is wrong.
    judges = [0.0] if len(behind) == 2 else []  # noqa: PLR2004 - see above
    usual = statistics.median([*judges, *behind.values()])
    off = {name: found - usual for name, found in behind.items() if abs(found - usual) > _LATE_S}
    for name, found in sorted(off.items()):
        side = "behind" if found > 0 else "ahead of"
        text = f"the clock of {name} is some {abs(found):.0f} s {side} those of the other nodes"
        change = "Times of its logs and reports are wrong: set its clock (chrony, NTP)."
        yield Finding(check="clocks", level=PROBLEM, found=text, change=change)
    if abs(usual) > _LATE_S:
        side = "behind" if usual > 0 else "ahead of"
        text = f"the nodes' clocks are some {abs(usual):.0f} s {side} this machine's"
        change = "One of them is wrong: look at both (chrony, NTP)."
        yield Finding(check="clocks", level=ADVICE, found=text, change=change)
    elif not off:
        text = f"{len(behind)} node(s) and this machine within {_LATE_S} s"
        yield Finding(check="clocks", level=OK, found=text)


def parts(cluster: Cluster) -> Iterator[Finding]:
    """Whether all pods of the chart are there."""
    settings = cluster.settings
    wanted = [(cluster.namespace, "deployments", SCHEDULER)]
    wanted += [
        (cluster.namespace, "deployments", f"gpucommons-{one}") for one in ("culler", "operator")
    ]
    if settings.agents:
        wanted.append((settings.agent_namespace, "daemonsets", settings.agent_service_account))
    for namespace, kind, name in wanted:
        found = cluster.find(f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}")
        if found is None:
            if name in (SCHEDULER, settings.agent_service_account):
                text, change = "not there", "`helm upgrade` makes it again."
                yield Finding(check=name, level=PROBLEM, found=text, change=change)
            continue
        yield _part(namespace, name, found)


def _part(namespace: str, name: str, found: Document) -> Finding:
    status = found.get("status") or {}
    wanted = status.get("desiredNumberScheduled", (found.get("spec") or {}).get("replicas", 1))
    there = status.get("numberAvailable", status.get("availableReplicas")) or 0
    if there >= wanted:
        return Finding(check=name, level=OK, found=f"{there} of {wanted} available")
    change = f"`kubectl -n {namespace} get pods` and `kubectl -n {namespace} get events` say why."
    return Finding(check=name, level=PROBLEM, found=f"{there} of {wanted} available", change=change)


def pod_security(cluster: Cluster) -> Iterator[Finding]:
    """Our agents need the host; all else passes `restricted`, and is guarded."""
    settings = cluster.settings
    if settings.agents:
        yield from _agents_may(cluster, settings.agent_namespace)
    jobs = dict.fromkeys((settings.namespace, *settings.team_namespaces.values()))
    for name in (*jobs, cluster.hub_namespace):
        found = cluster.find(f"/api/v1/namespaces/{name}")
        if found is None:
            change = f"kubectl create namespace {name}"
            yield Finding(check=f"namespace {name}", level=PROBLEM, found="no", change=change)
            continue
        yield _guarded(name, found, restricted=name in jobs)


def _agents_may(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    check = f"namespace {namespace}"
    level = labels_of(cluster.find(f"/api/v1/namespaces/{namespace}") or {}).get(_ENFORCE)
    if level in ("baseline", "restricted"):
        change = f"kubectl label namespace {namespace} {_ENFORCE}=privileged --overwrite"
        text = f"enforces {level}: the agent's pods are refused"
        yield Finding(check=check, level=PROBLEM, found=text, change=change)
        return
    yield Finding(check=check, level=OK, found=f"lets agents at their host ({level or 'no level'})")


def _guarded(name: str, found: Document, *, restricted: bool) -> Finding:
    labels, check = labels_of(found), f"namespace {name}"
    lacking = []
    if labels.get(_GUARDED) != "true":
        lacking.append((f"{_GUARDED}=true", "anybody who makes pods there takes GPUs"))
    if restricted and labels.get(_ENFORCE) != "restricted":
        lacking.append((f"{_ENFORCE}=restricted", "it does not enforce restricted"))
    if not lacking:
        return Finding(check=check, level=OK, found="guarded" + ", restricted" * restricted)
    words = " ".join(label for label, _ in lacking)
    change = f"kubectl label namespace {name} {words} --overwrite"
    text = "; ".join(why for _, why in lacking)
    return Finding(check=check, level=ADVICE, found=text, change=change)


def storage(cluster: Cluster) -> Iterator[Finding]:
    """Claims of the scheduler's state and of jobs' files are bound, and can be shared."""
    made = cluster.find(f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{SCHEDULER}")
    spec: Any = {} if made is None else made["spec"]["template"]["spec"]
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield _bound(cluster, cluster.namespace, claim, shared=volume["name"] == "jobs")
    words = [word for one in spec.get("containers") or () for word in one.get("args") or ()]
    for claim in (word.removeprefix(_CLAIM) for word in words if word.startswith(_CLAIM)):
        settings = cluster.settings
        for namespace in dict.fromkeys((settings.namespace, *settings.team_namespaces.values())):
            yield _bound(cluster, namespace, claim, shared=True)


def _bound(cluster: Cluster, namespace: str, claim: str, *, shared: bool) -> Finding:
    check = f"claim {namespace}/{claim}"
    found = cluster.find(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
    if found is None:
        change = f"Make it in {namespace}, or name another in the chart's values (storage.folder)."
        return Finding(check=check, level=PROBLEM, found="there is none", change=change)
    spec, phase = found["spec"], (found.get("status") or {}).get("phase", "Pending")
    name = spec.get("storageClassName")
    if phase != "Bound":
        return Finding(check=check, level=PROBLEM, found=phase, change=_why_unbound(cluster, name))
    if shared and "ReadWriteMany" not in spec.get("accessModes", ()):
        text = f"bound, but only one node at a time can mount it ({', '.join(spec['accessModes'])})"
        change = "Jobs on other nodes wait for ever: take a class with ReadWriteMany, or a bucket."
        return Finding(check=check, level=PROBLEM, found=text, change=change)
    return Finding(check=check, level=OK, found=f"bound, class {name or 'none'}")


def _why_unbound(cluster: Cluster, name: str | None) -> str:
    classes = cluster.items("/apis/storage.k8s.io/v1/storageclasses")
    known = sorted(name_of(one) for one in classes)
    if name and name not in known:
        return f"There is no storage class {name}; there are: {', '.join(known) or 'none'}."
    if name is None and not any(_is_default(one) for one in classes):
        return "The cluster has no default storage class: name one in the chart's values."
    return "`kubectl describe pvc` says what its class waits for."


def _is_default(found: Document) -> bool:
    annotations = found["metadata"].get("annotations") or {}
    return bool(annotations.get("storageclass.kubernetes.io/is-default-class") == "true")


def _is_ready(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
