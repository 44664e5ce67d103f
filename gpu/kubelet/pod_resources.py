"""The kubelet's word for which pod holds which device, asked when somebody wants to know."""

from __future__ import annotations

from pathlib import Path

import grpc
from google.protobuf.message import Message

from gpucommons.gpu.client.wire import Json
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import AgentUnavailable
from gpucommons.gpu.kubelet import messages

#: Resources of this vendor are GPUs, whole or cut.
GPU_RESOURCES = "nvidia.com/"
_TIMEOUT_S = 4.0


class PodResources:
    """The socket ``pod-resources/kubelet.sock``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = grpc.insecure_channel(f"unix:{path}")
        self._list = self._channel.unary_unary(
            f"/{messages.POD_RESOURCES_SERVICE}/List",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.POD_RESOURCES["ListPodResourcesResponse"].FromString,
        )

    def held(self) -> Json:
        """Devices of each pod that has some, by UUID.

        Raises
        ------
        AgentUnavailable
            When the kubelet does not answer: nobody then knows who holds what.
        """
        request = messages.POD_RESOURCES["ListPodResourcesRequest"]()
        try:
            answer = self._list(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            message = f"The kubelet at {self._path} does not say who holds which device: {error}"
            raise AgentUnavailable(message) from error
        return {"held": held_of(answer)}

    def given(self, namespace: str, pod: str) -> tuple[DeviceId, ...]:
        """Devices of one pod.

        Raises
        ------
        AgentUnavailable
            When the kubelet does not answer.
        """
        rows = (
            row for row in self.held()["held"] if (row["namespace"], row["pod"]) == (namespace, pod)
        )
        return tuple(DeviceId(one) for row in rows for one in row["device_ids"])

    def close(self) -> None:
        """Let go of the kubelet."""
        self._channel.close()


def held_of(answer: Message) -> list[Json]:
    """The rows of an answer that speak of GPUs."""
    rows = []
    for pod in messages.value_of(answer, "pod_resources"):
        ids = [
            device_id
            for container in pod.containers
            for devices in container.devices
            if devices.resource_name.startswith(GPU_RESOURCES)
            for device_id in devices.device_ids
        ]
        if ids:
            # A device that a plugin offers several times has a number behind its UUID.
            unique = dict.fromkeys(one.split("::", 1)[0] for one in ids)
            rows.append({"namespace": pod.namespace, "pod": pod.name, "device_ids": list(unique)})
    return rows
