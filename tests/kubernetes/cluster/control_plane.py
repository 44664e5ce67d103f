"""A real control plane on 127.0.0.1: etcd, kube-apiserver, controller-manager, scheduler.

It is up in a few seconds, since etcd does not wait for the disk and nobody elects a leader. The
API server keeps its port when it is restarted, so that a client sees an outage and no new server.
"""

import ipaddress
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.harness.free_ports import free_port
from tests.kubernetes.api import api_client
from tests.kubernetes.cluster.certificates import Authority, service_account_keys
from tests.kubernetes.cluster.processes import Processes
from tests.kubernetes.toolchain import toolchain

PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
#: How a slow etcd divides its time.
_STANDS_S, _RUNS_S = 2.0, 0.2
START_SECONDS = 180.0
#: Memory instead of time, for programs in Go: of what they compute a sixth was looking for garbage.
LAVISH = {"GOGC": "400"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a control plane differs from the usual one."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: The range of Services; its first address is what pods know the API server by.
    services: str = "10.96.0.0/16"
    #: Write every request's user and verb to ``logs/audit.jsonl``.
    audit: bool = False
    #: Thousands of pods share the machine with it: many workers side by side, memory instead of time.
    large: bool = False


class ControlPlane:
    """One running control plane in one folder, and the levers to disturb it."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder
        self.options = options or Options()
        self.processes = Processes(folder)
        self.authority = Authority(folder / "certificates")
        self.port, self._etcd_port, self._peer_port = free_ports(3)
        self._apiserver: list[str | Path] = []
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self._kubeconfig("admin", groups=("system:masters",))

    @property
    def api_service(self) -> str:
        """The address of the `kubernetes` Service."""
        return str(ipaddress.ip_network(self.options.services)[1])

    def start(self) -> None:
        """Start all four and wait until pods could be created."""
        self._start_etcd()
        self._start_apiserver()
        self.wait_ready()
        for name in ("kube-controller-manager", "kube-scheduler"):
            self._start_controller(name)
        self._wait(self._has_default_account, "the default service account")

    def stop(self) -> None:
        """End all processes and forget the folder."""
        self.processes.stop_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> client.ApiClient:
        """A client of the administrator."""
        return api_client(self.kubeconfig)

    def restart_apiserver(self, *, kill: bool = True) -> None:
        """The API server goes and comes back: every watch breaks, its memory is gone."""
        self.processes.restart("kube-apiserver", kill=kill)
        self.wait_ready()

    @contextmanager
    def stopped_apiserver(self) -> Iterator[None]:
        """No API server while the block runs."""
        self.processes.stop("kube-apiserver", kill=True)
        try:
            yield
        finally:
            self._start_apiserver()
            self.wait_ready()

    @contextmanager
    def pause_etcd(self) -> Iterator[None]:
        """Etcd stands still while the block runs: requests hang, nothing is lost."""
        with self.paused("etcd"):
            yield

    @contextmanager
    def slow_etcd(self) -> Iterator[None]:
        """Etcd stands still most of the time while the block runs: all is slow, some times out."""
        over = threading.Event()

        def stutter() -> None:
            while not over.is_set():
                with self.paused("etcd"):
                    over.wait(_STANDS_S)
                over.wait(_RUNS_S)

        stuttering = threading.Thread(target=stutter)
        stuttering.start()
        try:
            yield
        finally:
            over.set()
            stuttering.join()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """A process stands still while the block runs."""
        self.processes.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes.signal(name, signal.SIGCONT)

    def wait_ready(self) -> None:
        """Wait until the API server answers that it is ready."""
        self._wait(self._is_ready, "the API server")

    def component_kubeconfig(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        """The kubeconfig of another user (a kubelet, a person): named as the user."""
        return self._kubeconfig(user, groups=groups)

    def _kubeconfig(self, user: str, *, groups: tuple[str, ...] = ()) -> Path:
        identity = self.authority.issue(user, groups=groups)
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        return self.authority.kubeconfig(path, server=self.server, identity=identity)

    def _start_etcd(self) -> None:
        url, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        self.processes.start(
            "etcd",
            [
                toolchain.find("etcd"),
                "--data-dir",
                self.folder / "etcd",
                "--unsafe-no-fsync",
                "--listen-client-urls",
                url,
                "--advertise-client-urls",
                url,
                "--listen-peer-urls",
                peers,
                "--initial-advertise-peer-urls",
                peers,
                "--initial-cluster",
                f"default={peers}",
                "--log-level",
                "error",
            ],
            environment=LAVISH,
        )

    def _start_apiserver(self) -> None:
        if not self._apiserver:
            self._apiserver = self._apiserver_command()
        self.processes.start("kube-apiserver", self._apiserver, environment=LAVISH)

    def _apiserver_command(self) -> list[str | Path]:
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        addresses = ("127.0.0.1", "localhost", self.api_service, *names)
        serving = self.authority.issue("kube-apiserver", addresses=addresses)
        kubelet = self.authority.issue("kube-apiserver-kubelet", groups=("system:masters",))
        accounts = service_account_keys(self.authority.folder)
        command: list[str | Path] = [
            toolchain.find("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",  # else it wants an address that is not loopback
            f"--service-cluster-ip-range={self.options.services}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={self.authority.certificate}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            "--allow-privileged=true",
            "--profiling=false",
        ]
        if self.options.large:
            command += ["--enable-priority-and-fairness=false", "--max-requests-inflight=0"]
            command += ["--max-mutating-requests-inflight=0"]
        return [*command, *self._gates(), *(self._audit_flags() if self.options.audit else [])]

    def _audit_flags(self) -> list[str]:
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
            "rules: [{level: Metadata}]\n"
        )
        log = self.processes.logs / "audit.jsonl"
        return [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]

    def _gates(self) -> list[str]:
        gates = self.options.feature_gates.items()
        named = ",".join(f"{name}={str(on).lower()}" for name, on in gates)
        return [f"--feature-gates={named}"] if named else []

    def _start_controller(self, name: str) -> None:
        config = self._kubeconfig(f"system:{name}")
        flags = [f"--kubeconfig={config}", "--leader-elect=false", *self._gates()]
        # The default limits would make every namespace and Job of the tests wait its turn.
        flags += ["--kube-api-qps=500", "--kube-api-burst=1000", "--bind-address=127.0.0.1"]
        flags += [f"--secure-port={free_ports(1)[0]}", f"--authentication-kubeconfig={config}"]
        flags += [f"--authorization-kubeconfig={config}"]
        if name == "kube-controller-manager":
            flags += [
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={self.authority.folder}/service-accounts.key",
                f"--root-ca-file={self.authority.certificate}",
                "--controllers=*,-nodeipam,-node-route-controller,-cloud-node-lifecycle-controller",
            ]
            if self.options.large:
                at_once = ("job", "gc", "service-endpoint", "ttl-after-finished")
                flags += [f"--concurrent-{one}-syncs=40" for one in at_once]
                flags += ["--node-monitor-grace-period=1200s"]
        if self.options.large:
            flags = [flag for flag in flags if not flag.startswith("--kube-api-")]
            flags += ["--kube-api-qps=5000", "--kube-api-burst=10000"]
        self.processes.start(name, [toolchain.find(name), *flags], environment=LAVISH)

    def _is_ready(self) -> bool:
        with self.client() as api:
            answer = api.rest_client.pool_manager.request(
                "GET", f"{self.server}/readyz", timeout=5, retries=False
            )
        return bool(answer.status == 200)

    def _has_default_account(self) -> bool:
        with self.client() as api:
            client.CoreV1Api(api).read_namespaced_service_account("default", "default")
        return True

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            for name in self.processes.names():
                self.processes.check(name)
            try:
                if condition():
                    return
            except (ApiException, HTTPError, OSError) as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{what} did not come in {START_SECONDS:.0f} s") from error
            time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    return [free_port() for _ in range(count)]
