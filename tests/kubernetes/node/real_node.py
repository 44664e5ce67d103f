"""A real node: containerd, runc and kubelet, apart from this machine and from the other nodes.

Each node lives in a mount namespace of its own, in which /run, /var/lib and /var/log are its own:
so every path is the one of an ordinary node (/var/lib/kubelet, /run/containerd), and nothing is
left outside. Its control groups are its own too, else each kubelet would kill the other's pods.
"""

import json
import os
import signal
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.control_plane import LAVISH, ControlPlane, free_ports
from tests.kubernetes.cluster.network import Network
from tests.kubernetes.cluster.remains import CGROUPS
from tests.kubernetes.node.gpu_runtime import write_wrapper
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.images import TOOLS

PROGRAMS = ["containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubelet"]
PROGRAMS += ["bridge", "loopback", "host-local", "coredns"]
#: The label of real nodes: on them alone a pod has processes.
REAL = "tests.gpucommons.io/real"
#: Below the cluster's folder: the fake NVML; below the node's: what it shows.
LIBRARY = "fake-nvml"
NVML_STATE = "nvml-state"
SOCKET = "/run/containerd/containerd.sock"


class RealNode:
    """One node of a cluster; `index` tells it from the others of this machine."""

    def __init__(self, plane: ControlPlane, network: Network, index: int) -> None:
        self.name = f"node-{index + 1}"
        self.address = network.node_address(index)
        self.folder = plane.folder / self.name
        self._plane = plane
        self._network = network
        self._index = index
        self._groups = f"{plane.folder.name}-{index + 1}"

    def start(self, labels: dict[str, str] | None = None) -> None:
        """Start the node; it is Ready some seconds later."""
        for part in ("var-lib/kubelet", "var-log", "containerd", "cni", "opt"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._make_cgroups()
        self._hold_namespace()
        (self.folder / "cni" / "10-bridge.conflist").write_text(self._cni_config())
        config = self.folder / "containerd.toml"
        config.write_text(self._containerd_config())
        self._start("containerd", [toolchain.find("containerd"), "--config", config], LAVISH)
        self._start("kubelet", self._kubelet_command(labels or {}), LAVISH)

    def import_image(self, archive: Path) -> None:
        """Make an image known to the node's containerd."""
        wait_for(self._containerd_answers, f"containerd of {self.name}")
        self.run(toolchain.find("ctr"), "-a", SOCKET, "-n", "k8s.io", "images", "import", archive)

    def inside(self, *command: str | Path) -> list[str | Path]:
        """The command line that runs a command in the node's mount namespace."""
        holder = self._plane.processes.pid(f"{self.name}-namespace")
        return ["nsenter", f"--mount=/proc/{holder}/ns/mnt", "--", *command]

    def run(self, *command: str | Path) -> str:
        """Run a command in the node's mount namespace; what it said."""
        answer = subprocess.run(self.inside(*command), check=False, capture_output=True, text=True)
        if answer.returncode:
            raise RuntimeError(f"{command[0]} on {self.name}: {answer.stderr[-2000:]}")
        return answer.stdout

    def start_process(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a process that belongs to the node (an agent, a device plugin)."""
        self._start(name, command, environment)

    def stop_process(self, name: str) -> None:
        """End such a process."""
        self._plane.processes.stop(f"{self.name}-{name}")

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """The kubelet stands still while the block runs: its pods go on, nobody hears of them."""
        name = f"{self.name}-kubelet"
        self._plane.processes.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self._plane.processes.signal(name, signal.SIGCONT)

    def restart_kubelet(self) -> None:
        """The kubelet comes back and adopts the pods that run."""
        self._plane.processes.restart(f"{self.name}-kubelet", kill=True)

    def outside(self, path: str) -> Path:
        """Where a file below the node's /var/lib lies for this machine (mounts are not seen)."""
        return self.folder / "var-lib" / Path(path).relative_to("/var/lib")

    def _start(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # A shim or a pod outlives its parent; the control group finds it all the same.
        join = "".join(f"echo $$ > {group}/cgroup.procs; " for group in self._system_groups())
        script = f'{join}exec "$@"'
        self._plane.processes.start(
            f"{self.name}-{name}",
            self.inside("sh", "-c", script, "sh", *command),
            environment={
                "PATH": f"{toolchain.find('runc').parent}:{os.environ['PATH']}",
                **(environment or {}),
            },
        )

    def _hold_namespace(self) -> None:
        script = textwrap.dedent("""\
            mount --bind "$1/var-lib" /var/lib && mount --bind "$1/var-log" /var/log &&
            mount -t tmpfs tmpfs /run && mkdir -p /run/containerd && mount --make-rshared / &&
            touch "$1/namespace-ready" && exec sleep infinity""")
        self._plane.processes.start(
            f"{self.name}-namespace",
            [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                "sh",
                self.folder,
            ],
        )
        wait_for((self.folder / "namespace-ready").exists, "the node's mount namespace")

    def _system_groups(self) -> list[Path]:
        name = f"{self._groups}-system"
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / name]
        return [CGROUPS / "pids" / name]

    def _make_cgroups(self) -> None:
        for group in self._system_groups():
            group.mkdir(parents=True, exist_ok=True)
        if (CGROUPS / "cgroup.controllers").exists():
            (CGROUPS / self._groups).mkdir()
            controllers = (CGROUPS / "cgroup.controllers").read_text().split()
            wanted = " ".join(f"+{name}" for name in controllers)
            for group in (CGROUPS, CGROUPS / self._groups):
                (group / "cgroup.subtree_control").write_text(wanted)
            return
        for controller in CGROUPS.iterdir():
            if controller.name == "unified" or controller.is_symlink():
                continue
            group = controller / self._groups
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which takes nobody
                if (controller / name).exists():
                    (group / name).write_text((controller / name).read_text())

    def _containerd_answers(self) -> bool:
        command = self.inside(toolchain.find("ctr"), "-a", SOCKET, "version")
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def _cni_config(self) -> str:
        first, last = self._network.pod_range(self._index)
        plugin = {
            "type": "bridge",
            "bridge": self._network.bridge,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": f"{self.folder}/cni/addresses",
                "ranges": [
                    [
                        {
                            "subnet": self._network.pods,
                            "rangeStart": first,
                            "rangeEnd": last,
                            "gateway": self._network.gateway,
                        }
                    ]
                ],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]})

    def _containerd_config(self) -> str:
        plugins = toolchain.find("bridge").parent
        return textwrap.dedent(f"""\
            version = 3
            root = "{self.folder}/containerd"
            state = "/run/containerd"
            [grpc]
            address = "{SOCKET}"
            [plugins.'io.containerd.internal.v1.opt']
            path = "{self.folder}/opt"
            [plugins.'io.containerd.cri.v1.images'.pinned_images]
            sandbox = "{TOOLS}"
            [plugins.'io.containerd.cri.v1.runtime']
            restrict_oom_score_adj = true
            disable_apparmor = true
            disable_hugetlb_controller = true
            netns_mounts_under_state_dir = true
            [plugins.'io.containerd.cri.v1.runtime'.cni]
            bin_dirs = ["{plugins}"]
            conf_dir = "{self.folder}/cni"
            [plugins.'io.containerd.cri.v1.runtime'.containerd]
            default_runtime_name = "runc"
            [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
            runtime_type = "io.containerd.runc.v2"
            [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            BinaryName = "{self._runtime()}"
            SystemdCgroup = false
            """)

    def _runtime(self) -> Path:
        library = self._plane.folder / LIBRARY / "libnvidia-ml.so.1"
        return write_wrapper(
            self.folder / "runc",
            runc=toolchain.find("runc"),
            library=library,
            state=self.folder / NVML_STATE,
        )

    def _kubelet_command(self, labels: dict[str, str]) -> list[str | Path]:
        path = self.folder / "kubelet.yaml"
        path.write_text(yaml.safe_dump(self._kubelet_config()))
        user = f"system:node:{self.name}"
        config = self._plane.component_kubeconfig(user, groups=("system:nodes",))
        named = ",".join(f"{name}={value}" for name, value in (labels | {REAL: "true"}).items())
        return [
            toolchain.find("kubelet"),
            f"--config={path}",
            f"--kubeconfig={config}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            f"--node-labels={named}",
        ]

    def _kubelet_config(self) -> dict[str, object]:
        port, health = free_ports(2)
        full = dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": port,
            "healthzBindAddress": self.address,
            "healthzPort": health,
            "readOnlyPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._plane.authority.certificate)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._groups}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "clusterDNS": [self._network.gateway],
            "clusterDomain": "cluster.local",
            "evictionHard": full | {"imagefs.inodesFree": "0%", "memory.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
            "syncFrequency": "10s",
            "nodeStatusUpdateFrequency": "5s",
            "nodeLeaseDurationSeconds": 20,
            "shutdownGracePeriod": "0s",
            "maxPods": 60,
            "serializeImagePulls": False,
        }
