"""Claims that our provider writes, allocated by the real kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client

from gpucommons.gpu.providers.cluster.cluster import PodWish
from gpucommons.gpu.providers.cluster.dra import DRIVER
from gpucommons.gpu.providers.cluster.pods import POD_PROVIDERS, foreign_injection
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.scheduler.executors.kubernetes.settings import PoolPlace
from tests.kubernetes.api import wait_for
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.gpu.device_claims import Claims, a_slice, card

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def claims(
    api: client.ApiClient, namespace: str, kwok_nodes: Callable[..., list[str]]
) -> Iterator[Claims]:
    (node,) = kwok_nodes(1, 0)
    claims = Claims(api, namespace, node)
    claims.publish()
    yield claims
    claims.withdraw()


def test_a_share_of_the_device_that_we_chose_is_allocated(claims: Claims) -> None:
    claims.start("one", a_slice("one", 500, card(1)), [card(1)])
    wait_for(lambda: claims.allocated("one"), "the claim is allocated")
    (result,) = claims.allocated("one")
    assert result["device"] == "gpu-1"
    assert result["pool"] == claims.node
    memory = result["consumedCapacity"]["memory"]
    assert memory in (
        f"{share_memory_mib(card(1), 500)}Mi",
        str(share_memory_mib(card(1), 500) << 20),
    )


def test_two_halves_share_a_device_and_a_third_waits_for_room(claims: Claims) -> None:
    for name in ("one", "two"):
        claims.start(name, a_slice(name, 500, card(0)), [card(0)])
        wait_for(lambda name=name: claims.allocated(name), f"{name} is allocated")
    claims.start("three", a_slice("three", 500, card(0)), [card(0)])
    wait_for(lambda: claims.unschedulable("three"), "the third is said not to fit")
    assert claims.allocated("three") == []
    assert {r["device"] for name in ("one", "two") for r in claims.allocated(name)} == {"gpu-0"}


def test_whole_devices_are_each_allocated_by_their_own_request(claims: Claims) -> None:
    both = [card(0), card(1)]
    claims.start("both", a_slice("both", 1000, *both), both)
    wait_for(lambda: claims.allocated("both"), "the claim is allocated")
    assert [r["device"] for r in claims.allocated("both")] == ["gpu-0", "gpu-1"]
    claims.start("late", a_slice("late", 250, card(0)), [card(0)])
    wait_for(lambda: claims.unschedulable("late"), "nothing of a whole device is left")


def test_a_claim_that_is_no_claim_is_refused_by_the_api(
    api: client.ApiClient, namespace: str
) -> None:
    wish = PodWish(container="main", claim="x", device_class="Not A Class")
    (claim,) = foreign_injection(
        POD_PROVIDERS["dra"], a_slice("x", 500, card(0)), [card(0)], wish
    ).pod.objects
    with pytest.raises(client.ApiException) as refused:
        client.CustomObjectsApi(api).create_namespaced_custom_object(
            "resource.k8s.io", "v1", namespace, "resourceclaims", dict(claim)
        )
    assert refused.value.status == 422


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, claims: Claims) -> Iterator[Jobs]:
    """An executor whose pool has its slices from the cluster, on the one node with two cards."""
    made = Jobs(api, kubeconfig, claims.namespace)
    place = PoolPlace(provider="dra", device_class=claims.device_class, shared_memory=True)
    made.settings = made.settings.model_copy(update={"pools": {made.pool.name: place}})
    made.restart()
    made.core.patch_node(
        claims.node, {"metadata": {"labels": {**made.labels, "nvidia.com/gpu.count": "2"}}}
    )
    yield made
    made.close()


def test_a_jobs_workers_each_get_a_claim_and_nothing_is_left_of_it(
    jobs: Jobs, claims: Claims
) -> None:
    (node,) = wait_for(jobs.executor.nodes, "the node")
    assert [one.device_id for one in node.devices] == [f"{claims.node}/gpu-{n}" for n in (0, 1)]
    launch = jobs.launch(claims.node, claims.node, milli_gpu=500)
    jobs.wait_started(launch)
    found = claims.of_pods()
    assert len(found) == 2
    for claim in found:
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["pool"]) == (DRIVER, claims.node)
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    for pod in jobs.pods(launch):
        assert pod.spec.node_name == claims.node
        assert "NVIDIA_VISIBLE_DEVICES" not in [one.name for one in pod.spec.containers[0].env]
    # No card is held for it by a pod of ours.
    held = jobs.core.list_namespaced_pod(claims.namespace).items
    assert len(held) == 2
    jobs.stop(launch)
    jobs.wait_ended(launch)
    jobs.live.clear()
    jobs.executor.forget(launch.attempt.attempt_id)
    wait_for(lambda: not claims.of_pods() and not claims.templates(), "no claims", seconds=120)


def test_a_job_for_more_than_the_cards_have_left_is_said_not_to_fit(
    jobs: Jobs, claims: Claims
) -> None:
    wait_for(jobs.executor.nodes, "the node")
    for name in ("one", "two"):
        claims.start(name, a_slice(name, 1000, card(0)), [])
        wait_for(lambda name=name: claims.allocated(name), f"{name} is allocated")
    end = jobs.wait_ended(jobs.launch(claims.node, milli_gpu=500))
    assert end.text.startswith("Its node does not take it: ")
    assert not end.start_failed
