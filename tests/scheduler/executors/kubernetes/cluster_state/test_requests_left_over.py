"""ProvisioningRequests of pools that ask by placeholder pods now: an autoscaler would go on serving them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.api_server.connection import NOT_FOUND, ApiError
from gpucommons.scheduler.executors.kubernetes.cluster_state.cluster_view import ClusterView, Hears
from gpucommons.scheduler.executors.kubernetes.cluster_state.provisioning_upkeep import Provisioning
from gpucommons.scheduler.executors.kubernetes.cluster_state.scheduler_callbacks import Around
from gpucommons.scheduler.executors.kubernetes.nodes.provisioning_requests import (
    API,
    provisioning_request,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

SETTINGS = KubernetesSettings(instance="lab")
GROWTH = Growth(max_nodes=3, gpus=8, cpu_milli=90_500, memory_mib=700_000, boot_ms=240_000)
POOL = Pool(name=PoolName("cloud"), executor="kubernetes", gpu_kind="A100-40", growth=GROWTH)
REQUESTS = f"{API}/namespaces/gpucommons/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/gpucommons/podtemplates"


class Cluster:
    """Shows and deletes what an earlier scheduler left, or answers with an error; carries orders out at once."""

    def __init__(self) -> None:
        self.error: ApiError | None = None
        self.asked = 0
        self.left: dict[str, str] = {}
        self.items: list[dict[str, Any]] = []
        for number in (1, 2):
            request = provisioning_request(POOL, number, SETTINGS)
            name = request["metadata"]["name"]
            request["metadata"]["uid"] = f"u{number}"
            self.items.append(request)
            self.left |= {f"{REQUESTS}/{name}": f"u{number}", f"{TEMPLATES}/{name}": ""}
        hears = Hears(
            changed=lambda _id: None, warned=lambda _id, _why: None, nodes_changed=lambda: None
        )
        itself = cast("Any", self)
        view = ClusterView(itself, SETTINGS, threading.RLock(), hears)
        # What nodes are missing is not known yet: no pool's request is needed whatever that says.
        around = Around(missing_nodes=lambda: None)
        self.provisioning = Provisioning(itself, SETTINGS, around, view, itself)

    def give(
        self, _key: object, work: Callable[[], None], told: Callable[[ApiError | None], None]
    ) -> None:
        try:
            work()
        except ApiError as error:
            told(error)
        else:
            told(None)

    def get(self, path: str, **query: str) -> Mapping[str, Any]:
        assert (path, query) == (REQUESTS, {"labelSelector": "app.kubernetes.io/instance=lab"})
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {"items": self.items}

    def delete(self, path: str, options: Mapping[str, Any] | None) -> None:
        uid = self.left.pop(path, None)
        if uid is None:
            raise ApiError(NOT_FOUND, "NotFound", f"{path} not found")
        assert not uid or options == {"preconditions": {"uid": uid}}


def test_requests_and_their_templates_are_removed_once() -> None:
    cluster = Cluster()
    # Somebody else removed one of them in the meantime.
    del cluster.left[f"{REQUESTS}/gc-request-cloud-1"]
    cluster.provisioning.beat()
    assert cluster.left == {}
    cluster.provisioning.beat()
    assert cluster.asked == 1


def test_a_request_that_is_named_otherwise_is_none_of_ours() -> None:
    cluster = Cluster()
    cluster.items[0]["metadata"]["name"] = "kueue-1"
    cluster.provisioning.beat()
    assert f"{REQUESTS}/gc-request-cloud-1" in cluster.left
    assert f"{REQUESTS}/gc-request-cloud-2" not in cluster.left


@pytest.mark.parametrize("status", [NOT_FOUND, 403])
def test_a_cluster_without_such_requests_or_rights_is_asked_once(status: int) -> None:
    cluster = Cluster()
    cluster.error = ApiError(status, "Refused", "the server says no")
    cluster.provisioning.beat()
    cluster.provisioning.beat()
    assert cluster.asked == 1
    assert cluster.provisioning.sentences() == {}


def test_an_api_server_that_is_away_is_asked_again() -> None:
    cluster = Cluster()
    cluster.error = ApiError(503, "Unavailable", "it is away")
    cluster.provisioning.beat()
    assert len(cluster.left) == 4
    cluster.error = None
    cluster.provisioning.beat()
    assert cluster.left == {}
