"""A pool that grows from zero, on a real API server and scheduler; the test plays the autoscaler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.core.model.resources import Growth
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.executors.cluster_of_jobs import POOL_LABEL, Jobs

GROWTH = Growth(max_nodes=2, gpus=4, cpu_milli=60_000, memory_mib=400_000, boot_ms=60_000)


OWNER = "gpucommons-scheduler"


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, restricted_namespace: str) -> Iterator[Jobs]:
    client.AppsV1Api(api).create_namespaced_deployment(
        restricted_namespace, a_deployment_without_pods()
    )
    made = Jobs(api, kubeconfig, restricted_namespace, vanished_hold_s=1, placeholder_owner=OWNER)
    made.pool = replace(made.pool, growth=GROWTH)
    yield made
    made.close()


def a_deployment_without_pods() -> dict[str, Any]:
    labels = {"app": OWNER}
    container = {"name": "scheduler", "image": "gpucommons.test/tools:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OWNER},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def placeholders(jobs: Jobs) -> Sequence[Any]:
    found: Sequence[Any] = jobs.core.list_namespaced_pod(
        jobs.namespace, label_selector="gpucommons.io/kind=placeholder"
    ).items
    return found


def waits_for_a_node(pod: Any) -> bool:
    """What Karpenter and the cluster autoscaler look for: the scheduler found no node for it."""
    conditions = pod.status.conditions or ()
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in conditions)


def test_a_node_is_asked_for_brought_and_used(jobs: Jobs, kwok_nodes: SimulatedNodes) -> None:
    assert jobs.executor.nodes() == ()
    jobs.missing = {jobs.pool.name: 1}
    wait_for(
        lambda: [waits_for_a_node(pod) for pod in placeholders(jobs)] == [True],
        "a placeholder for which there is no node",
    )
    taint = {"key": POOL_LABEL, "value": jobs.pool.name, "effect": "NoSchedule"}
    (node,) = kwok_nodes(1, 4, labels=jobs.labels, taints=[taint])

    def offered() -> bool:
        # Its placeholder takes nothing of it, bound to it or not.
        return [len(one.devices) for one in jobs.executor.nodes()] == [4]

    wait_for(offered, "the node, with all of its GPUs")
    jobs.missing = {}
    launch = jobs.launch(node, milli_gpu=1000)
    jobs.wait_started(launch)
    wait_for(lambda: not placeholders(jobs), "no placeholder any more")
    assert offered()


def test_where_nothing_waits_any_more_no_node_is_asked_for(jobs: Jobs) -> None:
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 2}
    wait_for(lambda: len(placeholders(jobs)) == 2, "two placeholders")
    jobs.restart()
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 1}
    wait_for(lambda: len(placeholders(jobs)) == 1, "one of them, after a restart too")
    jobs.missing = {}
    wait_for(lambda: not placeholders(jobs), "none")


def test_placeholders_go_with_the_release_that_made_them(jobs: Jobs, api: client.ApiClient) -> None:
    """The scheduler is ended before it could take them back."""
    jobs.executor.nodes()
    jobs.missing = {jobs.pool.name: 2}
    wait_for(lambda: len(placeholders(jobs)) == 2, "two placeholders")
    jobs.executor.close()
    client.AppsV1Api(api).delete_namespaced_deployment(OWNER, jobs.namespace)
    wait_for(lambda: not placeholders(jobs), "none")
