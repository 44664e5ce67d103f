"""A job that fits no node, all the way: scheduler, placeholder, the real Karpenter, its node, and back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from tests.harness.free_ports import free_port
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.fixtures import need
from tests.kubernetes.scale_up import karpenter

POOL, NAMESPACE = "cloud", "gpu-jobs"
LABELS = {"gpucommons.io/pool": POOL}
GROWTH = {"max_nodes": 2, "gpus": 4, "cpu_milli": 60_000, "memory_mib": 200_000, "boot_s": 60}

pytestmark = pytest.mark.timeout(300)


class Scheduler:
    """A scheduler of this checkout with one pool, in which there is no node."""

    def __init__(self, kubeconfig: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gc"))
        self.client = SchedulerClient(f"unix:{self.folder / 'state' / 'api.sock'}")
        self._port = free_port()
        words = ["--state", self.folder / "state", "--api-port", self._port]
        words += ["--kubernetes", self._yaml("kubernetes.yaml", self._settings())]
        words += ["--config", self._yaml("config.yaml", self._config())]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpucommons.scheduler", *map(str, words)],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdout=log,
                stderr=log,
            )

    def is_ready(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()
        with suppress(httpx.HTTPError):
            url = f"http://127.0.0.1:{self._port}/readyz"
            return httpx.get(url, trust_env=False, verify=trusted_at(url)).status_code == 200
        return False

    def growth(self) -> models.GrowthView:
        [found] = self.client.send(calls.growth()).pools
        return found

    def submit(self, milli_gpu: int) -> str:
        role = models.RoleRequest(
            command=["sleep", "600"], milli_gpu=milli_gpu, cpu_milli=100, memory_mib=128
        )
        request = models.JobRequest(name="digits", roles=[role], max_restarts=0)
        return self.client.send(calls.submit(request, key=None)).name

    def job(self, name: str) -> models.JobView:
        return self.client.send(calls.job(name))

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=60)
        self.client.close()
        shutil.rmtree(self.folder)

    def _settings(self) -> dict[str, Any]:
        return {
            "instance": NAMESPACE,
            "namespace": NAMESPACE,
            "system_namespace": NAMESPACE,
            "environments": {"": "gpucommons.test/tools:1"},
            "reservation_priority_class": None,
            "placeholder_priority_class": None,
        }

    def _config(self) -> dict[str, Any]:
        pool = {"name": POOL, "executor": "kubernetes", "gpu_kind": "A100-40", "growth": GROWTH}
        pool |= {"notice_s": 0, "grace_s": 1}
        quotas = {POOL: {"guaranteed_milli_gpu": 4000}}
        team = {"name": "vision", "members": ["root"], "quotas": quotas}
        return {"pools": [pool], "teams": [team]}

    def _yaml(self, name: str, document: Any) -> Path:
        place = self.folder / name
        place.write_text(yaml.safe_dump(document))
        return place


@pytest.fixture
def grown(own_cluster: Cluster) -> Iterator[tuple[Scheduler, client.CoreV1Api]]:
    """A scheduler, and the cluster that Karpenter brings its nodes to."""
    need("karpenter", "kwok", "kubectl")
    own_cluster.start_kwok()
    karpenter.start(own_cluster)
    karpenter.pool_of_nodes(own_cluster, POOL, LABELS)
    with own_cluster.client() as api:
        core = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": NAMESPACE}})
        scheduler = Scheduler(own_cluster.kubeconfig)
        try:
            wait_for(scheduler.is_ready, "the configuration is in force")
            yield scheduler, core
        finally:
            scheduler.stop()


def test_karpenter_brings_a_node_for_a_job_that_fits_none_and_takes_it_when_the_job_is_over(
    grown: tuple[Scheduler, client.CoreV1Api],
) -> None:
    scheduler, core = grown
    assert core.list_node().items == []
    wait_for(lambda: scheduler.growth().asked == [], "a first look: nothing is asked for")

    name = scheduler.submit(2000)
    wait_for(lambda: scheduler.growth().asked, "a node is asked for")
    [node] = wait_for(
        lambda: core.list_node(label_selector=f"karpenter.sh/nodepool={POOL}").items, "a node"
    )
    assert node.metadata.labels["node.kubernetes.io/instance-type"] == "four-amd64-linux"
    wait_for(lambda: scheduler.job(name).state == "running", "the job runs")
    [pod] = core.list_namespaced_pod(NAMESPACE, label_selector="job-name").items
    assert pod.spec.node_name == node.metadata.name
    wait_for(lambda: scheduler.growth().asked == [], "none is asked for any more")
    assert scheduler.growth().nodes == 1

    scheduler.client.send(calls.cancel(name))
    wait_for(lambda: scheduler.job(name).state == "cancelled", "the end of the job")
    wait_for(lambda: not core.list_node().items, "the node is gone")
