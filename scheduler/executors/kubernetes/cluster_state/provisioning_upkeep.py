"""Keeps as many ProvisioningRequests in the cluster as nodes are missing, in pools that chose so.

Where none chooses so any more, what is left is removed once after each start: an autoscaler would go on
serving it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import (
    NOT_FOUND,
    ApiError,
    Connection,
    create_once,
)
from gpucommons.scheduler.executors.kubernetes.api_server.orders import Orders
from gpucommons.scheduler.executors.kubernetes.cluster_state.asking_for_nodes import (
    AskingForNodes,
    owner,
)
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.provisioning_requests import (
    API,
    RequestSeen,
    due_requests,
    in_words,
    pod_template,
    provisioning_request,
    read_request,
    request_name,
)
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

#: A list of them takes no longer where the cluster knows such objects.
_UNKNOWN_AFTER_S = 15.0
_UNKNOWN = (
    "No node can be asked for in pool {}: this cluster knows no ProvisioningRequest of"
    " autoscaling.x-k8s.io/v1, or we may not read them. Install its definition (the cluster autoscaler"
    " brings it along), or set scale_up: placeholder for the pool."
)


class Provisioning:
    """Used with the lock of the view held."""

    def __init__(  # noqa: PLR0913 - each is another part's
        self,
        connection: Connection,
        settings: KubernetesSettings,
        around: Around,
        view: ClusterView,
        orders: Orders,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._view = view
        self._orders = orders
        self._now_s = now_s
        #: Since when requests would be needed and cannot be read.
        self._blind_since_s: float | None = None
        self._asking = AskingForNodes(
            settings, around, view, "provisioning-request", "ProvisioningRequest"
        )
        #: Where no pool asks by requests: whether there is none left.
        self._is_cleared = False

    def sentences(self) -> Mapping[str, str]:
        """What an admin is told, by pool."""
        return self._asking.sentences()

    def refused(self) -> Mapping[PoolName, str]:
        """Why no node can be asked for, by pool."""
        return self._asking.refused

    def said(self) -> Mapping[PoolName, str]:
        """What the autoscaler says of the nodes that are asked for, by pool."""
        return in_words(one for one in self._view.requests.values() if not one.leaving)

    def beat(self) -> None:
        """Order what is missing, and remove what nothing needs."""
        if not self._settings.provisions:
            self._clear()
            return
        wanted = self._asking.wanted()
        if wanted is None:
            return
        if not self._view.knows_requests:
            self._say_that_none_are_known(wanted)
            return
        self._blind_since_s = None
        found = due_requests(wanted, self._view.requests.values(), self._now_s())
        for pool, number in found.make:
            self._make(pool, number)
        for request in found.remove:
            self._remove(request)

    def _clear(self) -> None:
        """Remove ProvisioningRequests of pools that ask for nodes otherwise by now.

        Most clusters know no such objects.
        """
        if self._is_cleared:
            return

        def work() -> None:
            ours = f"{names.INSTANCE}={self._settings.instance}"
            try:
                found = self._connection.get(self._path("provisioningrequests"), labelSelector=ours)
            except ApiError as error:
                if error.status != NOT_FOUND:
                    raise
                return
            for request in filter(None, map(read_request, found["items"])):
                self._delete_both(request)

        def told(error: ApiError | None) -> None:
            # What we may not do is tried again at the next start.
            self._is_cleared = error is None or not error.try_again

        self._orders.give("no requests", work, told)

    def _say_that_none_are_known(self, wanted: Mapping[PoolName, int]) -> None:
        now_s = self._now_s()
        if self._blind_since_s is None:
            self._blind_since_s = now_s
        if now_s - self._blind_since_s >= _UNKNOWN_AFTER_S:
            self._asking.refused = {pool: _UNKNOWN.format(pool) for pool in wanted}

    def _make(self, name: PoolName, number: int) -> None:
        growing = self._asking.growing(name)
        if growing is None:
            return
        (pool, growth), settings = growing, self._settings

        def work() -> None:
            whose = owner(self._connection, settings)
            # What is left of an earlier one may ask for another size.
            self._delete(self._path("podtemplates", request_name(name, number)))
            self._connection.post(
                self._path("podtemplates"),
                pod_template(pool, growth, number, settings, owner=whose),
            )
            request = provisioning_request(pool, number, settings, owner=whose)
            create_once(self._connection, self._path("provisioningrequests"), request)

        self._orders.give(("request", name, number), work, partial(self._asking.told, name))

    def _path(self, resource: str, name: str = "") -> str:
        api = "/api/v1" if resource == "podtemplates" else API
        path = f"{api}/namespaces/{self._settings.system_namespace}/{resource}"
        return f"{path}/{name}" if name else path

    def _remove(self, request: RequestSeen) -> None:
        key = ("no request", request.uid)
        self._orders.give(key, partial(self._delete_both, request), lambda _error: None)

    def _delete_both(self, request: RequestSeen) -> None:
        """A request and the template that it names."""
        self._delete(self._path("provisioningrequests", request.name), uid=request.uid)
        self._delete(self._path("podtemplates", request.name))

    def _delete(self, path: str, *, uid: str | None = None) -> None:
        try:
            self._connection.delete(path, None if uid is None else {"preconditions": {"uid": uid}})
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
