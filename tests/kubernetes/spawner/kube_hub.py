"""A real JupyterHub whose notebooks are pods of the test cluster.

The scheduler behind it is one that a test can look into (``integration.running_hub``); the pods run
on simulated nodes, and one small server answers for all of them.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.running_hub import OneGpuScheduler, RunningHub, until
from kubernetes import client

from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId
from tests.kubernetes.gpu.node_agent import NodeAgent
from tests.kubernetes.guarded import Guarded
from tests.kubernetes.toolchain import toolchain

CONFIG = """
from gpucommons.spawner.cluster import RESTRICTED

c.JupyterHub.spawner_class = "gpucommons.spawner.kube.GpuKubeSpawner"
c.KubeSpawner.namespace = facts["namespace"]
c.KubeSpawner.image = facts.get("image", "lab:1")
c.KubeSpawner.k8s_api_request_retry_timeout = 15
if facts["answering_url"]:
    c.KubeSpawner.get_pod_url = lambda spawner, pod: facts["answering_url"]
c.KubeSpawner.container_security_context = {**RESTRICTED, "runAsUser": 1000}
c.KubeSpawner.profile_list = [
    {"display_name": "Plain", "slug": "plain", "default": True},
    {"display_name": "Old GPU", "slug": "old-gpu", "kubespawner_override": {
        "extra_resource_limits": {"nvidia.com/gpu": "1"},
        "environment": {"NVIDIA_VISIBLE_DEVICES": "all", "SIZE": "big"}}},
    {"display_name": "Bad image", "slug": "bad-image",
     "kubespawner_override": {"image": "BAD IMAGE"}},
    {"display_name": "Huge", "slug": "huge", "kubespawner_override": {"cpu_guarantee": 100}},
]
def hook(spawner, pod):
    # An admin's hook that adds something, and tries to hand out a GPU.
    pod.metadata.labels["from-the-hook"] = "yes"
    pod.spec.containers[0].env.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"})
    return pod
c.KubeSpawner.modify_pod_hook = hook
c.Spawner.start_timeout = 60
c.Spawner.poll_interval = 1
c.GpuKubeSpawner.image_patience_s = 3
"""


#: Besides, where real pods with the real server run: they must find the hub, and a home.
REAL_CONFIG = """
c.JupyterHub.hub_bind_url = f"http://0.0.0.0:{facts['hub_port']}"
c.JupyterHub.hub_connect_url = f"http://{facts['host']}:{facts['hub_port']}"
c.KubeSpawner.cmd = ["jupyterhub-singleuser"]
c.KubeSpawner.image_pull_policy = "IfNotPresent"
c.KubeSpawner.node_selector = {"tests.gpucommons.io/real": "true"}
c.KubeSpawner.volumes = [{"name": "home", "emptyDir": {}}]
c.KubeSpawner.volume_mounts = [{"name": "home", "mountPath": "/home/alice"}]
c.KubeSpawner.environment = {"HOME": "/home/alice"}
c.KubeSpawner.working_dir = "/home/alice"
c.KubeSpawner.fs_gid = 1000
c.KubeSpawner.profile_list += [{"display_name": "Gone", "slug": "gone",
    "kubespawner_override": {"image": "gpucommons.test/nothing:1"}}]
c.Spawner.start_timeout = c.Spawner.http_timeout = 180
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 180}
if facts["slice_driver"]:
    c.GpuKubeSpawner.slice_driver_name = facts["slice_driver"]
