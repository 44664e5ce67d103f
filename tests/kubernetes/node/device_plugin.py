"""A device plugin that hands out the GPUs that NVML shows on its node, as NVIDIA's does.

The kubelet learns of `nvidia.com/gpu` devices by their UUIDs, and a container that asks for some
gets them named in `NVIDIA_VISIBLE_DEVICES`. With the fake NVML in `LD_LIBRARY_PATH` no GPU is
needed. While the file given with `--unhealthy` names UUIDs, these are reported broken.
"""

import argparse
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import grpc
import pynvml
from grpc_tools import protoc

PROTO = Path(__file__).parent / "proto"
RESOURCE = "nvidia.com/gpu"
#: The kubelet fixes this folder, whatever its root is.
FOLDER = Path("/var/lib/kubelet/device-plugins")
ENDPOINT = "gpucommons-test.sock"
LOOK_AGAIN_SECONDS = 1.0


def stubs(folder: Path) -> tuple[Any, Any]:
    """The messages and the services, compiled from the `.proto` file into a folder."""
    folder.mkdir(exist_ok=True)
    command = ["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if protoc.main([*command, "deviceplugin.proto"]) != 0:
        raise RuntimeError("deviceplugin.proto does not compile")
    sys.path.insert(0, str(folder))
    return (
        importlib.import_module("deviceplugin_pb2"),
        importlib.import_module("deviceplugin_pb2_grpc"),
    )


def nvml_uuids() -> list[str]:
    """The UUIDs of the devices that NVML shows here."""
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]


class DevicePlugin:
    """The service that the kubelet calls."""

    def __init__(self, messages: Any, uuids: list[str], unhealthy: Path | None) -> None:
        self._messages = messages
        self._uuids = uuids
        self._unhealthy = unhealthy
        self._ended = threading.Event()

    def GetDevicePluginOptions(self, _request: Any, _context: Any) -> Any:  # noqa: N802 its name in the API
        """No call before a container starts, no preferences."""
        return self._messages.DevicePluginOptions()

    def ListAndWatch(self, _request: Any, context: Any) -> Iterator[Any]:  # noqa: N802 its name in the API
        """All devices, and all again whenever the health of one changes."""
        told = None
        while context.is_active() and not self._ended.is_set():
            broken = self._broken()
            if broken != told:
                told = broken
                yield self._messages.ListAndWatchResponse(
                    devices=[
                        self._messages.Device(
                            ID=uuid, health="Unhealthy" if uuid in broken else "Healthy"
                        )
                        for uuid in self._uuids
                    ]
                )
            self._ended.wait(LOOK_AGAIN_SECONDS)

    def Allocate(self, request: Any, _context: Any) -> Any:  # noqa: N802 its name in the API
        """Name each container's devices in the variable that NVIDIA's runtime reads."""
        return self._messages.AllocateResponse(
            container_responses=[
                self._messages.ContainerAllocateResponse(
                    envs={"NVIDIA_VISIBLE_DEVICES": ",".join(one.devices_ids)}
                )
                for one in request.container_requests
            ]
        )

    def end(self) -> None:
        """Let the stream to the kubelet end."""
        self._ended.set()

    def _broken(self) -> frozenset[str]:
        if self._unhealthy is None or not self._unhealthy.exists():
            return frozenset()
        return frozenset(self._unhealthy.read_text().split())


def main() -> None:
    """Serve, register, and register again whenever the kubelet was restarted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stubs", type=Path, required=True, help="folder for compiled stubs")
    parser.add_argument("--unhealthy", type=Path)
    parser.add_argument("--resource", default=RESOURCE)
    parser.add_argument("--endpoint", default=ENDPOINT, help="its socket beside the kubelet's")
    parser.add_argument("--instances", nargs="*", help="UUIDs; without them those that NVML shows")
    arguments = parser.parse_args()
    messages, services = stubs(arguments.stubs)
    uuids = nvml_uuids() if arguments.instances is None else arguments.instances
    plugin = DevicePlugin(messages, uuids, arguments.unhealthy)
    socket = FOLDER / arguments.endpoint
    request = messages.RegisterRequest(
        version="v1beta1", endpoint=arguments.endpoint, resource_name=arguments.resource
    )
    # Not an event: a signal may come while its lock is held by the very thread that the handler runs in.
    ended: SimpleQueue[None] = SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: ended.put(None))
    kubelet = FOLDER / "kubelet.sock"
    born = None
    server = None
    while True:
        now = _born(kubelet)
        if now is not None and (now != born or not socket.exists()):
            # A new kubelet has emptied the folder.
            if server is not None:
                # It takes the socket's file with it, whoever has made it by then.
                server.stop(None).wait()
            server = _serve(services, plugin, socket)
            born = now if _register(services, kubelet, request) else None
        with suppress(Empty):
            ended.get(timeout=LOOK_AGAIN_SECONDS / 4)
            break
    plugin.end()


def _born(kubelet: Path) -> tuple[int, int] | None:
    """Tells one kubelet's socket from the next one's, which may get the same number."""
    try:
        found = kubelet.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _serve(services: Any, plugin: DevicePlugin, socket: Path) -> Any:
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    services.add_DevicePluginServicer_to_server(plugin, server)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


def _register(services: Any, kubelet: Path, request: Any) -> bool:
    with grpc.insecure_channel(f"unix:{kubelet}") as channel:
        try:
            services.RegistrationStub(channel).Register(request, timeout=5)
        except grpc.RpcError:
            return False
    return True


if __name__ == "__main__":
    main()
