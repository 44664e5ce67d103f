"""A user's home in a job's pods, against the claims and pods of a real API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cluster_objects import FILES
from kubernetes import client
from launches import a_launch

from gpucommons.scheduler.core.model.types import NodeId, WorkerPlacement
from gpucommons.scheduler.executors.base import Launch
from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.manifests.homes import WithHome
from gpucommons.scheduler.executors.kubernetes.settings import HomeVolume, KubernetesSettings


@pytest.fixture
def with_home(kubeconfig: Path, namespace: str) -> WithHome:
    settings = KubernetesSettings(namespace=namespace, home=HomeVolume())
    return WithHome(
        files_of_job=FILES,
        home=HomeVolume(),
        settings=settings,
        connection=connect(kubeconfig=str(kubeconfig)),
    )


def launch_on(*nodes: str) -> Launch:

    launch = a_launch("true", owner="ann")
    placements = tuple(
        WorkerPlacement(role="worker", index=index, node_id=NodeId(node))
        for index, node in enumerate(nodes)
    )
    return replace(launch, attempt=replace(launch.attempt, placements=placements))


def make_claim(api: client.ApiClient, namespace: str, mode: str) -> None:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "claim-ann"}, "spec": {**spec, "storageClassName": "none"}}
    client.CoreV1Api(api).create_namespaced_persistent_volume_claim(namespace, body)


def make_notebook(api: client.ApiClient, namespace: str, node: str) -> None:
    volume = {"name": "home", "persistentVolumeClaim": {"claimName": "claim-ann"}}
    spec = {"nodeName": node, "volumes": [volume], "containers": [{"name": "n", "image": "x"}]}
    body = {"metadata": {"name": "jupyter-ann"}, "spec": spec}
    client.CoreV1Api(api).create_namespaced_pod(namespace, body)


def test_a_home_that_is_mounted_on_another_node_starts_nothing(
    api: client.ApiClient, namespace: str, with_home: WithHome
) -> None:
    make_claim(api, namespace, "ReadWriteOnce")
    with_home.ready(launch_on("node-7"))
    make_notebook(api, namespace, "node-8")
    with_home.ready(launch_on("node-8"))
    with pytest.raises(ApiError, match=r"in use on node-8 by jupyter-ann") as refused:
        with_home.ready(launch_on("node-7"))
    assert not refused.value.try_again


def test_a_home_for_all_nodes_is_mounted_where_the_admin_said(
    api: client.ApiClient, namespace: str, with_home: WithHome
) -> None:
    make_claim(api, namespace, "ReadWriteMany")
    make_notebook(api, namespace, "node-8")
    launch = launch_on("node-1", "node-2")
    with_home.ready(launch)
    files = with_home.files(launch, with_home.settings)
    (volume,) = [one for one in files.volumes if one["name"] == "gpucommons-home"]
    assert volume["persistentVolumeClaim"]["claimName"] == "claim-ann"
    assert files.env["HOME"] == "/home/jovyan"


def test_a_home_that_is_not_there_is_said(with_home: WithHome) -> None:
    with pytest.raises(ApiError, match="cannot be reached from where jobs run"):
        with_home.ready(launch_on("node-1"))
