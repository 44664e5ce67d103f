"""A device that is no hardware: pods that ask for it get something of their node.

The kubelet knows devices only by number, so the node offers more of them than it runs pods.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf.message import Message

from gpucommons.gpu.kubelet import messages
from gpucommons.gpu.kubelet.csi import server

logger = logging.getLogger(__name__)

#: The kubelet fixes this folder below its own.
FOLDER = "device-plugins"
_VERSION = "v1beta1"
#: More than the pods of any node; a thousand would be written `1k`.
_COUNT = 512
_LOOK_S = 1.0
_TIMEOUT_S = 5.0
_END_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """What a pod asks for, and what it gets."""

    resource: str
    #: The device's name in the Container Device Interface.
    device: str
    #: Of our socket, beside the kubelet's.
    endpoint: str
    #: Called before a pod gets it; an error keeps the pod from starting.
    ready: Callable[[], None] = lambda: None


class DevicePlugin:
    """Offers the device for as long as it is open, also to a kubelet that begins anew."""

    def __init__(self, kubelet: Path, offer: Offer) -> None:
        self._folder = kubelet / FOLDER
        self._offer = offer
        self._ended = threading.Event()
        #: Of each list that a kubelet reads: set when nobody reads it any more.
        self._lists: list[threading.Event] = []
        self._server: grpc.Server | None = None
        self._thread = threading.Thread(target=self._run, name="device-plugin", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take the offer back; pods that run keep what they have."""
        self._ended.set()
        self._thread.join()
        for over in self._lists:
            over.set()
        if self._server is not None:
            self._server.stop(_END_S).wait()
        (self._folder / self._offer.endpoint).unlink(missing_ok=True)

    def _run(self) -> None:
        known: tuple[int, int] | None = None
        while True:
            kubelet = _born(self._folder / "kubelet.sock")
            # A new kubelet has emptied the folder.
            is_gone = not (self._folder / self._offer.endpoint).exists()
            if kubelet is not None and (kubelet != known or is_gone):
                try:
                    self._serve()
                    self._register()
                    known = kubelet
                except (grpc.RpcError, OSError, RuntimeError) as error:
                    known = None
                    logger.warning(
                        "the kubelet does not know %s yet: %s", self._offer.resource, error
                    )
            if self._ended.wait(_LOOK_S):
                return

    def _serve(self) -> None:
        if self._server is not None:
            # It takes the socket's file with it.
            self._server.stop(None).wait()
        self._server = server(self._folder / self._offer.endpoint, (self._handler(),))

    def _register(self) -> None:
        known = messages.DEVICE_PLUGIN
        request = known["RegisterRequest"](
            version=_VERSION, endpoint=self._offer.endpoint, resource_name=self._offer.resource
        )
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                f"/{messages.DEVICE_REGISTRATION_SERVICE}/Register",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=known["Empty"].FromString,
            )
            call(request, timeout=_TIMEOUT_S)
        logger.info("pods can ask for %s", self._offer.resource)

    def _handler(self) -> grpc.GenericRpcHandler:
        known = messages.DEVICE_PLUGIN

        def send(message: Message) -> bytes:
            return message.SerializeToString()

        return grpc.method_handlers_generic_handler(
            messages.DEVICE_PLUGIN_SERVICE,
            {
                "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
                    lambda _request, _context: known["DevicePluginOptions"](),
                    request_deserializer=known["Empty"].FromString,
                    response_serializer=send,
                ),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list,
                    request_deserializer=known["Empty"].FromString,
                    response_serializer=send,
                ),
                "Allocate": grpc.unary_unary_rpc_method_handler(
                    self._allocate,
                    request_deserializer=known["AllocateRequest"].FromString,
                    response_serializer=send,
                ),
            },
        )

    def _list(self, _request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        """All devices, once: as long as they are listed they are healthy."""
        over = threading.Event()
        context.add_callback(over.set)
        self._lists = [one for one in self._lists if not one.is_set()] + [over]
        known = messages.DEVICE_PLUGIN
        rows = [known["Device"](ID=str(number), health="Healthy") for number in range(_COUNT)]
        yield known["ListAndWatchResponse"](devices=rows)
        over.wait()

    def _allocate(self, request: Message, context: grpc.ServicerContext) -> Message:
        known = messages.DEVICE_PLUGIN
        try:
            self._offer.ready()
        except (OSError, ValueError) as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
        given = known["ContainerAllocateResponse"](
            cdi_devices=[known["CDIDevice"](name=self._offer.device)]
        )
        containers = messages.value_of(request, "container_requests")
        return known["AllocateResponse"](container_responses=[given] * len(containers))


def _born(socket: Path) -> tuple[int, int] | None:
    """Tells one kubelet's socket from the next one's, which may get the same number."""
    with suppress(FileNotFoundError):
        found = socket.stat()
        return found.st_ino, found.st_ctime_ns
    return None
