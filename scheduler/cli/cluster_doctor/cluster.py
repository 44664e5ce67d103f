"""What is asked of the API server, and how a line is made of an answer that does not come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from gpucommons.gpu.doctor.diagnosis import ADVICE, PROBLEM, Finding
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.executors.kubernetes.api_server.connection import NOT_FOUND, ApiError
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings
from gpucommons.scheduler.models.text.yaml_errors import read_model

Document = dict[str, Any]
_FORBIDDEN = (401, 403)
SCHEDULER = "gpucommons-scheduler"


class Server(Protocol):
    """An API server; :class:`.connection.Connection`."""

    def get(self, path: str, **query: str | int) -> Document:
        """Read one object or list."""
        ...

    def post(self, path: str, body: Document) -> Document:
        """Create an object."""
        ...

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, headers: Mapping[str, str]
    ) -> Document:
        """Read one document from what answers HTTP in a pod."""
        ...


@dataclass(frozen=True)
class Cluster:
    """The cluster of one release of ours."""

    server: Server
    #: Where the release is.
    namespace: str
    #: Seconds since 1970, by this machine.
    now_s: float

    @cached_property
    def settings(self) -> KubernetesSettings:
        """What the chart has told the scheduler of this cluster.

        Raises
        ------
        BadRequest
            When there is no release there, or nothing that can be read.
        """
        found = self.find(f"/api/v1/namespaces/{self.namespace}/configmaps/{SCHEDULER}")
        if found is None:
            message = (
                f"There is no release of GPU Commons in the namespace {self.namespace}: name its own"
                " with --namespace."
            )
            raise BadRequest(message)
        text = (found.get("data") or {}).get("kubernetes.yaml", "")
        try:
            return read_model(KubernetesSettings, text, empty={})
        except BadRequest as error:
            message = f"The ConfigMap {SCHEDULER} describes no cluster: {error}"
            raise BadRequest(message) from None

    @cached_property
    def hub_namespace(self) -> str:
        """Where hub and notebooks are."""
        return self.settings.hub_namespace or self.namespace

    @cached_property
    def nodes(self) -> tuple[Document, ...]:
        """All nodes."""
        return self.items("/api/v1/nodes")

    def items(self, path: str, **query: str | int) -> tuple[Document, ...]:
        """A list."""
        return tuple(self.server.get(path, **query).get("items") or ())

    def find(self, path: str) -> Document | None:
        """One object; None where there is none."""
        try:
            return self.server.get(path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise


Check = Callable[[Cluster], Iterator[Finding]]


def look(checks: Mapping[str, Check], cluster: Cluster) -> tuple[Finding, ...]:
    """Every check's lines; one that could not look has a line that says so."""
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found += check(cluster)
        except ApiError as error:
            found.append(_unseen(name, error))
        except BadRequest as error:
            found.append(Finding(check=name, level=PROBLEM, found=f"not seen: {error}"))
            break  # without a release there is nothing more to look at
    return tuple(found)


def _unseen(name: str, error: ApiError) -> Finding:
    if error.status in _FORBIDDEN:
        change = "Look as somebody who may: --as and other rights are your kubeconfig's."
        return Finding(check=name, level=ADVICE, found=f"not seen: {error.message}", change=change)
    change = "Try again; `kubectl get --raw /readyz` says what the API server lacks."
    return Finding(check=name, level=PROBLEM, found=f"not seen: {error.message}", change=change)


def labels_of(document: Document) -> Mapping[str, str]:
    """Its labels."""
    return (document.get("metadata") or {}).get("labels") or {}


def name_of(document: Document) -> str:
    """Its name."""
    return str(document["metadata"]["name"])
