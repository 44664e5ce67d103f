"""What real nodes need beside containerd and kubelet: DNS, Services, GPUs."""

import importlib.util
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster.control_plane import ControlPlane
from tests.kubernetes.cluster.network import Network, make_bridge
from tests.kubernetes.node.real_node import LIBRARY, NVML_STATE, RealNode
from tests.kubernetes.toolchain import toolchain

ROOT = Path(__file__).parents[3]
FAKE_NVML = ROOT / "tests" / "gpu" / "fake_nvml"


def start_network(plane: ControlPlane, network: Network, nodes: int) -> None:
    """The bridge of all pods, names of Services and their cluster addresses."""
    make_bridge(network, nodes)
    corefile = plane.folder / "Corefile"
    corefile.write_text(
        textwrap.dedent(f"""\
        .:53 {{
            bind {network.gateway}
            errors
            kubernetes cluster.local {{
                kubeconfig {plane.kubeconfig} tests
            }}
        }}
        """)
    )
    plane.processes.start("coredns", [toolchain.find("coredns"), "-conf", corefile])
    plane.processes.start(
        "service-proxy",
        [
            *(sys.executable, "-m", "tests.kubernetes.node.service_proxy"),
            *("--kubeconfig", plane.kubeconfig, "--bridge", network.bridge),
            *("--network-number", str(network.number), "--apiserver-port", str(plane.port)),
        ],
        environment={"PYTHONPATH": str(ROOT)},
    )


def fake_nvml_library(folder: Path) -> Path:
    """Compile the fake NVML; the folder for LD_LIBRARY_PATH."""
    target = folder / LIBRARY
    target.mkdir()
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    compiler = [found] if found else [sys.executable, "-m", "ziglang", "cc"]
    flags = ["-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-fvisibility=hidden"]
    flags += ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(target / "libnvidia-ml.so.1")]
    subprocess.run([*compiler, *flags, FAKE_NVML / "fake_nvml.c"], check=True)
    return target


def pretend_cards(node: RealNode, *, first: int, count: int) -> None:
    """What the fake NVML shows on a node; cards are numbered through the whole cluster."""
    node.folder.mkdir()
    state = node.folder / NVML_STATE
    fake_nvml_state().FakeNvml(state, cards=count, first=first)
    state.chmod(0o666)  # pods of any user map it


def start_device_plugin(node: RealNode, library: Path) -> None:
    """Hand the cards that the fake NVML shows out through the kubelet."""
    node.start_process(
        "device-plugin",
        [
            *(sys.executable, "-m", "tests.kubernetes.node.device_plugin"),
            *("--stubs", node.folder / "stubs", "--unhealthy", node.folder / "unhealthy"),
        ],
        environment={
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_STATE": str(node.folder / NVML_STATE),
            "PYTHONPATH": str(ROOT),
        },
    )


def start_plugin_of_instances(node: RealNode, resource: str, uuids: Sequence[str]) -> None:
    """Hand out instances that a card of the node is cut into, as one more resource."""
    node.start_process(
        "instances",
        [
            *(sys.executable, "-m", "tests.kubernetes.node.device_plugin"),
            *("--stubs", node.folder / "stubs", "--resource", resource),
            *("--endpoint", "gpucommons-instances.sock", "--instances", *uuids),
        ],
        environment={"PYTHONPATH": str(ROOT)},
    )


def fake_nvml_state() -> Any:
    """The module that writes the state of the fake NVML."""
    spec = importlib.util.spec_from_file_location("fake_nvml_state", FAKE_NVML / "state_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
