"""The cluster a test session works on: one that it starts, or one that runs already."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from kubernetes import client

from deploy.release.archive import Written
from tests.kubernetes.api import api_client, wait_for
from tests.kubernetes.cluster.control_plane import LAVISH, ControlPlane, Options
from tests.kubernetes.cluster.reaper import Reaper
from tests.kubernetes.cluster.simulated_nodes import kwok_command
from tests.kubernetes.node.node_parts import (
    fake_nvml_library,
    pretend_cards,
    start_device_plugin,
    start_network,
)
from tests.kubernetes.node.real_node import REAL, RealNode
from tests.kubernetes.toolchain.image_store import furnish
from tests.kubernetes.toolchain.images import PYTHON, ROOT, python_archive, tools_archive

#: Names a kubeconfig of a running cluster (`python -m tests.kubernetes up`) to work on.
RUNNING = "GPUCOMMONS_TEST_KUBECONFIG"


@dataclass(frozen=True)
class Attached:
    """Somebody else's running cluster; it has no levers."""

    kubeconfig: Path

    def client(self) -> client.ApiClient:
        """A client of the administrator."""
        return api_client(self.kubeconfig)

    def real_nodes(self) -> list[str]:
        """The names of the nodes with real kubelets."""
        return _real_nodes(self.client())

    def import_python_image(self) -> None:
        """Whoever started the cluster gave its nodes the image as well."""

    def start_kwok(self) -> None:
        """Whoever started the cluster started kwok as well."""

    def stop(self) -> None:
        """It is not ours to stop."""


class Cluster(ControlPlane):
    """A control plane of our own that a reaper ends at the latest when this process is gone."""

    def __init__(self, options: Options | None = None) -> None:
        self.reaper = Reaper()
        self.network = self.reaper.network
        wanted = options or Options()
        super().__init__(self.reaper.folder, replace(wanted, services=self.network.services))
        self.nodes: list[RealNode] = []
        self._base: Written | None = None

    def start_kwok(self) -> None:
        """Let simulated nodes come alive; once is enough."""
        if "kwok" not in self.processes.names():
            # Fifty requests a second would go to the leases of 500 nodes.
            lease_s = 600 if self.options.large else 40
            command = kwok_command(self.kubeconfig, lease_s=lease_s)
            self.processes.start("kwok", command, environment=LAVISH)

    def start_nodes(self, count: int = 2, *, gpus: int = 4) -> list[RealNode]:
        """Real nodes with so many GPUs each, DNS and Services; needs root."""
        start_network(self, self.network, count)
        self.nodes = [RealNode(self, self.network, index) for index in range(count)]
        archive = tools_archive(self.folder)
        library = fake_nvml_library(self.folder)
        for index, node in enumerate(self.nodes):
            pretend_cards(node, first=index * gpus, count=gpus)
            self._base = furnish(node.folder / "containerd")
            node.start()
        for node in self.nodes:
            node.import_image(archive)
            start_device_plugin(node, library)
        wait_for(lambda: self._have_gpus(gpus), "real nodes with GPUs", seconds=300)
        return self.nodes

    def real_nodes(self) -> list[str]:
        """The names of the nodes with real kubelets."""
        return _real_nodes(self.client())

    def import_python_image(self, *, root: Path = ROOT, reference: str = PYTHON) -> None:
        """Give every real node the image that holds Python and the product of a folder."""
        if self._base is None:
            raise RuntimeError("there are no real nodes to give the image to")
        archive = python_archive(self.folder, self._base, root=root, reference=reference)
        for node in self.nodes:
            node.import_image(archive)
        archive.unlink()

    def _have_gpus(self, gpus: int) -> bool:
        with self.client() as api:
            found = client.CoreV1Api(api).list_node().items
        mine = [one for one in found if one.metadata.name in {node.name for node in self.nodes}]
        return len(mine) == len(self.nodes) and all(
            one.status.allocatable.get("nvidia.com/gpu") == str(gpus)
            and any(c.type == "Ready" and c.status == "True" for c in one.status.conditions)
            for one in mine
        )

    def stop(self) -> None:
        """End everything and remove what it left."""
        self.processes.stop_all()
        self.reaper.finish()


def _real_nodes(api: client.ApiClient) -> list[str]:
    with api:
        found = client.CoreV1Api(api).list_node(label_selector=f"{REAL}=true").items
    return [node.metadata.name for node in found]


def session_cluster() -> Cluster | Attached:
    """The running cluster that the environment names, or a new one."""
    running = os.environ.get(RUNNING)
    if running:
        return Attached(Path(running))
    cluster = Cluster()
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    return cluster
