"""Keeps as many placeholder pods in the cluster as nodes are missing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    Connection,
    create_once,
    delete_at_once,
)
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.cluster_state.asking_for_nodes import (
    AskingForNodes,
    owner,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import (
    PlaceholderSeen,
    due,
    placeholder_pod,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings


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
        what = "placeholder pod that an autoscaler would see"
        self._asking = AskingForNodes(settings, around, view, "placeholder", what)

    def sentences(self) -> Mapping[str, str]:
        """What an admin is told, by pool."""
        return self._asking.sentences()

    def refused(self) -> Mapping[PoolName, str]:
        """Why no node can be asked for, by pool."""
        return self._asking.refused

    def beat(self) -> None:
        """Order what is missing, and remove what nothing needs."""
        wanted = self._asking.wanted()
        if wanted is None:
            return
        found = due(wanted, self._view.placeholders.values(), self._around.takes_work)
        for pool, number in found.make:
            self._make(pool, number)
        for pod in found.remove:
            self._remove(pod)

    def _make(self, name: PoolName, number: int) -> None:
        growing = self._asking.growing(name)
        if growing is None:
            return
        pool, growth = growing
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods"

        def work() -> None:
            whose = owner(self._connection, self._settings)
            body = placeholder_pod(pool, growth, number, self._settings, owner=whose)
            create_once(self._connection, path, body)

        self._orders.give(("bring", name, number), work, partial(self._asking.told, name))

    def _remove(self, pod: PlaceholderSeen) -> None:
        path = f"/api/v1/namespaces/{self._settings.system_namespace}/pods/{pod.name}"
        work = partial(delete_at_once, self._connection, path, pod.uid)
        self._orders.give(("no placeholder", pod.uid), work, lambda _error: None)
