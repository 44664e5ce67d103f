"""What Karpenter and the cluster autoscaler ask of pods, by their documentation, held against ours.

Karpenter: what it reckons with are requests, selectors and tolerations; ``karpenter.sh/do-not-disrupt`` keeps
a node for ever; pods that tolerate its own taint are not evicted before their node goes.
"""

from __future__ import annotations

from typing import Any

import pytest
from builders import a_node
from cluster_objects import FILES, a_launch

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import NodeState, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import lay_out
from gpucommons.scheduler.executors.kubernetes.nodes import reservation_pods
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import Holdings, nodes_of
from gpucommons.scheduler.executors.kubernetes.objects import names
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import read_node
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings

POOL = Pool(name=PoolName("train"), executor="kubernetes", grace_ms=90_000)
SETTINGS = KubernetesSettings(environments={"": "python:3"})
KEEPS_A_NODE = ("karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict")
ON_THE_WAY = {
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "karpenter.sh/unregistered",
    "ToBeDeletedByClusterAutoscaler",
}


def of_a_job() -> dict[str, Any]:
    (job,) = lay_out(a_launch(), SETTINGS, POOL, FILES).jobs
    return dict(job["spec"]["template"])


def of_a_reservation() -> dict[str, Any]:
    slot = DeviceId("n1/gpu-0")
    return reservation_pods.reservation_pod(slot, a_node("n1", pool="train"), {"a": "b"}, SETTINGS)


PODS = pytest.mark.parametrize("pod", [of_a_job(), of_a_reservation()], ids=["job", "reservation"])


@PODS
def test_no_pod_keeps_its_node_by_an_annotation(pod: dict[str, Any]) -> None:
    assert not set(KEEPS_A_NODE) & (pod["metadata"].get("annotations") or {}).keys()


@PODS
def test_every_container_asks_for_what_a_node_is_chosen_by(pod: dict[str, Any]) -> None:
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        asked = container["resources"]
        assert asked["requests"].keys() >= {"cpu", "memory"}
        assert "memory" in asked["limits"]


@PODS
def test_no_pod_tolerates_the_taint_of_a_node_that_goes(pod: dict[str, Any]) -> None:
    for one in pod["spec"]["tolerations"]:
        of_any_taint = "key" not in one and one.get("effect") != "NoExecute"
        assert not of_any_taint, one
        assert one.get("key") not in ON_THE_WAY


def test_the_labels_and_taints_of_a_node_pool_are_those_that_jobs_tolerate() -> None:
    tolerated = {(one.get("key"), one.get("value")) for one in of_a_job()["spec"]["tolerations"]}
    assert (names.POOL, "train") in tolerated
    assert SETTINGS.selector_of("train") == {names.POOL: "train"}


def test_a_drained_job_has_the_grace_of_its_pool() -> None:
    assert of_a_job()["spec"]["terminationGracePeriodSeconds"] == 90


@pytest.mark.parametrize("taint", sorted(ON_THE_WAY))
def test_a_node_that_goes_or_is_not_all_there_yet_takes_nothing_new(taint: str) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    body = {
        "metadata": {"name": "n1", "labels": {names.POOL: "train"}},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
        "status": {"conditions": [ready], "allocatable": {"cpu": "8", "nvidia.com/gpu": "2"}},
    }
    (node,) = nodes_of([read_node(body)], [POOL], SETTINGS, Holdings(taken={}))
    assert node.state is NodeState.CORDONED
    body["spec"] = {"taints": [{"key": names.POOL, "value": "train", "effect": "NoSchedule"}]}
    (node,) = nodes_of([read_node(body)], [POOL], SETTINGS, Holdings(taken={}))
    assert node.state is NodeState.READY
