"""Cards published as NVIDIA's driver publishes them, and claims on them, on a real API server."""

from __future__ import annotations

import uuid
from typing import Any

from kubernetes import client

from gpucommons.gpu.devices.devices import Device, DeviceId
from gpucommons.gpu.providers.cluster.cluster import PodWish
from gpucommons.gpu.providers.cluster.dra import DRIVER
from gpucommons.gpu.providers.cluster.pods import POD_PROVIDERS, foreign_injection
from gpucommons.gpu.slices.memory_of_share import share_memory_mib
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

CARD_MIB = 40_960


def card(index: int) -> Device:
    return Device(
        device_id=DeviceId(f"GPU-00000000-0000-0000-0000-00000000000{index}"),
        index=index,
        kind="A100-40",
        memory_mib=CARD_MIB,
    )


def a_slice(name: str, milli_gpu: int, *cards: Device) -> GpuSlice:
    shares = tuple(DeviceShare(device_id=c.device_id, milli_gpu=milli_gpu) for c in cards)
    memory_mib = sum(share_memory_mib(one, milli_gpu) for one in cards)
    return GpuSlice(slice_id=SliceId(name), shares=shares, memory_mib=memory_mib)


class Claims:
    """A node whose two cards are published as NVIDIA's driver publishes them."""

    def __init__(
        self, api: client.ApiClient, namespace: str, node: str, device_class: str | None = None
    ) -> None:
        self._core = client.CoreV1Api(api)
        self._objects = client.CustomObjectsApi(api)
        self.namespace = namespace
        self.node = node
        self.device_class = device_class or f"test-{uuid.uuid4().hex[:8]}"

    def publish(self) -> None:
        self._objects.create_cluster_custom_object(
            "resource.k8s.io",
            "v1",
            "deviceclasses",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": self.device_class},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
            },
        )
        self._objects.create_cluster_custom_object(
            "resource.k8s.io",
            "v1",
            "resourceslices",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": self.device_class},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": self.node,
                    "pool": {"name": self.node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [self._device(index) for index in (0, 1)],
                },
            },
        )

    def _device(self, index: int) -> dict[str, Any]:
        most = f"{CARD_MIB}Mi"
        return {
            "name": f"gpu-{index}",
            "attributes": {"uuid": {"string": card(index).device_id}},
            "allowMultipleAllocations": True,
            "capacity": {
                "memory": {
                    "value": most,
                    "requestPolicy": {
                        "default": most,
                        "validRange": {"min": "1Mi", "max": most, "step": "1Mi"},
                    },
                }
            },
        }

    def withdraw(self) -> None:
        for plural in ("resourceslices", "deviceclasses"):
            self._objects.delete_cluster_custom_object(
                "resource.k8s.io", "v1", plural, self.device_class
            )

    def start(self, name: str, gpu_slice: GpuSlice, devices: list[Device]) -> None:
        """Create the claim, then the pod, of what the provider wrote."""
        wish = PodWish(container="main", claim=f"gpucommons-{name}", device_class=self.device_class)
        parts = foreign_injection(POD_PROVIDERS["dra"], gpu_slice, devices, wish).pod
        for manifest in parts.objects:
            self._objects.create_namespaced_custom_object(
                "resource.k8s.io", "v1", self.namespace, "resourceclaims", dict(manifest)
            )
        self._core.create_namespaced_pod(
            self.namespace,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": self.node},
                    "tolerations": [{"operator": "Exists"}],
                    "resourceClaims": list(parts.resource_claims),
                    "containers": [
                        {
                            "name": "main",
                            "image": "none",
                            "resources": {
                                "claims": [{"name": c["name"]} for c in parts.resource_claims]
                            },
                        }
                    ],
                },
            },
        )

    def allocated(self, name: str) -> list[dict[str, Any]]:
        claim = self._objects.get_namespaced_custom_object(
            "resource.k8s.io", "v1", self.namespace, "resourceclaims", f"gpucommons-{name}"
        )
        found = claim.get("status", {}).get("allocation", {})
        results: list[dict[str, Any]] = found.get("devices", {}).get("results", [])
        return results

    def of_pods(self) -> list[dict[str, Any]]:
        """Claims that were made for a pod alone."""
        found = self._listed("resourceclaims")
        return [one for one in found if "ownerReferences" in one["metadata"]]

    def templates(self) -> list[dict[str, Any]]:
        return self._listed("resourceclaimtemplates")

    def _listed(self, plural: str) -> list[dict[str, Any]]:
        answer = self._objects.list_namespaced_custom_object(
            "resource.k8s.io", "v1", self.namespace, plural
        )
        found: list[dict[str, Any]] = answer["items"]
        return found

    def unschedulable(self, name: str) -> str:
        pod = self._core.read_namespaced_pod(name, self.namespace)
        for condition in pod.status.conditions or []:
            if condition.type == "PodScheduled" and condition.status == "False":
                return str(condition.message)
        return ""
