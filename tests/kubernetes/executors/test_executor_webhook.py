"""Jobs on a cluster whose admission webhook changes their pods: stopped with a sentence, or well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.objects import names
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.executors.webhook import Change, changes_pods

LINGER_S = 2


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Iterator[Jobs]:
    made = Jobs(api, kubeconfig, namespace, linger_s=LINGER_S)
    yield made
    made.close()


@pytest.fixture
def node(jobs: Jobs, kwok_nodes: SimulatedNodes) -> str:
    (name,) = kwok_nodes(1, 4, labels=jobs.labels)
    wait_for(lambda: len(jobs.executor.nodes()) == 1, "a node")
    return name


def more_gpus(_pod: dict[str, Any]) -> list[dict[str, Any]]:
    limits = {"nvidia.com/gpu": "2"}
    resources = {"op": "replace", "path": "/spec/containers/0/resources", "value": {}}
    return [{**resources, "value": {"limits": limits, "requests": limits}}]


def no_gate(_pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": "/spec/schedulingGates", "value": []}]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (more_gpus, "it asks for 2 GPUs instead of 1"),
        (no_gate, "it does not wait for its place"),
    ],
)
def test_a_pod_that_became_another_is_never_let_run_and_the_user_is_told(
    jobs: Jobs, node: str, tmp_path: Path, change: Change, text: str
) -> None:
    with changes_pods(jobs.core.api_client, jobs.namespace, tmp_path, change):
        launch = jobs.launch(node)
        end = jobs.wait_ended(launch)
    assert (end.exit_code, end.start_failed) == (None, True)
    assert end.text.startswith("Something in the cluster changed its worker gc-")
    assert text in end.text
    wait_for(lambda: all(pod.status.phase != "Running" for pod in jobs.pods(launch)), "no pod")


def a_proxy(_pod: dict[str, Any]) -> list[dict[str, Any]]:
    proxy = {"name": "proxy", "image": "gpucommons.test/tools:1"}
    return [{"op": "add", "path": "/spec/containers/-", "value": proxy}]


def _run_beside_a_proxy(jobs: Jobs, node: str, folder: Path) -> tuple[Launch, Any]:
    """A job that runs, and its pod."""
    with changes_pods(jobs.core.api_client, jobs.namespace, folder, a_proxy):
        launch = jobs.launch(node)
        jobs.wait_started(launch)
    (pod,) = jobs.pods(launch)
    return launch, pod


def test_a_proxy_beside_the_command_does_not_keep_the_job_from_ending(
    jobs: Jobs, node: str, tmp_path: Path
) -> None:
    launch, pod = _run_beside_a_proxy(jobs, node, tmp_path)
    assert [one.name for one in pod.spec.containers] == [names.CONTAINER, "proxy"]
    _end_the_command(jobs, pod, exit_code=0)
    end = jobs.wait_ended(launch)
    assert (end.exit_code, end.text) == (0, "")
    wait_for(lambda: not jobs.pods(launch), "the proxy's end")


def test_a_command_that_failed_beside_a_proxy_failed_itself(
    jobs: Jobs, node: str, tmp_path: Path
) -> None:
    launch, pod = _run_beside_a_proxy(jobs, node, tmp_path)
    _end_the_command(jobs, pod, exit_code=3)
    assert jobs.seen(launch, AttemptEnded) is None
    assert jobs.wait_ended(launch).exit_code == 3


def _end_the_command(jobs: Jobs, pod: Any, *, exit_code: int) -> None:
    """As a kubelet says it when one of two containers ended."""
    ended = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": "2026-11-21T10:00:00Z",
        "finishedAt": "2026-11-21T10:00:01Z",
    }
    common = {"image": "x", "imageID": "x", "restartCount": 0}
    statuses = [
        {"name": names.CONTAINER, "ready": False, "state": {"terminated": ended}, **common},
        {"name": "proxy", "ready": True, "state": {"running": {}}, **common},
    ]
    jobs.core.patch_namespaced_pod_status(
        pod.metadata.name, jobs.namespace, {"status": {"containerStatuses": statuses}}
    )
