"""A node whose kubelet is the test: an agent in Kubernetes' mode, asked as a kubelet asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpucommons.gpu.client.agent_client import AgentClient
from gpucommons.gpu.kubelet import messages
from gpucommons.gpu.linux import mounts
from gpucommons.gpu.slices.slices import DeviceShare, GpuSlice, SliceId

DRIVER = "slices.test"


@dataclass
class Node:
    """The kubelet's side of one node."""

    kubelet: Path
    agent: AgentClient
    process: subprocess.Popen[bytes]
    restart: Callable[[], Node]
    channels: list[grpc.Channel] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.kubelet / "plugins" / DRIVER

    def ask(self, service: str, method: str, path: Path | None = None, **fields: Any) -> Any:
        """Call the driver, or the service by which it registers."""
        known = messages.CSI if path is None else messages.REGISTRATION
        named = {"NotifyRegistrationStatus": "RegistrationStatus", "GetInfo": "InfoRequest"}
        answers = {
            "NotifyRegistrationStatus": "RegistrationStatusResponse",
            "GetInfo": "PluginInfo",
        }
        request = known[named.get(method, f"{method}Request")](**fields)
        with grpc.insecure_channel(f"unix:{path or self.state / 'csi.sock'}") as channel:
            call = channel.unary_unary(
                f"/{service}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=known[answers.get(method, f"{method}Response")].FromString,
            )
            return call(request, timeout=60, wait_for_ready=True)

    def target(self, pod: str, volume: str = "slice") -> Path:
        """Where this pod's volume goes; its parent is there, as the kubelet makes it."""
        path = self.kubelet / "pods" / pod / "volumes" / "kubernetes.io~csi" / volume / "mount"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def publish(self, pod: str, *, name: str = "nb", **attributes: str) -> Path:
        """Ask for a volume, as for a pod that starts."""
        target = self.target(pod)
        context = {
            "csi.storage.k8s.io/pod.name": name,
            "csi.storage.k8s.io/pod.namespace": "users",
            "csi.storage.k8s.io/pod.uid": pod,
            "csi.storage.k8s.io/serviceAccount.name": "default",
            "csi.storage.k8s.io/ephemeral": "true",
            **attributes,
        }
        self.ask(
            messages.NODE_SERVICE,
            "NodePublishVolume",
            volume_id="csi-1",
            target_path=str(target),
            volume_context=context,
        )
        return target

    def unpublish(self, pod: str) -> None:
        """Take it back, as from a pod that ended."""
        self.ask(
            messages.NODE_SERVICE,
            "NodeUnpublishVolume",
            volume_id="csi-1",
            target_path=str(self.target(pod)),
        )


def new_pod() -> str:
    return str(uuid.uuid4())


def gpu_slice(name: str, device: str = "sim-0", milli_gpu: int = 500) -> GpuSlice:
    return GpuSlice(
        slice_id=SliceId(name),
        shares=(DeviceShare(device_id=device, milli_gpu=milli_gpu),),  # type: ignore[arg-type]
        memory_mib=8192,
    )


@pytest.fixture(scope="session")
def may_mount() -> None:
    """Mounting needs root; where there is none, these tests say so."""
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    try:
        if os.geteuid() != 0:
            pytest.skip("mounting needs root")
        try:
            mounts.tmpfs(folder, name="test", size_bytes=4096, files=8)
        except OSError as error:
            pytest.skip(f"mounting is refused here: {error}")
        mounts.unmount(folder)
    finally:
        folder.rmdir()


@pytest.fixture
def kubelet_folder(may_mount: None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gc")).resolve()
    yield folder
    mounts.unmount(folder)
    shutil.rmtree(folder)


@pytest.fixture
def start_node(kubelet_folder: Path, start_agent: Any) -> Callable[..., Node]:
    def start(*options: str, env: dict[str, str] | None = None) -> Node:
        state = kubelet_folder / "plugins" / DRIVER
        state.mkdir(parents=True, exist_ok=True)
        process, client = start_agent(
            "--kubernetes", "--kubelet-dir", str(kubelet_folder), "--csi-driver", DRIVER,
            "--node", "node-1", *options, folder=state, env=env,
        )  # fmt: skip

        def restart() -> Node:
            process.kill()
            process.wait()
            return start(*options, env=env)

        return Node(kubelet=kubelet_folder, agent=client, process=process, restart=restart)

    return start


@pytest.fixture
def node(start_node: Callable[..., Node]) -> Node:
    """Two simulated GPUs."""
    return start_node("--simulate", "2", "--ignore-real")
