"""A real notebook server in a real pod, in a namespace that is guarded and enforces `restricted`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from gpucommons.gpu.slices.slices import SliceId
from gpucommons.scheduler.core.model.types import Role
from gpucommons.scheduler.environments.images import ImageNotKnown
from gpucommons.scheduler.executors.kubernetes.cluster_state.notebook_images import NotebookImages
from tests.kubernetes.attempts_api import AttemptsApi
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.gpu.node_agent import NodeAgent
from tests.kubernetes.guarded import Guarded, guarded
from tests.kubernetes.node.real_node import SOCKET, RealNode
from tests.kubernetes.spawner.kube_hub import (
    CONFIG,
    REAL_CONFIG,
    AgentScheduler,
    KubeHub,
    bridge_address,
    in_pod,
    started,
    until,
)
from tests.kubernetes.toolchain import toolchain

pytestmark = pytest.mark.hub
HALF = {"milli_gpu": 500, "team": "vision", "pool": "gpu"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def place(api: client.ApiClient, real_node: str) -> Iterator[Guarded]:
    with guarded(api, **RESTRICTED) as found:
        yield found


@pytest.fixture(scope="module")
def agent(api: client.ApiClient, python_image: str, real_node: str) -> Iterator[NodeAgent]:
    core = client.CoreV1Api(api)
    made = core.create_namespace({"metadata": {"generateName": "agents-"}})
    name = made.metadata.name
    found = NodeAgent(api, name, real_node)
    try:
        found.start()
        yield found
        found.stop()
    finally:
        core.delete_namespace(name)


@pytest.fixture(scope="module")
def hub(
    tmp_path_factory: pytest.TempPathFactory,
    api: client.ApiClient,
    place: Guarded,
    agent: NodeAgent,
    python_image: str,
) -> Iterator[KubeHub]:
    facts = {
        "answering_url": "",
        "host": bridge_address(api, agent.node),
        "image": python_image,
        "slice_driver": agent.driver,
    }
    made = KubeHub(
        tmp_path_factory.mktemp("hub"),
        AgentScheduler(agent),
        place,
        facts=facts,
        config=CONFIG + REAL_CONFIG,
    )
    with started(made, api) as found:
        yield found


@pytest.fixture(autouse=True)
def _stopped_afterwards(hub: KubeHub) -> Iterator[None]:
    yield
    hub.stop_server("alice")
    until(lambda: hub.pod("alice") is None, what="the end of the pod")
    until(lambda: hub.scheduler.held_milli_gpu == 0, what="the slice given back")


def test_a_notebook_runs_on_its_slice_and_gives_it_back(
    hub: KubeHub, agent: NodeAgent, kubeconfig: Path
) -> None:
    answer = hub.start_server("alice", HALF)
    assert answer.status_code == 201, answer.text + hub.log[-3000:]
    server = hub.server("alice")
    assert server is not None
    assert server["ready"]
    [(lease_id, lease)] = hub.scheduler.leases.items()
    pod = hub.pod("alice")
    assert pod is not None
    assert pod["spec"]["nodeName"] == agent.node
    environment = in_pod(kubeconfig, pod, "cat", "/proc/1/environ").split("\0")
    assert f"NVIDIA_VISIBLE_DEVICES={lease['slice']['visible_devices'][0]}" in environment
    assert f"GPUCOMMONS_LEASE_ID={lease_id}" in environment
    there = in_pod(kubeconfig, pod, "python", "-c", LISTED).split()
    assert "usage.sock" in there
    ours = re.findall(r"our part of the spawn took ([0-9.]+) s", hub.log)
    assert ours
    hub.stop_server("alice")
    assert (lease_id, "stopped") in hub.scheduler.ended
    assert agent.client.reading(SliceId(lease["slice"]["slice_id"])).pids == ()


LISTED = "import os; print(*os.listdir('/run/gpucommons/slice'))"


def test_a_notebook_without_a_gpu_runs_beside_it(hub: KubeHub, kubeconfig: Path) -> None:
    answer = hub.start_server("alice", {"milli_gpu": 0})
    assert answer.status_code == 201, answer.text + hub.log[-3000:]
    pod = hub.pod("alice")
    assert pod is not None
    environment = in_pod(kubeconfig, pod, "cat", "/proc/1/environ").split("\0")
    assert "NVIDIA_VISIBLE_DEVICES=void" in environment
    assert not [v for v in pod["spec"]["volumes"] if "csi" in v]


@pytest.fixture
def by_digest(own_nodes: list[RealNode], python_image: str) -> Iterator[str]:
    """The image's name by its digest, which the nodes know as from a registry."""
    images = [toolchain.find("ctr"), "-a", SOCKET, "-n", "k8s.io", "images"]
    listed = own_nodes[0].run(*images, "ls", f"name=={python_image}")
    found = re.search(r"sha256:[0-9a-f]{64}", listed)
    assert found is not None, listed
    name = f"{python_image.rpartition(':')[0]}@{found[0]}"
    for node in own_nodes:
        node.run(*images, "tag", python_image, name)
    yield name
    for node in own_nodes:
        node.run(*images, "rm", name)


@pytest.fixture
def jobs(
    api: client.ApiClient,
    kubeconfig: Path,
    restricted_namespace: str,
    python_image: str,
    attempts_api: AttemptsApi,
) -> Iterator[Jobs]:
    made = Jobs(api, kubeconfig, restricted_namespace, own_image=python_image, any_image=True)
    made.api_url = attempts_api.url
    yield made
    made.close()


def test_a_job_runs_in_its_notebooks_image_by_the_digest_that_the_node_reported(
    hub: KubeHub, place: Guarded, jobs: Jobs, real_node: str, by_digest: str
) -> None:
    answer = hub.start_server("alice", {"milli_gpu": 0})
    assert answer.status_code == 201, answer.text + hub.log[-3000:]
    image_of = NotebookImages(jobs.executor.connection, place.namespace)
    assert image_of("alice", "") == by_digest
    with pytest.raises(ImageNotKnown, match="no pod of it runs"):
        image_of("alice", "other")
    says = ("python3", "-c", "print('trained')")
    roles = (Role(name="worker", command=says),)
    launch = jobs.launch(real_node, milli_gpu=0, environment=by_digest, roles=roles)
    assert jobs.wait_ended(launch).exit_code == 0
    (pod,) = jobs.pods(launch)
    assert pod.spec.containers[0].image == by_digest
    (status,) = pod.status.container_statuses
    assert status.image_id == by_digest


def test_an_image_that_cannot_be_pulled_frees_the_gpu_and_says_so(hub: KubeHub) -> None:
    answer = hub.start_server("alice", {**HALF, "profile": "gone"})
    assert answer.status_code == 409, answer.text
    assert "The image gpucommons.test/nothing:1 cannot be loaded" in answer.json()["message"]
    until(lambda: hub.scheduler.held_milli_gpu == 0, what="the slice given back")


def test_a_name_that_is_no_image_frees_the_gpu_at_once(hub: KubeHub) -> None:
    answer = hub.start_server("alice", {**HALF, "profile": "bad-image"})
    assert answer.status_code == 409, answer.text
    assert "BAD IMAGE cannot be used" in answer.json()["message"]
