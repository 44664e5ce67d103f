"""Two real nodes with images and volumes, and the two releases on them."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml
from kubernetes import client

from benchmarks.tour.playing import gpucommons
from benchmarks.tour.timeline import wait_for
from benchmarks.tour_kubernetes.site import JOBS
from benchmarks.tour_z2jh import pictures
from benchmarks.tour_z2jh.values import HUB, SYSTEM, of_hub, of_ours
from deploy.release.contents import read, version
from tests.kubernetes.chart.chart import CHART, helm
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.kubectl import Kubectl

ROOM = {"storage": "5Gi"}


class Site:
    """Starts everything, and takes it down again whatever happens."""

    def __init__(self, checkout: Path, images: Path) -> None:
        self.password = secrets.token_hex(8)
        self._checkout, self._images = checkout, images
        self._cluster = Cluster()
        self._folder = self._cluster.folder
        self.url = self.api_url = ""

    def __enter__(self) -> Self:
        try:
            self._start_cluster()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def client(self) -> client.CoreV1Api:
        """The administrator's view of the cluster."""
        return client.CoreV1Api(self._cluster.client())

    def gpucommons(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Our command line, with the administrator's kubeconfig."""
        env = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        return gpucommons(*words, env=env, timeout_s=120)

    def kubectl(self, namespace: str) -> Kubectl:
        """The real kubectl."""
        return Kubectl(self._cluster.kubeconfig, namespace)

    def helm(self, *words: str) -> str:
        """The real Helm."""
        return helm(*words, "--kubeconfig", str(self._cluster.kubeconfig))

    def _start_cluster(self) -> None:
        self._cluster.start()
        nodes = self._cluster.start_nodes(2)
        others = [pictures.proxy_archive(self._folder), pictures.scheduler_archive(self._folder)]
        ours = [self._images / f"{one.repository}-{version()}.oci.tar" for one in read()[1]]
        for node in nodes:
            for archive in (*others, *ours):
                node.import_image(archive)
        for name in (HUB, SYSTEM, JOBS):
            self.kubectl("default")("create", "namespace", name)
        self._make_volumes()

    def _make_volumes(self) -> None:
        """Folders of this machine, which both nodes see; jobs and scheduler share one."""
        claims = [(HUB, "hub", "hub"), (SYSTEM, "state", "state")]
        claims += [(SYSTEM, "files", "files"), (JOBS, "files", "files")]
        for namespace, name, folder in claims:
            path = self._folder / "volumes" / folder
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
            kind = f"{namespace}-{name}"
            volume = {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}
            spec = volume | {"capacity": ROOM, "hostPath": {"path": str(path)}}
            spec |= {"storageClassName": kind, "persistentVolumeReclaimPolicy": "Retain"}
            documents: list[dict[str, Any]] = [_object("PersistentVolume", kind, spec)]
            if name == "files":
                wanted = volume | {"resources": {"requests": ROOM}, "storageClassName": kind}
                documents.append(_object("PersistentVolumeClaim", name, wanted))
            self.kubectl(namespace).apply(*documents)

    def install_ours(self, **more: Any) -> None:
        """Our chart, as the docs install and upgrade it."""
        path = self._values("gpucommons", of_ours() | more)
        self.helm("upgrade", "--install", "gpucommons", str(CHART), "-n", SYSTEM, "-f", str(path))

    def install_hub(self, **more: Any) -> None:
        """Their chart, with what `gpucommons install` writes into an admin's values."""
        path = self._values("z2jh", of_hub(self.password) | more)
        words = ["--hub-image", f"localhost/hub:{version()}"]
        words += ["--notebook-image", f"localhost/notebook:{version()}"]
        self.gpucommons("install", "--values", str(path), *words, "--apply").check_returncode()
        chart = str(self._chart())
        self.helm("upgrade", "--install", "hub", chart, "-n", HUB, "-f", str(path))

    def answers(self) -> bool:
        """The hub's login page is there, through its own proxy."""
        self.url = f"http://{self._address(HUB, 'proxy-public')}"
        return _answers(f"{self.url}/hub/login")

    def await_ours(self) -> None:
        """All our pods are there."""
        for part in ("scheduler", "culler", "operator"):
            self.kubectl(SYSTEM)(
                "rollout", "status", f"deployment/gpucommons-{part}", "--timeout=300s"
            )
        agents = self.kubectl("gpucommons-agents")
        agents("rollout", "status", "daemonset/gpucommons-agent", "--timeout=300s")
        # Only now: a new installation has a new address.
        self.api_url = f"http://{self._address(SYSTEM, 'gpucommons-api')}:8000"

    def await_hub(self) -> None:
        """Hub and proxy are there, and the login page comes."""
        for part in ("hub", "proxy"):
            self.kubectl(HUB)("rollout", "status", f"deployment/{part}", "--timeout=300s")
        wait_for("the login page", self.answers, timeout_s=120)

    def decides(self) -> bool:
        """The scheduler answers that it decides."""
        return _answers(f"{self.api_url}/healthz")

    def _address(self, namespace: str, service: str) -> str:
        return str(self.client().read_namespaced_service(service, namespace).spec.cluster_ip)

    def _values(self, name: str, values: dict[str, Any]) -> Path:
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    def _chart(self) -> Path:
        """Their chart as their release makes it from a checkout."""
        made = self._folder / "z2jh"
        if not made.exists():
            for part in ("jupyterhub", "tools"):
                shutil.copytree(self._checkout / part, made / part)
            tool = made / "tools/generate-json-schema.py"
            subprocess.run([sys.executable, tool], check=True)
            chart = made / "jupyterhub/Chart.yaml"
            chart.write_text(chart.read_text().replace("0.0.1-set.by.chartpress", "4.4.0"))
        return made / "jupyterhub"

    def log(self, name: str) -> str:
        """What a part of the releases printed."""
        namespace = HUB if name == "hub" else SYSTEM
        part = "hub" if name == "hub" else f"gpucommons-{name}"
        return self.kubectl(namespace).try_("logs", f"deployment/{part}", "--tail=-1").stdout

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            pods = self.kubectl("default").try_("get", "pods", "-A", "-o", "wide").stdout
            events = self.kubectl("default").try_("get", "events", "-A").stdout
            sys.stderr.write(f"{error}\n{pods}\n{events[-6000:]}\n")
            for name in ("scheduler", "hub", "culler"):
                sys.stderr.write(f"--- {name}\n{self.log(name)[-3000:]}\n")
        self._cluster.stop()


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