"""


class ClusterScheduler(OneGpuScheduler):
    """Its slices lie on a node of the cluster, bound to a device."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node
        #: What further slices are besides.
        self.besides: dict[str, Any] = {}

    def _acquire(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, lease = super()._acquire(body)
        if status == 200:
            lease["slice"] |= {
                "node": self.node,
                "device_ids": [f"{self.node}/gpu-0"],
                "visible_devices": ["GPU-11111111"],
                "simulated": False,
                **self.besides,
            }
        return status, lease


class AgentScheduler(ClusterScheduler):
    """Before it grants a slice, its agent is told of it, as the product's scheduler does."""

    def __init__(self, agent: NodeAgent) -> None:
        super().__init__(agent.node)
        self.move_to(agent)

    def move_to(self, agent: NodeAgent) -> None:
        """The next slice lies on another node."""
        self.agent, self.node = agent, agent.node
        self.device = agent.client.devices().devices[0]

    def _acquire(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, lease = super()._acquire(body)
        if status == 200:
            held = lease["slice"]
            share = DeviceShare(device_id=self.device.device_id, milli_gpu=held["milli_gpu"])
            held["memory_mib"] = share_memory_mib(self.device, held["milli_gpu"])
            held["visible_devices"] = [self.device.device_id]
            gpu_slice = GpuSlice(
                slice_id=SliceId(held["slice_id"]),
                shares=(share,),
                memory_mib=held["memory_mib"],
            )
            self.agent.client.prepare(gpu_slice)
        return status, lease


class KubeHub(RunningHub):
    """A hub with an account of its own in the cluster."""

    def __init__(
        self,
        folder: Path,
        scheduler: OneGpuScheduler,
        place: Guarded,
        *,
        facts: dict[str, Any],
        config: str = CONFIG,
    ) -> None:
        super().__init__(folder, scheduler)
        self.place = place
        self.facts |= {"namespace": place.namespace, **facts}
        (folder / "facts.json").write_text(json.dumps(self.facts))
        file = folder / "jupyterhub_config.py"
        file.write_text(file.read_text() + config)

    def pod(self, user: str) -> dict[str, Any] | None:
        """The user's pod, if there is one."""
        query = f"?labelSelector=hub.jupyter.org%2Fusername%3D{user}"
        items = self.place.admin.ask("GET", self.place.path("pods") + query)["items"]
        return items[0] if items else None

    def end(self) -> None:
        """No hub, no pods."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.api.close()


def bridge_address(api: client.ApiClient, node: str) -> str:
    """Where the nodes' bridge ends on this machine."""
    addresses = client.CoreV1Api(api).read_node(node).status.addresses
    [own] = [one.address for one in addresses if one.type == "InternalIP"]
    return str(own).rsplit(".", 1)[0] + ".1"


def in_pod(kubeconfig: Path, pod: dict[str, Any], *command: str) -> str:
    metadata = pod["metadata"]
    kubectl = [toolchain.find("kubectl"), f"--kubeconfig={kubeconfig}", "exec"]
    words = [*kubectl, "-n", metadata["namespace"], metadata["name"], "--", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_kubeconfig(path: Path, api: client.ApiClient, token: str) -> None:
    """As the account with this token."""
    authority = Path(str(api.configuration.ssl_ca_cert)).read_bytes()
    cluster = {
        "server": api.configuration.host,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
            }
        )
    )


@contextmanager
def answering() -> Iterator[str]:
    """A notebook server as far as the hub can tell, for every pod."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("X-JupyterHub-Version", "6")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def started(hub: KubeHub, api: client.ApiClient) -> Iterator[KubeHub]:
    """With its users, as its own account of the cluster; its pods go with their namespace."""
    before = os.environ.get("KUBECONFIG")
    write_kubeconfig(hub.folder / "kubeconfig", api, hub.place.hub.token)
    os.environ["KUBECONFIG"] = str(hub.folder / "kubeconfig")
    try:
        hub.start()
        for name in ("alice", "ada"):
            hub.ensure_user(name)
        yield hub
    finally:
        hub.end()
        hub.scheduler.close()
        os.environ.pop("KUBECONFIG")
        if before is not None:
            os.environ["KUBECONFIG"] = before


@contextmanager
def kube_hub(folder: Path, api: client.ApiClient, place: Guarded, node: str) -> Iterator[KubeHub]:
    """A hub whose notebooks run on simulated nodes."""
    with answering() as url:
        hub = KubeHub(folder, ClusterScheduler(node), place, facts={"answering_url": url})
        with started(hub, api) as found:
            yield found


__all__ = [
    "CONFIG",
    "REAL_CONFIG",
    "AgentScheduler",
    "ClusterScheduler",
    "KubeHub",
    "bridge_address",
    "in_pod",
    "kube_hub",
    "started",
    "until",
]
