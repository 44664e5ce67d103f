"""Everything that a kubelet and the agent have to do with each other, for as long as it lasts."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.errors import GpuError
from gpucommons.gpu.kubelet.csi import SliceVolumes, handlers, registration, server
from gpucommons.gpu.kubelet.pod_resources import PodResources

logger = logging.getLogger(__name__)

_END_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletSettings:
    """Where the kubelet is, and under which names it knows us."""

    kubelet: Path
    #: Of the CSIDriver object.
    driver: str
    #: Of the Node object.
    node: str
    #: Folder of the driver's own socket, which the kubelet must reach by the same path.
    folder: Path
    #: Whose pods may have slices; None = all.
    namespaces: frozenset[str] | None = None


class Kubelet:
    """The driver of volumes, registered, and the reader of who holds what."""

    def __init__(self, settings: KubeletSettings, agent: AgentClient) -> None:
        self._stack = ExitStack()
        self.pod_resources = PodResources(settings.kubelet / "pod-resources" / "kubelet.sock")
        self._stack.callback(self.pod_resources.close)
        volumes = SliceVolumes(
            agent,
            settings.kubelet,
            given=self.pod_resources.given,
            namespaces=settings.namespaces,
        )
        # The agent answers as soon as its loop runs, which waits for this.
        threading.Thread(target=_sweep, args=(volumes,), name="sweep", daemon=True).start()
        endpoint = settings.folder / "csi.sock"
        self._serve(endpoint, handlers(volumes, driver=settings.driver, node=settings.node))
        registry = settings.kubelet / "plugins_registry"
        registry.mkdir(mode=0o750, exist_ok=True)
        # Last: from now on the kubelet asks.
        told = registration(settings.driver, endpoint, _registered)
        self._serve(registry / f"{settings.driver}-reg.sock", (told,))

    def close(self) -> None:
        """Answer the kubelet no more; what pods are shown stays."""
        self._stack.close()

    def _serve(self, path: Path, services: tuple[grpc.GenericRpcHandler, ...]) -> None:
        made = server(path, services)
        self._stack.callback(lambda: path.unlink(missing_ok=True))
        self._stack.callback(lambda: made.stop(_END_S).wait())


def _sweep(volumes: SliceVolumes) -> None:
    try:
        volumes.sweep()
    except (GpuError, OSError) as error:
        logger.warning("what earlier pods left is not cleared away: %s", error)


def _registered(trouble: str) -> None:
    if trouble:
        logger.error("the kubelet does not take this driver of volumes: %s", trouble)
    else:
        logger.info("the kubelet knows this driver of volumes")
