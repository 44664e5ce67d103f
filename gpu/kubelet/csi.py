"""The agent as a driver of volumes: every pod that has a slice is shown the slice's folder.

So no pod of a user needs ``hostPath``, and namespaces may enforce PodSecurity ``restricted``. A
volume is mounted only after the slice's limit is in force and was read back: a pod whose limit
cannot be verified does not start, and its events say why. The kubelet asks again until it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent import futures
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from gpucommons.gpu.client.agent_client import Admission, AgentClient
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.errors import (
    AgentUnavailable,
    BadAgentRequest,
    GpuError,
    LimitNotInForce,
    SliceInUse,
    UnknownDevice,
    UnknownSlice,
)
from gpucommons.gpu.kubelet import messages
from gpucommons.gpu.kubelet.volumes import Claim, claim_of, pod_of_target, target_of
from gpucommons.gpu.linux import mounts
from gpucommons.gpu.slices.slice_folders import mount_name

logger = logging.getLogger(__name__)

#: A pod may be faster than the scheduler, which opens its slice at the same time.
PATIENCE_S = 5.0
_ASK_AGAIN_S = 0.2
#: A Kubernetes node runs 110 pods at most by default; few start at once.
_THREADS = 16
#: So many may wait for the scheduler; who comes then is told to come again, so that there is always
#: somebody free for pods whose slice is there.
_MAY_WAIT = _THREADS // 2

#: What the kubelet is told, by error; it asks again in every case.
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (BadAgentRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (UnknownSlice, grpc.StatusCode.NOT_FOUND),
    (LimitNotInForce, grpc.StatusCode.FAILED_PRECONDITION),
    (SliceInUse, grpc.StatusCode.FAILED_PRECONDITION),
    (AgentUnavailable, grpc.StatusCode.UNAVAILABLE),
    (GpuError, grpc.StatusCode.INTERNAL),
    (OSError, grpc.StatusCode.INTERNAL),
)


class SliceVolumes:
    """Publishes and takes back the volumes of one node."""

    def __init__(
        self,
        agent: AgentClient,
        kubelet: Path,
        *,
        given: Callable[[str, str], Sequence[DeviceId]] = lambda _namespace, _pod: (),
        namespaces: Container[str] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Only pods of ``namespaces`` are served; None = all."""
        self._namespaces = namespaces
        self._agent = agent
        #: The devices that the kubelet gave to a pod.
        self._given = given
        self._kubelet = kubelet
        self._patience_s = patience_s
        self._may_wait = threading.Semaphore(_MAY_WAIT)

    def publish(self, context: Mapping[str, str], target_path: str) -> None:
        """Show a pod its slice; again is harmless, and changes nothing for a pod that runs.

        Raises
        ------
        GpuError, OSError
            When the pod must not start.
        """
        claim = claim_of(context, target_path, self._kubelet, self._namespaces)
        admission = self._admit(claim)
        if _is_complete(claim):
            # Its containers would not see another mount, and losing this one would hide them.
            return
        try:
            _show(admission, claim.target)
        except OSError:
            self._take_back(claim.target)
            raise
        logger.info("pod %s is shown slice %s", claim.pod, claim.slice_id)

    def unpublish(self, target_path: str) -> None:
        """Take a volume back; one that is not there is taken back already.

        Raises
        ------
        GpuError, OSError
            When it is still mounted.
        """
        self._take_back(target_of(target_path, self._kubelet))

    def sweep(self) -> None:
        """Forget pods that went while nobody answered the kubelet."""
        for slice_id, pods in self._agent.tenants().items():
            for pod in pods:
                folder = self._kubelet / "pods" / pod
                if not folder.exists() and not mounts.points(folder):
                    logger.info("pod %s of slice %s is gone", pod, slice_id)
                    self._agent.dismiss(pod)

    def _admit(self, claim: Claim) -> Admission:
        if not self._may_wait.acquire(blocking=False):
            return self._admit_within(claim, 0)
        try:
            return self._admit_within(claim, self._patience_s)
        finally:
            self._may_wait.release()

    def _admit_within(self, claim: Claim, patience_s: float) -> Admission:
        deadline_s = time.monotonic() + patience_s
        while True:
            try:
                return self._admit_once(claim)
            except UnknownSlice:
                if time.monotonic() >= deadline_s:
                    message = (
                        f"The scheduler has not opened slice {claim.slice_id} on this node: the pod "
                        "starts when it has. Where it never does, the grant is over: delete the pod."
                    )
                    raise UnknownSlice(message) from None
            time.sleep(_ASK_AGAIN_S)

    def _admit_once(self, claim: Claim) -> Admission:
        try:
            return self._agent.admit(claim.slice_id, claim.pod)
        except UnknownDevice:
            given = self._given(claim.namespace, claim.name)
            if not given:
                message = (
                    f"The kubelet has given no GPU to pod {claim.namespace}/{claim.name}, whose slice "
                    "is whole GPUs that it chooses: the pod must ask for them."
                )
                raise LimitNotInForce(message) from None
            return self._agent.admit(claim.slice_id, claim.pod, given)

    def _take_back(self, target: Path) -> None:
        mounts.unmount(target)
        mounts.remove_folder(target)
        self._agent.dismiss(pod_of_target(target, self._kubelet))


