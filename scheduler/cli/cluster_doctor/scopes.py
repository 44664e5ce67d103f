"""What the tokens of our services may do at the hub: the hub itself is asked, with each of them.

Its pod is reached as ``kubectl port-forward`` does, so the caller must be allowed that, and to read the
Secret. Tokens are shown to the hub alone; no line has one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gpucommons.gpu.doctor.diagnosis import OK, PROBLEM, Finding
from gpucommons.scheduler.cli.cluster_doctor.cluster import SCHEDULER, Cluster, Document, name_of
from gpucommons.scheduler.cli.cluster_doctor.hub import TOKENS, hub_pods
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.models.hub_scopes import (
    CULLER_SERVICE,
    OPERATOR_SERVICE,
    SCOPES_OF_SERVICES,
    SERVICE,
    SPAWNER_SERVICE,
)

#: What Zero to JupyterHub's hub listens on, and where its API is.
_PORT, _API = 8081, "/hub/api"
_TOKEN, _URL = "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_API_URL"
_REFUSED = (401, 403)
_PARTS = {
    SERVICE: SCHEDULER,
    CULLER_SERVICE: "gpucommons-culler",
    OPERATOR_SERVICE: "gpucommons-operator",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    """Of one service, where it lies."""

    service: str
    secret: str
    key: str
    text: str = field(repr=False)


def check(cluster: Cluster) -> Iterator[Finding]:
    """A line for each service whose token is there."""
    pods = hub_pods(cluster)
    if not pods:
        return  # the hub's own line says so
    scheduler = _deployment(cluster, SCHEDULER) or {}
    api = urlsplit(_variables(scheduler).get(_URL, {}).get("value", "")).path or _API
    for token in _tokens(cluster):
        yield _line(cluster, name_of(pods[0]), api, token)


def _line(cluster: Cluster, pod: str, api: str, token: _Token) -> Finding:
    check = f"scopes of {token.service}"
    headers = {"Authorization": f"token {token.text}"}
    try:
        found = cluster.server.ask_pod(cluster.hub_namespace, pod, _PORT, f"{api}/user", headers)
    except ApiError as error:
        # The API server's own refusal has a reason, by which it is told from the hub's.
        if error.status not in _REFUSED or error.reason:
            raise
        text = f"the hub does not take its token ({token.key} in the Secret {token.secret})"
        change = (
            "What the lines `hub's tokens` and `hub's spawner` say comes first. Then"
            f" {_restart(cluster)}: it reads tokens and roles when it starts."
        )
        return Finding(check=check, level=PROBLEM, found=text, change=change)
    name, granted = found.get("name"), frozenset(found.get("scopes") or ())
    if name != token.service:
        text = f"the hub takes its token for that of {name}"
        change = "Two services of the hub's values have one token: give each its own."
        return Finding(check=check, level=PROBLEM, found=text, change=change)
    lacking = [one for one in SCOPES_OF_SERVICES[token.service] if one not in granted]
    if lacking:
        text = f"the hub does not give it {', '.join(lacking)}"
        change = (
            "`configure_cluster` does: look for a role of the same name (load_roles) that comes after"
            f" it in the hub's values, upgrade its release, then {_restart(cluster)}."
        )
        return Finding(check=check, level=PROBLEM, found=text, change=change)
    return Finding(check=check, level=OK, found=", ".join(SCOPES_OF_SERVICES[token.service]))


def _tokens(cluster: Cluster) -> Iterator[_Token]:
    """As the parts themselves are given them; the spawner's is the hub's alone."""
    places = {SPAWNER_SERVICE: (TOKENS, "spawner")}
    for service, part in _PARTS.items():
        variable = _variables(_deployment(cluster, part) or {}).get(_TOKEN, {})
        lies = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if lies:
            places[service] = (lies["name"], lies["key"])
    for service, (secret, key) in sorted(places.items()):
        path = f"/api/v1/namespaces/{cluster.namespace}/secrets/{secret}"
        data = (cluster.find(path) or {}).get("data") or {}
        if text := _decoded(data.get(key, "")):
            yield _Token(service=service, secret=secret, key=key, text=text)


def _deployment(cluster: Cluster, name: str) -> Document | None:
    return cluster.find(f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{name}")


def _variables(deployment: Document) -> Mapping[str, Mapping[str, Any]]:
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or ()
    return {one["name"]: one for container in containers for one in container.get("env") or ()}


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _restart(cluster: Cluster) -> str:
    return f"kubectl -n {cluster.hub_namespace} rollout restart deployment/hub"
