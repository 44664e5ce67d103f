"""The few requests that the operator makes beside its framework's: labels, lists, statuses.

Blocking; called in threads. Every verb used here or by the framework is in the chart's role.
"""

from __future__ import annotations

from typing import Any, Protocol

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from gpucommons.scheduler.operator.objects import GROUP, JOBS, TEAM_LABEL, TEAMS, VERSION, ObjectRef

_NOT_FOUND = 404
_PAGE = 500
_TIMEOUT_S = 30


class Objects(Protocol):
    """Reading and marking objects."""

    def team_of(self, namespace: str) -> str | None:
        """The team that a namespace belongs to."""
        ...

    def jobs(self) -> list[dict[str, Any]]:
        """Every TrainingJob there is."""
        ...

    def write_status(self, ref: ObjectRef, status: dict[str, Any]) -> None:
        """Merge into a TrainingJob's status; one that is gone needs none."""
        ...


def api_client() -> client.ApiClient:
    """As the pod's account where there is one, else as the kubeconfig says."""
    try:
        config.load_incluster_config()  # type: ignore[no-untyped-call] # the library says no types
    except config.ConfigException:
        config.load_kube_config()  # type: ignore[no-untyped-call] # as above
    return client.ApiClient()


def refusal(status: int, message: str) -> ApiException:
    """What :class:`Objects` raise where another client than this one was refused."""
    return ApiException(status=status, reason=message)


class KubernetesObjects:
    """See :class:`Objects`."""

    def __init__(self, api: client.ApiClient) -> None:
        self._core = client.CoreV1Api(api)
        self._custom = client.CustomObjectsApi(api)

    def team_of(self, namespace: str) -> str | None:
        """See :class:`Objects`."""
        found = self._core.read_namespace(namespace, _request_timeout=_TIMEOUT_S)
        labels = None if found.metadata is None else found.metadata.labels
        return (labels or {}).get(TEAM_LABEL)

    def jobs(self) -> list[dict[str, Any]]:
        """See :class:`Objects`."""
        return self._all(JOBS)

    def release(self, finalizer: str) -> int:
        """Take our finalizer off every object, so that they can be deleted without an operator."""
        held = 0
        for plural in (JOBS, TEAMS):
            for body in self._all_left(plural):
                meta = body["metadata"]
                finalizers = meta.get("finalizers", [])
                if finalizer not in finalizers:
                    continue
                left = [one for one in finalizers if one != finalizer]
                self._patch(plural, meta, {"metadata": {"finalizers": left}})
                held += 1
        return held

    def _all_left(self, plural: str) -> list[dict[str, Any]]:
        try:
            return self._all(plural)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise
            return []  # the kind itself is gone, and all of it

    def _all(self, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page: Any = self._custom.list_cluster_custom_object(
                GROUP, VERSION, plural, limit=_PAGE, _continue=after, _request_timeout=_TIMEOUT_S
            )
            found.extend(page["items"])
            after = page["metadata"].get("continue", "")
            if not after:
                return found

    def _patch(self, plural: str, meta: dict[str, Any], body: dict[str, Any]) -> None:
        where = (GROUP, VERSION)
        try:
            if "namespace" in meta:
                self._custom.patch_namespaced_custom_object(
                    *where, meta["namespace"], plural, meta["name"], body
                )
            else:
                self._custom.patch_cluster_custom_object(*where, plural, meta["name"], body)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise

    def write_status(self, ref: ObjectRef, status: dict[str, Any]) -> None:
        """See :class:`Objects`."""
        # The uid makes the server refuse a newer object of the same name.
        body = {"metadata": {"uid": ref.uid}, "status": status}
        try:
            self._custom.patch_namespaced_custom_object_status(
                GROUP, VERSION, ref.namespace, JOBS, ref.name, body, _request_timeout=_TIMEOUT_S
            )
        except ApiException as error:
            if error.status not in (_NOT_FOUND, 409):
                raise
