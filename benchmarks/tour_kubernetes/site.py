"""The ground under the tour: a cluster with two real nodes, object storage, scheduler, hub, culler.

Scheduler, hub and culler run beside the cluster and reach it with a kubeconfig; notebooks and jobs
are pods, in namespaces that enforce PodSecurity `restricted`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import obstore
import yaml
from kubernetes import client
from obstore.store import S3Store

from benchmarks.tour.playing import gpucommons
from benchmarks.tour.timeline import TourFailedError, wait_for
from gpucommons.gpu.hibernation.criu import VARIABLE, find_criu, state_folder
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.scheduler.up.proxy import find_proxy
from tests.kubernetes.cluster import control_plane
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.control_plane import free_ports
from tests.kubernetes.gpu.node_agent import PORT, NodeAgent
from tests.kubernetes.node import real_node
from tests.kubernetes.node.real_node import REAL, RealNode
from tests.kubernetes.pods import make_volume
from tests.kubernetes.toolchain import toolchain
from tests.kubernetes.toolchain.images import PYTHON

HERE = Path(__file__).parent
CONFIG = HERE / "site.yaml"
HUB, JOBS, SYSTEM, AGENTS = "tour-hub", "tour-jobs", "tour-system", "tour-agents"
BUCKET = "jobs"
#: What has to be there to start it.
PROGRAMS = [*control_plane.PROGRAMS, *real_node.PROGRAMS, "versitygw"]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class Site:
    """Starts everything, and takes it down again whatever happens."""

    def __init__(self, *, idle_after_s: int, warn_after_s: int, reservations: str) -> None:
        self.password = secrets.token_hex(8)
        self._reservations = reservations
        self._idle = ["--idle-after-s", str(idle_after_s), "--warn-after-s", str(warn_after_s)]
        self._tokens = {name: secrets.token_hex(24) for name in ("scheduler", "culler", "spawner")}
        self._cluster = Cluster()
        self._folder = Path(tempfile.mkdtemp(prefix="gctour"))
        self.state = self._folder / "state"
        self.state.mkdir(mode=0o700)
        api, pages, hub, public, proxy, storage = free_ports(6)
        gateway = self._cluster.network.gateway
        self._ports = {"api": api, "pages": pages, "storage": storage}
        self.url = f"http://127.0.0.1:{public}"
        self.api_url = f"http://{gateway}:{api}"
        self._storage_url = f"http://{gateway}:{storage}"
        self._facts: dict[str, Any] = {
            "state": str(self.state),
            "password": self.password,
            "tokens": self._tokens,
            "api_url": self.api_url,
            "pages_url": f"http://{gateway}:{pages}",
            "hub_url": f"http://{gateway}:{hub}",
            "public_url": self.url,
            "proxy_api_url": f"http://127.0.0.1:{proxy}",
            "proxy_token": secrets.token_hex(24),
            "namespace": HUB,
            "image": PYTHON,
            "node_selector": {REAL: "true"},
            "teams": {"vision": ["alice"], "nlp": ["bob"]},
        }

    def __enter__(self) -> Self:
        try:
            self._start_cluster()
            self._start_agents()
            self._start_storage()
            self._start_scheduler()
            self._start_hub()
            self._start_culler()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def client(self) -> client.CoreV1Api:
        """The administrator's view of the cluster."""
        return client.CoreV1Api(self._cluster.client())

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``gpucommons …`` as the operator."""
        return gpucommons(*words, env={**os.environ, "GPUCOMMONS_STATE": str(self.state)})

    def nodes(self) -> list[str]:
        """The real ones."""
        return list(self._cluster.real_nodes())

    def machine(self, node: str) -> RealNode:
        """One of them with its levers."""
        return next(one for one in self._cluster.nodes if one.name == node)

    @property
    def home(self) -> Path:
        """The notebooks' home folder, as this machine sees it."""
        return self._folder / "home"

    def agent_said(self, node: str) -> str:
        """What a node's agent printed."""
        return self._agents[node].said()

    def kill_scheduler(self) -> None:
        """Without a word to it; another one starts on what it left."""
        self._cluster.processes.restart("scheduler", kill=True)
        wait_for("the scheduler", lambda: _answers(f"{self.api_url}/healthz"), timeout_s=90)

    def cordon(self, node: str, on: bool) -> None:
        """As ``kubectl cordon`` and ``uncordon``."""
        self.client().patch_node(node, {"spec": {"unschedulable": on}})

    def _start_cluster(self) -> None:
        self._cluster.start()
        self._cluster.start_nodes(2)
        self._cluster.import_python_image()
        for name in (HUB, JOBS, SYSTEM):
            self.client().create_namespace({"metadata": {"name": name, "labels": RESTRICTED}})
        self.home.mkdir()
        os.chown(self.home, 1000, 1000)
        make_volume(self._cluster.client(), HUB, "home", self.home)

    def _start_agents(self) -> None:
        """One on each node, as the chart's DaemonSet has them; they alone need the host."""
        self.client().create_namespace({"metadata": {"name": AGENTS}})
        first, *others = self._cluster.real_nodes()
        agent = NodeAgent(self._cluster.client(), AGENTS, first, driver=CSI_DRIVER, criu=_criu())
        self.saves = agent.criu is not None
        self._agents = {first: agent}
        agent.start()
        for node in others:
            self._agents[node] = agent.beside(node)
            self._agents[node].run()
        self._agent_token = self._folder / "agent-token"
        self._agent_token.touch(mode=0o600)
        self._agent_token.write_text(agent.token)

    def _start_storage(self) -> None:
        folder = self._folder / "buckets"
        folder.mkdir()
        self._keys = {
            "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
            "AWS_ENDPOINT_URL": self._storage_url,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        (folder / BUCKET).mkdir()
        self._run(
            "versitygw",
            [
                *(toolchain.find("versitygw"), "--port", self._storage_url.removeprefix("http://")),
                *("posix", folder),
            ],
            {
                "ROOT_ACCESS_KEY": self._keys["AWS_ACCESS_KEY_ID"],
                "ROOT_SECRET_KEY": self._keys["AWS_SECRET_ACCESS_KEY"],
            },
        )
        wait_for("object storage", self._stores, timeout_s=30)

    def _stores(self) -> bool:
        store = S3Store(
            BUCKET,
            access_key_id=self._keys["AWS_ACCESS_KEY_ID"],
            secret_access_key=self._keys["AWS_SECRET_ACCESS_KEY"],
            endpoint=self._storage_url,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "hello", b"hello")
        except Exception:  # noqa: BLE001 - whatever its client raises: it is not up yet
            return False
        return True

    def _start_scheduler(self) -> None:
        settings = {
            "namespace": JOBS,
            "system_namespace": SYSTEM,
            "environments": {"": PYTHON},
            "image_pull_policy": "Never",
            "own_image": PYTHON,
            "reservation_priority_class": None,
            "instance": AGENTS,
            "agents": True,
            "hibernation": self.saves,
            "agent_namespace": AGENTS,
            "agent_port": PORT,
            "agent_in_clear": True,
            "agent_token_file": str(self._agent_token),
            "pools": {
                "gpu": {"selector": {REAL: "true"}, "reservations": self._reservations},
                "cpu": {"selector": {REAL: "true"}},
            },
        }
        cluster = self._folder / "kubernetes.yaml"
        cluster.write_text(yaml.safe_dump(settings))
        self._run(
            "scheduler",
            [
                *self._module("gpucommons.scheduler"),
                *("--state", self.state, "--config", CONFIG, "--kubernetes", cluster),
                *("--api-host", self._cluster.network.gateway, "--api-url", self.api_url),
                *("--api-port", str(self._ports["api"])),
                *("--pages-port", str(self._ports["pages"])),
                *("--storage", f"s3://{BUCKET}/tour", *self._idle),
            ],
            self._service("scheduler") | self._keys,
        )
        wait_for("the scheduler", lambda: _answers(f"{self.api_url}/healthz"), timeout_s=90)
        # It answers before its first cycle has read the teams of the file.
        wait_for("its teams", lambda: "vision" in self.cli("teams").stdout, timeout_s=90)

    def _start_hub(self) -> None:
        facts = self._folder / "facts.json"
        facts.touch(mode=0o600)
        facts.write_text(json.dumps(self._facts))
        public, api = (
            self._facts[name].rpartition(":")[2] for name in ("public_url", "proxy_api_url")
        )
        self._run(
            "proxy",  # beside the hub: one that the hub starts would outlive a killed tour
            [
                *find_proxy(self.state),
                *("--ip", "127.0.0.1", "--port", public),
                *("--api-ip", "127.0.0.1", "--api-port", api),
                *("--error-target", f"{self._facts['hub_url']}/hub/error"),
            ],
            {"CONFIGPROXY_AUTH_TOKEN": self._facts["proxy_token"]},
        )
        self._run(
            "hub",
            [*self._module("jupyterhub"), "-f", HERE / "hub_config.py"],
            {"TOUR_FACTS": str(facts)},
        )
        wait_for("the login page", lambda: _answers(f"{self.url}/hub/login"), timeout_s=120)

    def _start_culler(self) -> None:
        self._run(
            "culler",
            [
                *self._module("gpucommons.idle_culler"),
                *("--scheduler-url", self.api_url, *self._idle),
                # A notebook without a GPU goes too, and one whose GPU nobody can read.
                *("--plain-idle-after-s", self._idle[1], "--unverified-after-s", self._idle[1]),
            ],
            self._service("culler"),
        )

    def _service(self, name: str) -> dict[str, str]:
        return {
            "JUPYTERHUB_SERVICE_NAME": "gpucommons",
            "JUPYTERHUB_SERVICE_PREFIX": "/services/gpucommons/",
            "JUPYTERHUB_API_URL": f"{self._facts['hub_url']}/hub/api",
            "JUPYTERHUB_API_TOKEN": self._tokens[name],
            "JUPYTERHUB_BASE_URL": "/",
        }

    def _module(self, name: str) -> list[str]:
        return [sys.executable, "-m", name]

    def _run(self, name: str, command: list[Any], environment: dict[str, str]) -> None:
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._cluster.processes.start(
            name,
            command,
            environment={"KUBECONFIG": str(self._cluster.kubeconfig), "PATH": programs}
            | environment,
        )

    def log(self, name: str) -> str:
        """What one of the processes printed."""
        return (self._cluster.processes.logs / f"{name}.log").read_text(errors="replace")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            for name in ("scheduler", "hub", "culler"):
                try:
                    sys.stderr.write(f"--- {name}\n{self.log(name)[-3000:]}\n")
                except FileNotFoundError:
                    continue
        self._cluster.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _criu() -> Path | None:
    """Where the containers' CRIU lies unpacked; None where there is none, or no folder of it."""
    if find_criu(os.environ) is None:
        return None
    folder = Path(os.environ.get(VARIABLE) or state_folder(os.environ) / "root")
    return folder if folder.is_dir() else None


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


__all__ = ["HUB", "JOBS", "Site", "TourFailedError"]
