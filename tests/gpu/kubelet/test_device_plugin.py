"""A device that is no hardware, asked as a kubelet asks."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpucommons.gpu.kubelet import messages
from gpucommons.gpu.kubelet.device_plugin import FOLDER, DevicePlugin, Offer

RESOURCE = "gpucommons.io/hibernate"
PATIENCE_S = 60
KNOWN = messages.DEVICE_PLUGIN


class Kubelet:
    """Takes registrations; a new one empties its folder, as the real one does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        self.folder.mkdir(exist_ok=True)
        self.heard: queue.Queue[Any] = queue.Queue()

    def start(self) -> None:
        for old in self.folder.iterdir():
            old.unlink()

        def register(request: Any, _context: object) -> Any:
            self.heard.put(request)
            return KNOWN["Empty"]()

        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        method = grpc.unary_unary_rpc_method_handler(
            register,
            request_deserializer=KNOWN["RegisterRequest"].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        service = messages.DEVICE_REGISTRATION_SERVICE
        handler = grpc.method_handlers_generic_handler(service, {"Register": method})
        self.server.add_generic_rpc_handlers((handler,))
        self.server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        self.server.start()

    def registered(self) -> Any:
        return self.heard.get(timeout=PATIENCE_S)

    def stop(self) -> None:
        self.server.stop(None).wait()


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    # A path of a socket may be no longer than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gck") as folder:
        found = Kubelet(Path(folder))
        found.start()
        yield found
        found.stop()


def plugin_of(kubelet: Kubelet, **more: Any) -> DevicePlugin:
    offer = Offer(resource=RESOURCE, device=f"{RESOURCE}=proc", endpoint="ours.sock", **more)
    return DevicePlugin(kubelet.folder.parent, offer)


def channel(kubelet: Kubelet) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{kubelet.folder / 'ours.sock'}")


def allocate(line: grpc.Channel, containers: int) -> Any:
    one = KNOWN["ContainerAllocateRequest"](devices_ids=["0"])
    request = KNOWN["AllocateRequest"](container_requests=[one] * containers)
    call = line.unary_unary(
        f"/{messages.DEVICE_PLUGIN_SERVICE}/Allocate",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=KNOWN["AllocateResponse"].FromString,
    )
    return call(request, timeout=PATIENCE_S, wait_for_ready=True)


def test_a_kubelet_hears_of_it_lists_it_and_gives_it_to_containers(kubelet: Kubelet) -> None:
    plugin = plugin_of(kubelet)
    request = kubelet.registered()
    assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
    with channel(kubelet) as line:
        call = line.unary_stream(
            f"/{messages.DEVICE_PLUGIN_SERVICE}/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=KNOWN["ListAndWatchResponse"].FromString,
        )
        listed = call(KNOWN["Empty"](), timeout=PATIENCE_S, wait_for_ready=True)
        devices = next(listed).devices
        assert len({one.ID for one in devices}) == len(devices) > 110
        assert {one.health for one in devices} == {"Healthy"}
        answer = allocate(line, 2)
        given = [[one.name for one in row.cdi_devices] for row in answer.container_responses]
        assert given == [[f"{RESOURCE}=proc"]] * 2
        listed.cancel()
    plugin.close()
    assert not (kubelet.folder / "ours.sock").exists()


def test_a_kubelet_that_begins_anew_hears_of_it_again(kubelet: Kubelet) -> None:
    plugin = plugin_of(kubelet)
    kubelet.registered()
    kubelet.stop()
    kubelet.start()
    assert kubelet.registered().resource_name == RESOURCE
    with channel(kubelet) as line:
        assert allocate(line, 1).container_responses
    plugin.close()


def test_a_pod_does_not_start_where_the_node_is_not_as_it_was(kubelet: Kubelet) -> None:
    def broken() -> None:
        raise OSError(28, "No space left on device")

    plugin = plugin_of(kubelet, ready=broken)
    kubelet.registered()
    with channel(kubelet) as line, pytest.raises(grpc.RpcError, match="No space left on device"):
        allocate(line, 1)
    plugin.close()
