"""Fixtures of the tests on a real Kubernetes; a conftest imports those that its folder uses."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from tests.kubernetes.attempts_api import AttemptsApi, gateway, serving_attempts
from tests.kubernetes.cluster.cluster import RUNNING, Attached, Cluster, session_cluster
from tests.kubernetes.cluster.control_plane import PROGRAMS
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.node.real_node import PROGRAMS as NODE_PROGRAMS
from tests.kubernetes.node.real_node import RealNode
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.images import PYTHON

_started: list[Cluster | Attached] = []


def unavailable(reason: str) -> None:
    """Skip, or fail where REQUIRE_KUBERNETES says that nothing may be left out."""
    if os.environ.get("REQUIRE_KUBERNETES") == "1":
        pytest.fail(f"REQUIRE_KUBERNETES=1, but {reason}")
    pytest.skip(reason)


def need(*programs: str) -> None:
    """Skip or fail unless these programs are to be had."""
    absent = toolchain.missing(list(programs))
    if absent:
        unavailable(f"{', '.join(absent)} missing: {toolchain.HOW_TO_GET}")


def need_root() -> None:
    """Skip unless real nodes may be started; not even CI can demand it of an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("a real node needs root: mounts, control groups and a bridge")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster | Attached]:
    """The cluster of this session: one, whichever folders' conftests import this fixture."""
    if not _started:
        if RUNNING not in os.environ:
            need(*PROGRAMS)
        _started.append(session_cluster())
    yield _started[0]
    if _started:
        _started.pop().stop()


@pytest.fixture(scope="session")
def kubeconfig(cluster: Cluster | Attached) -> Path:
    """The administrator's kubeconfig."""
    return cluster.kubeconfig


@pytest.fixture(scope="session")
def api(cluster: Cluster | Attached) -> Iterator[client.ApiClient]:
    """The administrator's client."""
    with cluster.client() as one:
        yield one


@pytest.fixture
def namespace(api: client.ApiClient) -> Iterator[str]:
    """A fresh namespace; it and all in it go away."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def restricted_namespace(api: client.ApiClient, namespace: str) -> str:
    """A fresh namespace that enforces PodSecurity `restricted`."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.CoreV1Api(api).patch_namespace(namespace, {"metadata": {"labels": labels}})
    return namespace


@pytest.fixture
def kwok_nodes(cluster: Cluster | Attached, api: client.ApiClient) -> Iterator[SimulatedNodes]:
    """`kwok_nodes(count, gpus)` creates simulated nodes that are gone after the test."""
    if isinstance(cluster, Cluster):
        need("kwok")
    cluster.start_kwok()
    nodes = SimulatedNodes(api, f"sim-{uuid.uuid4().hex[:6]}")
    yield nodes
    nodes.remove_all()


@pytest.fixture(scope="session")
def two_real_nodes(cluster: Cluster | Attached) -> list[str]:
    """The names of two nodes with real kubelets, four (fake) GPUs each."""
    if isinstance(cluster, Cluster):
        need_root()
        need(*NODE_PROGRAMS)
        if not cluster.nodes:
            cluster.start_nodes(2)
    names = cluster.real_nodes()
    if len(names) < 2:
        unavailable("the running cluster has no two real nodes")
    return names


@pytest.fixture(scope="session")
def real_node(two_real_nodes: list[str]) -> str:
    """The name of one node with a real kubelet."""
    return two_real_nodes[0]


@pytest.fixture(scope="session")
def own_nodes(cluster: Cluster | Attached, two_real_nodes: list[str]) -> list[RealNode]:
    """The real nodes with their levers; a cluster that somebody else started has none."""
    if not isinstance(cluster, Cluster):
        pytest.skip(f"{RUNNING} is set: a running cluster has no levers")
    return cluster.nodes


@pytest.fixture(scope="session")
def python_image(cluster: Cluster | Attached, two_real_nodes: list[str]) -> str:
    """The image with Python and the product, known to every real node."""
    cluster.import_python_image()
    return PYTHON


@pytest.fixture(scope="session")
def attempts_api(api: client.ApiClient, real_node: str) -> Iterator[AttemptsApi]:
    """What pods on real nodes ask of the scheduler."""
    with serving_attempts(gateway(api, real_node)) as served:
        yield served


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A control plane for this test alone, to restart, pause and break."""
    need(*PROGRAMS)
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
