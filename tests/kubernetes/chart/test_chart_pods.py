"""The chart's pods under a real kubelet: they start, answer, and leave nothing that blocks."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests.kubernetes.api import wait_for
from tests.kubernetes.chart.chart import CHART
from tests.kubernetes.chart.chart_release import HUB, NAMESPACE, VOLUME, Release, room_for_release
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl

pytestmark = pytest.mark.timeout(900)
FOLDER = "/var/lib/gpucommons-test"
#: Folder of an unpacked one, as CI has it; "" = none.
CRIU = given if Path(given := os.environ.get("GPUCOMMONS_CRIU", "")).is_dir() and given else ""


@pytest.fixture(scope="module")
def release(
    api: client.ApiClient, kubeconfig: Path, real_node: str, python_image: str
) -> Iterator[Release]:
    """Installed on one real node, with its database on a volume there."""
    need("helm", "kubectl")
    with room_for_release(kubeconfig) as found:
        make_volume(found.kubectl, real_node)
        found.helm(
            "install", str(CHART), "--create-namespace", *values(found, real_node, python_image)
        )
        yield found


def values(found: Release, real_node: str, python_image: str) -> list[str]:
    """What this test says to Helm."""
    kubectl = found.kubectl
    repository, _, tag = python_image.rpartition(":")
    me = json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
    return found.values(
        **{
            "operator.trustedRequesters": [me],
            "image.repository": repository,
            "image.tag": tag,
            "image.pullPolicy": "Never",
            "database.sqlite.storageClass": VOLUME,
            "scheduler.nodeSelector": {"kubernetes.io/hostname": real_node},
            "agent.nodeSelector": {"kubernetes.io/hostname": real_node},
            "hibernation": {"enabled": True, "criu": {"hostPath": CRIU}} if CRIU else {},
            "config": {
                "pools": [{"name": "gpu", "executor": "kubernetes"}],
                "teams": [
                    {
                        "name": "vision",
                        "members": ["ann"],
                        "quotas": {"gpu": {"guaranteed_milli_gpu": 1000}},
                    }
                ],
            },
        }
    )


def make_volume(kubectl: Kubectl, node: str) -> None:
    """A folder of the node as a volume; only a pod with more rights can make the folder."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "folder", "namespace": HUB},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "folder",
                    "image": "gpucommons.test/tools:1",
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", "ls -ld /folder"],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
                }
            ],
            "volumes": [
                {"name": "folder", "hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"}}
            ],
        },
    }
    terms = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": VOLUME},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": VOLUME,
            "local": {"path": FOLDER},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}},
        },
    }
    in_hub = Kubectl(kubectl.kubeconfig, HUB)
    in_hub("create", "-f", "-", stdin=yaml.safe_dump_all([pod, volume]))
    in_hub("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/folder", "--timeout=180s")


def ready(kubectl: Kubectl, what: str, namespace: str = NAMESPACE) -> None:
    kubectl("rollout", "status", what, "-n", namespace, "--timeout=300s")


def test_every_part_runs(release: Release) -> None:
    for part in ("scheduler", "operator", "culler"):
        ready(release.kubectl, f"deployment/gpucommons-{part}")
    ready(release.kubectl, "daemonset/gpucommons-agent", "gpucommons-agents")
    for pod in release.kubectl.get("pods")["items"]:
        assert all(one["restartCount"] == 0 for one in pod["status"]["containerStatuses"])


def test_the_scheduler_answers_and_reads_the_cluster(release: Release) -> None:
    ready(release.kubectl, "deployment/gpucommons-scheduler")
    command = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/healthz').read())"
    done = release.kubectl("exec", "deployment/gpucommons-scheduler", "--", "python", "-c", command)
    assert "true" in done
    log = release.kubectl("logs", "deployment/gpucommons-scheduler")
    assert "at the cluster scope" not in log


#: Runs in the scheduler's pod, whose own account is admin at the unix socket.
SUBMIT = """
import sys, time
from gpucommons.scheduler import models
from gpucommons.scheduler.client import SchedulerClient, calls
with SchedulerClient("unix:/var/lib/gpucommons/api.sock") as scheduler:
    deadline = time.monotonic() + 150
    # The configuration comes into force a moment after the first node is there.
    while not scheduler.send(calls.teams()).teams and time.monotonic() < deadline:
        time.sleep(0.5)
    role = {"command": ["python", "-c", "print('hello from a job')"], "milli_gpu": int(sys.argv[1])}
    request = models.JobRequest(name="hello", team="vision", user="ann", roles=[role])
    job = scheduler.send(calls.submit(request))
    while job.state not in ("succeeded", "failed", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.5)
        job = scheduler.send(calls.job(job.id))
    print(job.state, job.reason, job.ended_text)
    print(scheduler.send(calls.log(job.id)).lines)
"""


@pytest.mark.parametrize("milli_gpu", [0, 1000], ids=["CPU", "GPU"])
def test_a_job_runs_with_no_more_rights_than_the_charts(
    release: Release, real_node: str, milli_gpu: int
) -> None:
    kubectl = release.kubectl
    ready(kubectl, "deployment/gpucommons-scheduler")
    kubectl("label", "node", real_node, "gpucommons.io/pool=gpu", "--overwrite")
    try:
        said = kubectl(
            "exec", "deployment/gpucommons-scheduler", "--", "python", "-c", SUBMIT, str(milli_gpu)
        )
    finally:
        kubectl("label", "node", real_node, "gpucommons.io/pool-")
    assert said.startswith("succeeded"), said
    assert "hello from a job" in said
    log = kubectl("logs", "deployment/gpucommons-scheduler")
    assert not [one for one in log.splitlines() if "orbidden" in one and "gpucommons-jobs" in one]


def test_the_agent_names_the_nodes_gpus(release: Release) -> None:
    ready(release.kubectl, "daemonset/gpucommons-agent", "gpucommons-agents")
    log = wait_for(
        lambda: release.kubectl("logs", "daemonset/gpucommons-agent", "-n", "gpucommons-agents"),
        "the agent's log",
    )
    assert "Traceback" not in log


@pytest.mark.skipif(not CRIU, reason="GPUCOMMONS_CRIU names no folder of an unpacked CRIU")
def test_the_agent_lets_pods_of_its_node_save_their_processes(
    release: Release, real_node: str
) -> None:
    kubectl = release.kubectl
    ready(kubectl, "daemonset/gpucommons-agent", "gpucommons-agents")

    def offered() -> bool:
        allocatable = kubectl.get("node", real_node)["status"]["allocatable"]
        return allocatable.get("gpucommons.io/hibernate", "0") != "0"

    # Its self-test may fail on a busy machine, and is tried again.
    wait_for(offered, "the agent's offer", seconds=200)


def test_the_hook_of_an_uninstall_frees_objects_in_a_pod(release: Release) -> None:
    kubectl = release.kubectl
    ready(kubectl, "deployment/gpucommons-operator")
    kubectl("label", "namespace", HUB, "gpucommons.io/team=vision")
    job = {
        "apiVersion": "gpucommons.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "digits", "namespace": HUB, "finalizers": ["gpucommons.io/operator"]},
        "spec": {"user": "ann", "roles": [{"command": ["x"]}]},
    }
    Kubectl(release.kubeconfig, HUB)("create", "-f", "-", stdin=json.dumps(job))
    release.helm("uninstall", "--timeout", "5m")
    assert "finalizers" not in kubectl.get("trainingjob", "digits", "-n", HUB)["metadata"]
    kubectl("delete", "trainingjob", "digits", "-n", HUB, "--timeout=60s")
