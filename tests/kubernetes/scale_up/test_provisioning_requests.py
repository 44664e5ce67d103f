"""Nodes asked for by ProvisioningRequests, on a real API server; the test plays the cluster autoscaler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.core.model.resources import Growth
from tests.kubernetes.api import wait_for
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.scale_up.provisioning_request_crd import (
    GROUP,
    PLURAL,
    PROVISIONING_REQUEST,
)

GROWTH = Growth(max_nodes=2, gpus=4, cpu_milli=60_000, memory_mib=400_000, boot_ms=60_000)


@pytest.fixture
def known(api: client.ApiClient) -> Iterator[None]:
    """The cluster knows such requests."""
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(PROVISIONING_REQUEST)
    name = f"{PLURAL}.{GROUP}"

    def established() -> bool:
        status = extensions.read_custom_resource_definition(name).status
        found = {one.type: one.status for one in status.conditions or ()}
        return found.get("Established") == "True"

    wait_for(established, "the definition of ProvisioningRequest")
    yield
    extensions.delete_custom_resource_definition(name)
    field = f"metadata.name={name}"
    wait_for(
        lambda: not extensions.list_custom_resource_definition(field_selector=field).items,
        "the definition is gone",
    )


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, restricted_namespace: str) -> Iterator[Asking]:
    made = Asking(api, kubeconfig, restricted_namespace, vanished_hold_s=1)
    yield made
    made.close()


class Asking(Jobs):
    """Its pool asks by ProvisioningRequests."""

    def __init__(
        self, api: client.ApiClient, kubeconfig: Path, namespace: str, **settings: Any
    ) -> None:
        super().__init__(api, kubeconfig, namespace, **settings)
        self.objects = client.CustomObjectsApi(api)
        self.pool = replace(self.pool, growth=GROWTH)
        place = self.settings.place_of(self.pool.name)
        asks = place.model_copy(update={"scale_up": "provisioning-request"})
        self.settings = self.settings.model_copy(update={"pools": {self.pool.name: asks}})
        self.restart()

    def requests(self) -> Sequence[dict[str, Any]]:
        found = self.objects.list_namespaced_custom_object(GROUP, "v1", self.namespace, PLURAL)
        items: Sequence[dict[str, Any]] = found["items"]
        return items

    def answer(self, name: str, kind: str, message: str, *, at: str = "") -> None:
        """What a cluster autoscaler writes."""
        at = at or datetime.now(UTC).isoformat(timespec="seconds")
        condition = {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": message,
            "lastTransitionTime": at,
        }
        body = {"status": {"conditions": [condition]}}
        self.objects.patch_namespaced_custom_object_status(
            GROUP, "v1", self.namespace, PLURAL, name, body
        )

    def said(self) -> str:
        return self.executor.scale_up().get(self.pool.name, "")


@pytest.mark.usefixtures("known")
def test_requests_are_made_answered_in_words_and_taken_back(jobs: Asking) -> None:
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 2}
    wait_for(lambda: len(jobs.requests()) == 2, "two requests")
    templates = jobs.core.list_namespaced_pod_template(jobs.namespace).items
    first, second = sorted(one["metadata"]["name"] for one in jobs.requests())
    assert {one.metadata.name for one in templates} == {first, second}
    assert jobs.core.list_namespaced_pod(jobs.namespace).items == []
    wait_for(lambda: "not taken up" in jobs.said(), "that nobody took them up")
    for name in (first, second):
        jobs.answer(name, "Accepted", "taken up")
    wait_for(lambda: jobs.said() == "The cluster's autoscaler works on it.", "that it works")

    jobs.answer(first, "Provisioned", "there")
    jobs.missing = {jobs.pool.name: 1}
    wait_for(
        lambda: [one["metadata"]["name"] for one in jobs.requests()] == [second],
        "the request whose node came is gone",
    )
    jobs.restart()
    jobs.executor.nodes()
    jobs.missing = {}
    wait_for(lambda: not jobs.requests(), "none, after a restart too")
    wait_for(
        lambda: not jobs.core.list_namespaced_pod_template(jobs.namespace).items, "no template"
    )


@pytest.mark.usefixtures("known")
def test_what_an_autoscaler_cannot_bring_is_said_and_asked_for_again(jobs: Asking) -> None:
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 1}
    wait_for(lambda: len(jobs.requests()) == 1, "a request")
    (before,) = jobs.requests()
    jobs.answer(before["metadata"]["name"], "BookingExpired", "over")
    wait_for(
        lambda: (
            [one["metadata"]["uid"] for one in jobs.requests()]
            not in ([], [before["metadata"]["uid"]])
        ),
        "another request",
    )
    (again,) = jobs.requests()
    name = again["metadata"]["name"]
    jobs.answer(name, "Failed", "no A100 in zone b")
    wait_for(lambda: jobs.said().endswith("for now: no A100 in zone b."), "why none comes")
    # As if it were long ago.
    jobs.answer(name, "Failed", "no A100 in zone b", at="2026-01-01T00:00:00Z")
    wait_for(
        lambda: (
            [one["metadata"]["uid"] for one in jobs.requests()]
            not in ([], [again["metadata"]["uid"]])
        ),
        "a third one",
    )


@pytest.mark.usefixtures("known")
def test_once_no_pool_asks_by_requests_what_is_left_of_them_goes(jobs: Asking) -> None:
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 1}
    wait_for(lambda: len(jobs.requests()) == 1, "a request")
    place = jobs.settings.place_of(jobs.pool.name)
    back = place.model_copy(update={"scale_up": "placeholder"})
    jobs.settings = jobs.settings.model_copy(update={"pools": {jobs.pool.name: back}})
    jobs.missing = {}
    jobs.restart()
    jobs.executor.nodes()
    wait_for(lambda: not jobs.requests(), "no request")
    wait_for(
        lambda: not jobs.core.list_namespaced_pod_template(jobs.namespace).items, "no template"
    )


def test_a_cluster_without_such_requests_works_on_and_an_admin_reads_why(jobs: Asking) -> None:
    assert jobs.executor.nodes() == ()
    jobs.missing = {jobs.pool.name: 1}
    about = f"pools/{jobs.pool.name}"
    wait_for(
        lambda: "knows no ProvisioningRequest" in jobs.executor.troubles().get(about, ""),
        "why no node can be asked for",
        seconds=60,
    )