def _show(admission: Admission, target: Path) -> None:
    """Mount the folder read-only, and over it what is different for a pod."""
    mounts.unmount(target)
    mounts.make_folder(target)
    mounts.bind(admission.folder, target, writable=True)
    for overlay in admission.overlays:
        mounts.bind(overlay.source, target / overlay.name, writable=overlay.writable)
    # Last: a folder that is closed to writers is complete.
    mounts.make_read_only(target)


def _is_complete(claim: Claim) -> bool:
    """Whether the pod's volume is mounted to the last step, with this slice in it."""
    shown = (mount_name(claim.slice_id), claim.target) in mounts.named()
    return shown and mounts.is_read_only(claim.target)


def handlers(
    volumes: SliceVolumes, *, driver: str, node: str
) -> tuple[grpc.GenericRpcHandler, ...]:
    """The driver's two services."""
    csi = messages.CSI

    def publish(request: Message) -> Message:
        context = dict(messages.value_of(request, "volume_context"))
        volumes.publish(context, messages.value_of(request, "target_path"))
        return csi["NodePublishVolumeResponse"]()

    def unpublish(request: Message) -> Message:
        volumes.unpublish(messages.value_of(request, "target_path"))
        return csi["NodeUnpublishVolumeResponse"]()

    info = csi["GetPluginInfoResponse"](name=driver, vendor_version=version("gpucommons"))
    ready = csi["ProbeResponse"](ready=csi["BoolValue"](value=True))
    return (
        service(
            messages.IDENTITY_SERVICE,
            csi,
            {
                "GetPluginInfo": lambda _: info,
                "GetPluginCapabilities": lambda _: csi["GetPluginCapabilitiesResponse"](),
                "Probe": lambda _: ready,
            },
        ),
        service(
            messages.NODE_SERVICE,
            csi,
            {
                "NodeGetInfo": lambda _: csi["NodeGetInfoResponse"](node_id=node),
                "NodeGetCapabilities": lambda _: csi["NodeGetCapabilitiesResponse"](),
                "NodePublishVolume": publish,
                "NodeUnpublishVolume": unpublish,
            },
        ),
    )


def registration(driver: str, endpoint: Path, registered: Callable[[str], None]) -> Any:
    """The service by which a kubelet learns of the driver; ``registered`` hears what it made of it."""
    known = messages.REGISTRATION
    info = known["PluginInfo"](
        type="CSIPlugin", name=driver, endpoint=str(endpoint), supported_versions=["1.0.0"]
    )

    def notify(request: Message) -> Message:
        done = messages.value_of(request, "plugin_registered")
        registered("" if done else str(messages.value_of(request, "error") or "no reason given"))
        return known["RegistrationStatusResponse"]()

    return service(
        messages.REGISTRATION_SERVICE,
        known,
        {"GetInfo": lambda _: info, "NotifyRegistrationStatus": notify},
        requests={"GetInfo": "InfoRequest", "NotifyRegistrationStatus": "RegistrationStatus"},
    )


def service(
    name: str,
    known: Mapping[str, type[Message]],
    answers: Mapping[str, Callable[[Message], Message]],
    requests: Mapping[str, str] | None = None,
) -> grpc.GenericRpcHandler:
    """A service from its answers; a request is called as its method, with ``Request`` behind."""
    return grpc.method_handlers_generic_handler(
        name,
        {
            method: grpc.unary_unary_rpc_method_handler(
                _answering(answer),
                request_deserializer=known[
                    (requests or {}).get(method, f"{method}Request")
                ].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for method, answer in answers.items()
        },
    )


def server(path: Path, handlers_: tuple[grpc.GenericRpcHandler, ...]) -> grpc.Server:
    """A server on a socket that only root reaches, started."""
    path.unlink(missing_ok=True)
    made = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix=path.stem),
        handlers=handlers_,
    )
    made.add_insecure_port(f"unix:{path}")
    made.start()
    path.chmod(0o600)
    return made


def _answering(answer: Callable[[Message], Message]) -> Callable[[Message, Any], Message]:
    def handle(request: Message, context: grpc.ServicerContext) -> Message:
        try:
            return answer(request)
        except (GpuError, OSError) as error:
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            logger.warning("%s", error)
            context.abort(code, str(error))
            raise  # abort has raised already

    return handle
