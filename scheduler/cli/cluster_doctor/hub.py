"""The hub beside us: whether it has our tokens, has read them, and gives its servers to our spawner."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime

from gpucommons.gpu.doctor.diagnosis import ADVICE, OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import Cluster, Document
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError

TOKENS = "gpucommons-hub-tokens"
_WIRED = "configure_cluster"
_HUB = {"app": "jupyterhub", "component": "hub"}


def check(cluster: Cluster) -> Iterator[Finding]:
    """From the tokens to the hub's own process."""
    there, pods = cluster.hub_namespace, hub_pods(cluster)
    if not pods:
        change = f"Install Zero to JupyterHub in {there}, or set hub.namespace of our chart."
        text = f"no pod of a hub in {there} ({_selector()})"
        yield Finding(check="hub", level=PROBLEM, found=text, change=change)
        return
    yield from _tokens(cluster, pods[0])
    yield _wired(cluster, pods[0])
    yield _answers(cluster)


def hub_pods(cluster: Cluster) -> list[Document]:
    """Pods of the hub that are not going."""
    path = f"/api/v1/namespaces/{cluster.hub_namespace}/pods"
    return [
        pod
        for pod in cluster.items(path, labelSelector=_selector())
        if not pod["metadata"].get("deletionTimestamp")
    ]


def _selector() -> str:
    return ",".join(f"{key}={value}" for key, value in _HUB.items())


def _tokens(cluster: Cluster, hub: Document) -> Iterator[Finding]:
    ours = cluster.find(f"/api/v1/namespaces/{cluster.namespace}/secrets/{TOKENS}")
    theirs = cluster.find(f"/api/v1/namespaces/{cluster.hub_namespace}/secrets/{TOKENS}")
    check = "hub's tokens"
    if ours is None and theirs is None:
        text = f"no Secret {TOKENS}: fine with hub.tokensSecret of your own"
        yield Finding(check=check, level=ADVICE, found=text)
        return
    if ours is None or theirs is None or ours.get("data") != theirs.get("data"):
        text = f"the Secret {TOKENS} is not the same here and in {cluster.hub_namespace}"
        change = "`helm upgrade` of our chart writes both; then restart the hub."
        yield Finding(check=check, level=PROBLEM, found=text, change=change)
        return
    volumes = (hub.get("spec") or {}).get("volumes") or ()
    if not any((one.get("secret") or {}).get("secretName") == TOKENS for one in volumes):
        text = f"the hub does not mount the Secret {TOKENS}"
        yield Finding(check=check, level=PROBLEM, found=text, change=_INSTALL)
        return
    if _at(theirs["metadata"].get("creationTimestamp")) > _at(hub["status"].get("startTime")):
        change = f"kubectl -n {cluster.hub_namespace} rollout restart deployment/hub"
        text = "the hub started before they were made, and does not know them"
        yield Finding(check=check, level=PROBLEM, found=text, change=change)
        return
    yield Finding(check=check, level=OK, found="the same on both sides, mounted and read")


def _wired(cluster: Cluster, hub: Document) -> Finding:
    """Zero to JupyterHub keeps the values, and so extraConfig, in a Secret that the hub mounts."""
    check, seen = "hub's spawner", ""
    for volume in (hub.get("spec") or {}).get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name and name != TOKENS:
            path = f"/api/v1/namespaces/{cluster.hub_namespace}/secrets/{name}"
            seen += _text((cluster.find(path) or {}).get("data") or {})
    if _WIRED in seen:
        return Finding(check=check, level=OK, found=f"{_WIRED} is in its configuration")
    text = f"{_WIRED} is not in its values: notebooks get no GPU from us"
    return Finding(check=check, level=PROBLEM, found=text, change=_INSTALL)


def _text(data: dict[str, str]) -> str:
    """All of a Secret, in which one word is looked for and nothing kept."""
    found = ""
    for value in data.values():
        try:
            found += base64.b64decode(value).decode(errors="ignore")
        except binascii.Error:
            continue
    return found


def _answers(cluster: Cluster) -> Finding:
    """Through the API server, as `kubectl get --raw` would."""
    check = "scheduler answers"
    path = f"/api/v1/namespaces/{cluster.namespace}/services/gpucommons-api:http/proxy/healthz"
    try:
        cluster.server.get(path)
    except ApiError as error:
        if error.status in (401, 403):
            raise
        change = f"`kubectl -n {cluster.namespace} logs deployment/gpucommons-scheduler` says why."
        text = f"it does not decide: {error.message}"
        return Finding(check=check, level=PROBLEM, found=text, change=change)
    return Finding(check=check, level=OK, found="it decides")


def _at(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


_INSTALL = (
    "`gpucommons install --values` shows what the hub's values need; then upgrade its release."
)
