"""Half a card for a job, all the way: scheduler, reservation, node agent, kubelet, and back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from gpucommons.gpu.connections.trusted_authorities import trusted_at
from gpucommons.gpu.providers.cluster.pods import CSI_DRIVER
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
from tests.harness.free_ports import free_port
from tests.kubernetes.api import is_configured, wait_for
from tests.kubernetes.gpu.node_agent import PORT, NodeAgent

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(560)]


class Scheduler:
    """A scheduler of this checkout, with the agent of one node."""

    def __init__(
        self,
        api: client.ApiClient,
        kubeconfig: Path,
        agent: NodeAgent,
        image: str,
        quota: Mapping[str, int],
    ) -> None:
        self._kubeconfig, self._image, self._quota = kubeconfig, image, quota
        self.agent = agent
        self.core = client.CoreV1Api(api)
        self.folder = Path(tempfile.mkdtemp(prefix="gc"))
        self.namespace = agent.namespace
        self.client = SchedulerClient(f"unix:{self.folder / 'state' / 'api.sock'}")
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(self) -> None:
        port = self._port = free_port()
        # The bridge of the node's pods, at which this machine is to be reached from them.
        node = self.core.read_node(self.agent.node)
        inside = next(one.address for one in node.status.addresses if one.type == "InternalIP")
        gateway = inside.rsplit(".", 1)[0] + ".1"
        words = ["--state", self.folder / "state", "--api-host", "0.0.0.0", "--api-port", port]  # noqa: S104 - pods reach it at the bridge
        words += ["--api-url", f"http://{gateway}:{port}"]
        words += ["--kubernetes", self._settings(), "--config", self._config()]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gpucommons.scheduler", *map(str, words)],
                env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
                stdout=log,
                stderr=log,
            )
        wait_for(self._is_configured, "the configuration is in force", seconds=120)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=60)
        self.client.close()
        shutil.rmtree(self.folder)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def submit(self, name: str, milli_gpu: int, command: list[str]) -> models.JobView:
        role = models.RoleRequest(
            command=command, milli_gpu=milli_gpu, cpu_milli=100, memory_mib=128
        )
        request = models.JobRequest(name=name, roles=[role], max_restarts=0)
        return self.client.send(calls.submit(request, key=None))

    def job(self, ref: str) -> models.JobView:
        return self.client.send(calls.job(ref))

    def _is_configured(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        return self._answers() and is_configured(self.client)

    def _answers(self) -> bool:
        with suppress(httpx.HTTPError):
            url = f"http://127.0.0.1:{self._port}/healthz"
            return httpx.get(url, trust_env=False, verify=trusted_at(url)).status_code == 200
        return False

    def _settings(self) -> Path:
        token = self.folder / "agent-token"
        token.write_text(self.agent.token)
        return self._yaml(
            "kubernetes.yaml",
            {
                "instance": self.namespace,
                "namespace": self.namespace,
                "system_namespace": self.namespace,
                "environments": {"": self._image},
                "own_image": self._image,
                "image_pull_policy": "Never",
                "reservation_priority_class": None,
                "placeholder_priority_class": None,
                "agents": True,
                "agent_namespace": self.namespace,
                "agent_port": PORT,
                "agent_in_clear": True,
                "agent_token_file": str(token),
                "pools": {"gpu": {"selector": {"kubernetes.io/hostname": self.agent.node}}},
            },
        )

    def _config(self) -> Path:
        quotas = {"gpu": dict(self._quota)}
        team = {"name": "vision", "members": ["root"], "quotas": quotas}
        pool = {"name": "gpu", "executor": "kubernetes", "notice_s": 0, "grace_s": 1}
        return self._yaml("config.yaml", {"pools": [pool], "teams": [team]})

    def _yaml(self, name: str, document: Any) -> Path:
        place = self.folder / name
        place.write_text(yaml.safe_dump(document))
        return place


@pytest.fixture
def scheduler(
    api: client.ApiClient,
    kubeconfig: Path,
    real_node: str,
    python_image: str,
    namespace: str,
    *,
    request: pytest.FixtureRequest,
) -> Iterator[Scheduler]:
    agent = NodeAgent(api, namespace, real_node, driver=CSI_DRIVER)
    quota = getattr(request, "param", {"guaranteed_milli_gpu": 4000})
    scheduler = Scheduler(api, kubeconfig, agent, python_image, quota)
    try:
        agent.start()
        scheduler.start()
        yield scheduler
    finally:
        try:
            scheduler.stop()
        finally:  # what it leaves would fail each test after it
            agent.stop()


def lines_of(scheduler: Scheduler, job: str) -> list[str]:
    return list(scheduler.client.send(calls.log(job)).lines)


def test_half_a_card_is_reserved_limited_seen_and_given_back(scheduler: Scheduler) -> None:
    script = "echo $NVIDIA_VISIBLE_DEVICES; ls /run/gpucommons/slice; sleep 600"
    job = scheduler.submit("half", 500, ["sh", "-c", script])
    wait_for(lambda: scheduler.job(job.name).state == "running", "the job runs", seconds=120)

    agent = scheduler.agent.client
    (held,) = agent.slices()
    (share,) = held.shares
    assert share.milli_gpu == 500
    # The card is the one that the kubelet gave to a reservation, and the pod was told.
    reserved = {row.device_ids for row in agent.held() if row.namespace == scheduler.namespace}
    assert reserved == {(share.device_id,)}
    wait_for(lambda: agent.reading(held.slice_id).pids, "the worker's processes are the slice's")
    wait_for(lambda: len(lines_of(scheduler, job.name)) > 1, "what the worker printed")
    assert lines_of(scheduler, job.name)[:2] == [share.device_id, "usage.sock"]
    wait_for(
        lambda: scheduler.client.send(calls.pools()).pools[0].isolation == "watched",
        "the pool's isolation is the agent's word",
    )

    scheduler.client.send(calls.cancel(job.name))
    wait_for(lambda: scheduler.job(job.name).state == "cancelled", "the end", seconds=120)
    wait_for(lambda: not agent.slices(), "the slice is closed", seconds=120)
    wait_for(lambda: not agent.held(), "the card is given back", seconds=120)


def test_a_whole_card_is_the_device_plugins_choice_and_seen_all_the_same(
    scheduler: Scheduler,
) -> None:
    job = scheduler.submit("whole", 1000, ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 600"])
    wait_for(lambda: scheduler.job(job.name).state == "running", "the job runs", seconds=120)
    agent = scheduler.agent.client
    (held,) = agent.slices()
    wait_for(lambda: agent.reading(held.slice_id).pids, "the worker's processes are the slice's")
    said = wait_for(lambda: lines_of(scheduler, job.name), "what the worker printed")
    assert said[0] == agent.slices()[0].shares[0].device_id
    scheduler.client.send(calls.cancel(job.name))
    wait_for(lambda: scheduler.job(job.name).state == "cancelled", "the end", seconds=120)
    wait_for(lambda: not agent.slices(), "the slice is closed", seconds=120)


@pytest.mark.parametrize(
    "scheduler", [{"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 3000}], indirect=True
)
def test_a_card_is_held_before_anybody_asks_and_given_up_for_whole_gpus(
    scheduler: Scheduler,
) -> None:
    def holders() -> set[str]:
        pods = scheduler.core.list_namespaced_pod(
            scheduler.namespace, label_selector="gpucommons.io/kind=reservation"
        )
        return {pod.metadata.name for pod in pods.items if pod.status.phase == "Running"}

    agent = scheduler.agent.client
    wait_for(holders, "a card is held for the next notebook", seconds=120)
    assert len(agent.held()) == 1

    job = scheduler.submit("all", 4000, ["sh", "-c", "sleep 600"])
    wait_for(lambda: scheduler.job(job.name).state == "running", "the job runs", seconds=120)
    assert holders() == set()
    assert {len(row.device_ids) for row in agent.held()} == {4}

    scheduler.client.send(calls.cancel(job.name))
    wait_for(lambda: scheduler.job(job.name).state == "cancelled", "the end", seconds=120)
    wait_for(holders, "a card is held for the next notebook again", seconds=120)
