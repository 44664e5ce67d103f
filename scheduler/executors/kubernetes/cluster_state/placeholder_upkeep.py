"""Keeps as many placeholder pods in the cluster as nodes are missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    NOT_FOUND,
    UNPROCESSABLE,
    ApiError,
    Connection,
    create_once,
    delete_at_once,
)
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import is_refusal
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import (
    Document,
    PlaceholderSeen,
    due,
    owner_of,
    placeholder_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


class OwnerUnknownError(ApiError):
    """The owner of placeholder pods is not there, or not shown: somebody must mend that."""


def owner(connection: Connection, settings: KubernetesSettings) -> Document | None:
    """Whose an object is that asks for a node; None: nobody's.

    Asked each time: another Deployment of the same name is another owner.
    """
    name, namespace = settings.placeholder_owner, settings.system_namespace
    if name is None:
        return None
    try:
        found = connection.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    except ApiError as error:
        if error.try_again:
            raise
        message = (
            f"placeholder_owner names the Deployment {name}, which the cluster does not show in"
            f" namespace {namespace}: {error.message}"
        )
        # Not its own status: what is not found rests no time before it is asked for again.
        raise OwnerUnknownError(UNPROCESSABLE, "OwnerUnknown", message) from None
    return owner_of(found)


class Placeholders:
    """Used with the lock of the view held."""

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesSettings,
        around: Around,
        view: ClusterView,
        orders: Orders,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._around = around
        self._view = view
        self._orders = orders
        #: What an admin is told of pools for which the cluster takes no placeholder.
        self._refused: dict[PoolName, str] = {}

    def sentences(self) -> Mapping[str, str]:
        """What an admin is told, by pool."""
        return {f"pools/{pool}": said for pool, said in self._refused.items()}

    def beat(self) -> None:
        """Order what is missing, and remove what nothing needs."""
        missing = self._around.missing_nodes()
        if missing is None:
            return
        wanted = {
            pool: nodes
            for pool, nodes in missing.items()
            if self._settings.place_of(pool).scale_up == "placeholder"
        }
        there = self._view.placeholders.values()
        if not wanted and not there and not self._refused:
            return
        self._refused = {pool: said for pool, said in self._refused.items() if pool in wanted}
        found = due(wanted, there, self._around.takes_work)
        for pool, number in found.make:
            self._make(pool, number)
        for pod in found.remove:
            self._remove(pod)

    def _make(self, name: PoolName, number: int) -> None:
        pool = next((one for one in self._around.pools() if one.name == name), None)
        if pool is None or pool.growth is None:
            return
        growth = pool.growth
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods"

        def work() -> None:
            whose = owner(self._connection, self._settings)
            body = placeholder_pod(pool, growth, number, self._settings, owner=whose)
            create_once(self._connection, path, body)

        self._orders.give(("bring", name, number), work, partial(self._told, name))

    def _told(self, pool: PoolName, error: ApiError | None) -> None:
        with self._view.lock:
            if error is None:
                self._refused.pop(pool, None)
            elif is_refusal(error) or error.status == NOT_FOUND:
                of_pod = "the cluster refuses the placeholder pod that an autoscaler would see: "
                why = "" if isinstance(error, OwnerUnknownError) else of_pod
                self._refused[pool] = (
                    f"No node can be asked for in pool {pool}, as {why}{error.message}"
                )

    def _remove(self, pod: PlaceholderSeen) -> None:
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods/{pod.name}"
        work = partial(delete_at_once, self._connection, path, pod.uid)
        self._orders.give(("no placeholder", pod.uid), work, lambda _error: None)
