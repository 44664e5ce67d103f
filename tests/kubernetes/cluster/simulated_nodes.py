"""Nodes that kwok pretends: any number of GPUs, pods that run without a process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.kubernetes.api import wait_for
from tests.kubernetes.toolchain import toolchain

STAGES = Path(__file__).parent / "kwok.yaml"
MARK = "kwok.x-k8s.io/node"
#: On a pod whose node is lost: kwok leaves it as it is.
LOST = "tests.gpucommons.io/lost"


def kwok_command(kubeconfig: Path, *, lease_s: int = 40) -> list[str | Path]:
    """The process that plays all simulated nodes of a cluster; each lease is renewed four times."""
    return [
        toolchain.find("kwok"),
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        f"--manage-nodes-with-annotation-selector={MARK}=fake",
        f"--node-lease-duration-seconds={lease_s}",
        "--cidr=10.250.0.0/16",
    ]


def node_manifest(
    name: str, *, gpus: int, labels: Mapping[str, str] | None = None, taints: object = ()
) -> dict[str, Any]:
    """One simulated node."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "256", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MARK: "fake"},
            "labels": {"kubernetes.io/hostname": name, "type": "kwok", **(labels or {})},
        },
        "spec": {"taints": list(taints)},  # type: ignore[call-overload]
        "status": {"allocatable": amounts, "capacity": amounts},
    }


class SimulatedNodes:
    """Creates simulated nodes in one cluster and takes them away again."""

    def __init__(self, api: client.ApiClient, prefix: str) -> None:
        self._core = client.CoreV1Api(api)
        self._prefix = prefix
        self.names: list[str] = []

    def __call__(
        self,
        count: int,
        gpus: int = 8,
        *,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Mapping[str, str], ...] = (),
    ) -> list[str]:
        """That many more nodes, once they are Ready; their names."""
        first = len(self.names)
        names = [f"{self._prefix}-{number}" for number in range(first, first + count)]
        for name in names:
            self._core.create_node(node_manifest(name, gpus=gpus, labels=labels, taints=taints))
            self.names.append(name)
        wait_for(lambda: self._are_ready(names), "simulated nodes Ready", seconds=120 + count / 10)
        return names

    def lose(self, name: str) -> None:
        """Nobody plays this node any more and the cluster knows it: Ready is Unknown."""
        self._core.patch_node(name, {"metadata": {"annotations": {MARK: "lost"}}})
        # kwok may hear of its pods' next change before it hears of the node's.
        self.forget_pods(name)
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        self._core.patch_node_status(name, {"status": {"conditions": [condition]}})

    def forget_pods(self, name: str) -> None:
        """Nobody plays the pods that are on this node now."""
        on_node = f"spec.nodeName={name}"
        for pod in self._core.list_pod_for_all_namespaces(field_selector=on_node).items:
            change = {"metadata": {"annotations": {LOST: "yes"}}}
            self._core.patch_namespaced_pod(pod.metadata.name, pod.metadata.namespace, change)

    def remove(self, name: str) -> None:
        """Delete one node."""
        self.names.remove(name)
        self._delete(name)

    def remove_all(self) -> None:
        """Delete every node made here."""
        for name in self.names:
            self._delete(name)

    def _delete(self, name: str) -> None:
        try:
            self._core.delete_node(name)
        except ApiException as error:
            if error.status != 404:
                raise

    def _are_ready(self, names: list[str]) -> bool:
        ready = {
            node.metadata.name
            for node in self._core.list_node(label_selector="type=kwok").items
            if any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
        }
        return ready.issuperset(names)
