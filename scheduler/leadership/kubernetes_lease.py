"""The lease as an object of Kubernetes: ``coordination.k8s.io/v1``, one for all replicas.

The API server refuses an update of a version that is no longer the newest; that is all that makes
one of two candidates lose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from gpucommons.scheduler.errors import BadRequest, Conflict, Unavailable
from gpucommons.scheduler.leadership.election import Lease

_NOT_FOUND, _CONFLICT = 404, 409
#: To connect, to answer: a try must be over well before the lease is.
_TIMEOUT_S = (1.0, 2.0)


def open_lease(place: str, api: client.ApiClient | None = None) -> KubernetesLease:
    """The lease ``NAMESPACE/NAME``, as whoever this process is in its cluster.

    Raises
    ------
    BadRequest
        When that is no place, or there is no cluster around.
    """
    namespace, _, name = place.partition("/")
    if not namespace or not name or "/" in name:
        message = f"{place!r} names no lease: write NAMESPACE/NAME."
        raise BadRequest(message)
    if api is None:
        api = _connect()
    return KubernetesLease(client.CoordinationV1Api(api), namespace, name)


def _connect() -> client.ApiClient:
    """As our service account in a pod, else as a kubeconfig says."""
    found = client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(  # type: ignore[no-untyped-call] # the library's
                client_configuration=found
            )
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call] # the library's
                client_configuration=found, persist_config=False
            )
    except config.ConfigException as error:
        message = f"Leader election needs a Kubernetes API: {error}"
        raise BadRequest(message) from None
    # The next try is a second away, and knows the time; the library's own would outlast the lease.
    found.retries = False
    return client.ApiClient(found)


class KubernetesLease:
    """See :class:`gpucommons.scheduler.leadership.election.LeaseLock`."""

    def __init__(self, api: client.CoordinationV1Api, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name

    def get(self) -> tuple[Lease, str] | None:
        """Read it."""
        try:
            with _answering():
                found = self._api.read_namespaced_lease(
                    self._name, self._namespace, _request_timeout=_TIMEOUT_S
                )
        except ApiException:
            return None
        return _lease(found.spec), _version(found)

    def create(self, lease: Lease) -> str:
        """Make it."""
        body = client.V1Lease(
            metadata=client.V1ObjectMeta(name=self._name, namespace=self._namespace),
            spec=_spec(lease),
        )
        with _answering():
            made = self._api.create_namespaced_lease(
                self._namespace, body, _request_timeout=_TIMEOUT_S
            )
        return _version(made)

    def update(self, lease: Lease, version: str) -> str:
        """Replace the version that was read."""
        body = client.V1Lease(
            metadata=client.V1ObjectMeta(
                name=self._name, namespace=self._namespace, resource_version=version
            ),
            spec=_spec(lease),
        )
        try:
            with _answering():
                made = self._api.replace_namespaced_lease(
                    self._name, self._namespace, body, _request_timeout=_TIMEOUT_S
                )
        except ApiException:
            # Deleted meanwhile.
            raise Conflict from None
        return _version(made)


def _version(found: client.V1Lease) -> str:
    assert found.metadata is not None  # noqa: S101 - every object that was read has it
    return str(found.metadata.resource_version)


def _lease(spec: client.V1LeaseSpec | None) -> Lease:
    """What anybody may have written there."""
    if spec is None:
        return Lease(holder="", lease_s=0)
    return Lease(
        holder=spec.holder_identity or "",
        lease_s=float(spec.lease_duration_seconds or 0),
        transitions=spec.lease_transitions or 0,
        acquired_ms=_as_ms(spec.acquire_time),
        renewed_ms=_as_ms(spec.renew_time),
    )


def _spec(lease: Lease) -> client.V1LeaseSpec:
    return client.V1LeaseSpec(
        holder_identity=lease.holder,
        lease_duration_seconds=max(1, round(lease.lease_s)),
        lease_transitions=lease.transitions,
        acquire_time=_micro_time(lease.acquired_ms),
        renew_time=_micro_time(lease.renewed_ms),
    )


def _micro_time(at_ms: int) -> datetime:
    """Never a whole second: the client writes those without the digits that the server demands."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return at.replace(microsecond=at_ms % 1000 * 1000 + 1)


def _as_ms(at: datetime | None) -> int:
    return 0 if at is None else round(at.timestamp() * 1000)


@contextmanager
def _answering() -> Iterator[None]:
    """What is not there is left to the caller; whoever was quicker is a conflict."""
    try:
        yield
    except ApiException as error:
        if error.status == _NOT_FOUND:
            raise
        if error.status == _CONFLICT:
            raise Conflict from None
        message = f"the Kubernetes API answers {error.status} {error.reason}"
        raise Unavailable(message) from None
    except (HTTPError, OSError) as error:
        message = f"the Kubernetes API does not answer ({type(error).__name__})"
        raise Unavailable(message) from None
