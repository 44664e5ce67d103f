"""Pods under a real kubelet: images without a registry, GPUs, names, addresses, faults."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.kubernetes.api import wait_for
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.pods import Pods
from tests.kubernetes.toolchain.images import PYTHON, TOOLS

ROOT = Path(__file__).parents[3]
GPUS = 4
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def pods(api, restricted_namespace, two_real_nodes) -> Pods:
    return Pods(client.CoreV1Api(api), restricted_namespace)


def test_a_restricted_pod_runs_from_an_image_without_a_registry(pods) -> None:
    pods.create("pod", ["sh", "-c", "id -u; hostname"])

    assert pods.output("pod").split() == ["1000", "pod"]


def test_python_and_the_product_are_in_the_image(pods, python_image) -> None:
    program = "import jupyterhub.singleuser, gpucommons.labextension, sys; print(sys.prefix)"
    pods.create("pod", ["python", "-c", program], image=python_image)

    assert pods.output("pod", seconds=120).strip() == "/opt/python"


def test_the_device_plugin_names_the_devices_it_gives(pods) -> None:
    for name in ("one", "two"):
        pods.create(name, ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 1"], gpus=2)

    given = [set(pods.output(name).strip().split(",")) for name in ("one", "two")]
    assert [len(some) for some in given] == [2, 2]
    assert all(uuid.startswith("GPU-") for some in given for uuid in some)
    nodes = {pods.read(name).spec.node_name for name in ("one", "two")}
    if len(nodes) == 1:
        assert not given[0] & given[1]


def test_pods_of_two_nodes_meet_by_the_name_of_a_service(
    pods, two_real_nodes, python_image
) -> None:
    pods.create_service("meeting", headless=True)
    first, second = two_real_nodes
    pods.create(
        "leader",
        ["python", "-c", LISTEN],
        node=first,
        image=python_image,
        subdomain="meeting",
        hostname="leader",
        labels={"app": "meeting"},
    )
    pods.create(
        "follower", ["python", "-c", CALL, "leader.meeting"], node=second, image=python_image
    )

    assert pods.output("follower", seconds=120).strip() == "hello from the first node"


def test_a_service_answers_at_its_cluster_address(pods, python_image) -> None:
    address = pods.create_service("door", port=80, target=9000)
    pods.create("server", ["python", "-c", LISTEN], image=python_image, labels={"app": "door"})
    pods.create("client", ["python", "-c", CALL, address, "80"], image=python_image)

    assert pods.output("client", seconds=120).strip() == "hello from the first node"


def test_a_pod_reaches_the_api_server_with_its_own_token(pods, python_image) -> None:
    program = (
        "from kubernetes import client, config; config.load_incluster_config();"
        "print(client.VersionApi().get_code().minor)"
    )
    pods.create("pod", ["python", "-c", program], image=python_image)

    assert pods.output("pod", seconds=120).strip() == "36"


def test_exec_reaches_into_a_pod(pods, kubeconfig) -> None:
    need("kubectl")
    pods.create("pod", ["sleep", "600"])
    pods.wait_running("pod")

    said = Kubectl(kubeconfig, pods.namespace)("exec", "pod", "--", "cat", "/etc/passwd")
    assert "user:x:1000" in said


def test_a_pod_survives_the_restart_of_its_kubelet(pods, own_nodes) -> None:
    pods.create("pod", ["sleep", "600"])
    pods.wait_running("pod")
    node = next(n for n in own_nodes if n.name == pods.read("pod").spec.node_name)
    before = pods.read("pod").status.container_statuses[0].container_id

    node.restart_kubelet()
    pods.create("later", ["true"], node=node.name)
    pods.output("later")

    assert pods.read("pod").status.container_statuses[0].container_id == before


@pytest.mark.timeout(600)
def test_a_broken_gpu_is_no_longer_offered(api, pods, own_nodes) -> None:
    node = own_nodes[0]
    core = client.CoreV1Api(api)

    def offers(count: int) -> bool:
        return core.read_node(node.name).status.allocatable.get("nvidia.com/gpu") == str(count)

    # After a restart of the kubelet, as another test does, its GPUs come back one after the other.
    wait_for(lambda: offers(GPUS), "all GPUs", seconds=180)
    uuid = f"GPU-00000000-0000-0000-0000-{0:012d}"
    (node.folder / "unhealthy").write_text(uuid)
    try:
        wait_for(lambda: offers(GPUS - 1), "one GPU less", seconds=180)
    finally:
        (node.folder / "unhealthy").unlink()
    wait_for(lambda: offers(GPUS), "all GPUs again", seconds=180)


def test_a_user_may_not_mount_the_folders_of_the_node(pods) -> None:
    with pytest.raises(ApiException) as refused:
        pods.create("pod", ["true"], volumes=[{"name": "all", "hostPath": {"path": "/"}}])
    assert json.loads(refused.value.body)["reason"] == "Forbidden"


def test_the_images_are_the_ones_that_others_name() -> None:
    assert (TOOLS, PYTHON) == ("gpucommons.test/tools:1", "gpucommons.test/python:1")


def test_a_killed_run_leaves_no_pod_no_bridge_no_mount_and_no_control_group(
    two_real_nodes,
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUNS_A_POD], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        os.kill(run.pid, signal.SIGKILL)

    wait_for(lambda: not folder.exists(), "the reaper", seconds=120)
    assert not (Path("/sys/class/net") / folder.name).exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{folder.name}*"))
    assert folder.name not in Path("/proc/self/mounts").read_text()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if folder.name.encode() in command]


#: A pod of a cluster of its own; the name of its folder once the pod runs.
RUNS_A_POD = """
import time
from kubernetes import client
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.pods import Pods
cluster = Cluster()
cluster.start()
cluster.start_nodes(1)
pods = Pods(client.CoreV1Api(cluster.client()), "default")
pods.create("pod", ["sleep", "600"])
pods.wait_running("pod")
print(cluster.folder, flush=True)
time.sleep(600)
"""
LISTEN = """
import socket
server = socket.create_server(("", 9000))
while True:
    connection, _ = server.accept()
    connection.sendall(b"hello from the first node")
    connection.close()
"""
CALL = """
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9000
while True:
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            said = connection.recv(100).decode()
    except OSError:
        said = ""
    if said:
        print(said)
        break
    time.sleep(0.2)
"""
