"""The chart's pods under a real kubelet: they start, answer, and leave nothing that blocks."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.models.hub_scopes import SCOPES_OF_SERVICES
from tests.kubernetes.api import wait_for
from tests.kubernetes.chart.chart import CHART
from tests.kubernetes.chart.chart_release import (
    HUB,
    NAMESPACE,
    PATIENCE_S,
    VOLUME,
    Release,
    doctor,
    room_for_release,
)
from tests.kubernetes.chart.played_hub import play_hub
from tests.kubernetes.fixtures import need
from tests.kubernetes.kubectl import Kubectl
from tests.kubernetes.toolchain.images import TOOLS
from tests.kubernetes.trainer import trainer_module
from tests.kubernetes.trainer.trainer_world import a_trainjob
from tests.scheduler.adapters.trainer.fake_trainer import FakeTrainer

pytestmark = pytest.mark.timeout(900)
HANDED_IN, SENT, TRAINERS = "gpucommons-test-research", "gpucommons-test-sent", "trainers"
POOL = "gpucommons.io/pool"
FOLDER = "/var/lib/gpucommons-test"
#: Folder of an unpacked one, as CI has it; "" = none.
CRIU = given if Path(given := os.environ.get("GPUCOMMONS_CRIU", "")).is_dir() and given else ""


@pytest.fixture(scope="module")
def release(
    api: client.ApiClient, kubeconfig: Path, two_real_nodes: list[str], python_image: str
) -> Iterator[Release]:
    """Installed on one real node, with its database on a volume there; a node for each of two pools."""
    need("helm", "kubectl")
    node, other = two_real_nodes[:2]
    trainer_module.install(Kubectl(kubeconfig))
    with room_for_release(kubeconfig) as found, played_trainer(kubeconfig):
        make_volume(found.kubectl, node)
        found.kubectl("label", "node", node, f"{POOL}=gpu", "--overwrite")
        found.kubectl("label", "node", other, f"{POOL}={TRAINERS}", "--overwrite")
        try:
            found.helm(
                "install", str(CHART), "--create-namespace", *values(found, node, python_image)
            )
            play_hub(found, node, python_image)
            yield found
        finally:
            found.kubectl("label", "node", node, other, f"{POOL}-")


@contextmanager
def played_trainer(kubeconfig: Path) -> Iterator[None]:
    """Kubeflow Trainer's CRDs are its own, its controllers are played, in namespaces that go again."""
    admin = Kubectl(kubeconfig)
    for one in (HANDED_IN, SENT):
        admin("create", "namespace", one)
    connection = connect(kubeconfig=str(kubeconfig))
    played = [FakeTrainer(connection, one) for one in (HANDED_IN, SENT)]
    try:
        yield
    finally:
        for each in played:
            each.close()
        admin("delete", "--wait=false", "namespace", HANDED_IN, SENT)


def values(found: Release, real_node: str, python_image: str) -> list[str]:
    """What this test says to Helm."""
    kubectl = found.kubectl
    repository, _, tag = python_image.rpartition(":")
    me = json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
    return found.values(
        **{
            "operator.trustedRequesters": [me],
            "jobs.environments": {"": python_image, "shell": TOOLS},
            "image.repository": repository,
            "image.tag": tag,
            "image.pullPolicy": "Never",
            "database.sqlite.storageClass": VOLUME,
            "scheduler.nodeSelector": {"kubernetes.io/hostname": real_node},
            "agent.nodeSelector": {"kubernetes.io/hostname": real_node},
            "hibernation": {"enabled": True, "criu": {"hostPath": CRIU}} if CRIU else {},
            "trainjobs.settings": {
                "namespaces": {HANDED_IN: {"teams": ["vision"], "user": "ann"}},
                "pools": {TRAINERS: {}},
                "sent": {"namespace": SENT},
            },
            "config": {
                "pools": [
                    {"name": "gpu", "executor": "kubernetes"},
                    {"name": TRAINERS, "executor": "trainjob", "notebook_sizes": []},
                ],
                "teams": [
                    {
                        "name": "vision",
                        "members": ["ann"],
                        "quotas": {
                            "gpu": {"guaranteed_milli_gpu": 1000},
                            TRAINERS: {"guaranteed_milli_gpu": 2000},
                        },
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
    for part in ("scheduler", "operator", "culler", "trainjobs"):
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
    pool, environment, milli_gpu, *command = sys.argv[1:]
    role = {"command": command, "milli_gpu": int(milli_gpu), "memory_mib": 256}
    request = models.JobRequest(name="hello", team="vision", user="ann", roles=[role],
                                pools=[pool], environment=environment)
    job = scheduler.send(calls.submit(request))
    while job.state not in ("succeeded", "failed", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.5)
        job = scheduler.send(calls.job(job.id))
    print(job.state, job.reason, job.ended_text)
    print(scheduler.send(calls.log(job.id)).lines)
"""


def submit(release: Release, pool: str, environment: str, milli_gpu: int, *command: str) -> None:
    """Run a job to its end, by the scheduler's own pod."""
    scheduler = ("exec", "deployment/gpucommons-scheduler", "--", "python", "-c", SUBMIT)
    said = release.kubectl(*scheduler, pool, environment, str(milli_gpu), *command)
    assert said.startswith("succeeded"), said
    assert "hello from a job" in said


@pytest.mark.parametrize("milli_gpu", [0, 1000], ids=["CPU", "GPU"])
def test_a_job_runs_with_no_more_rights_than_the_charts(release: Release, milli_gpu: int) -> None:
    ready(release.kubectl, "deployment/gpucommons-scheduler")
    submit(release, "gpu", "", milli_gpu, "python", "-c", "print('hello from a job')")
    log = release.kubectl("logs", "deployment/gpucommons-scheduler")
    assert not [one for one in log.splitlines() if "orbidden" in one and "gpucommons-jobs" in one]


def test_the_agent_names_the_nodes_gpus(release: Release) -> None:
    ready(release.kubectl, "daemonset/gpucommons-agent", "gpucommons-agents")
    log = wait_for(
        lambda: release.kubectl("logs", "daemonset/gpucommons-agent", "-n", "gpucommons-agents"),
        "the agent's log",
    )
    assert "Traceback" not in log


# --- TrainJobs of Kubeflow -----------------------------------------------------------------------


def note(there: Kubectl, name: str, key: str) -> str:
    notes = there.get("trainjob", name)["metadata"].get("annotations") or {}
    return str(notes.get(f"gpucommons.io/{key}", ""))


def until(release: Release, question: Any, what: str) -> Any:
    """Wait; what the parts said goes with the failure."""
    try:
        return wait_for(question, what, seconds=PATIENCE_S)
    except TimeoutError as error:
        parts = ("scheduler", "trainjobs")
        said = [
            release.kubectl("logs", f"deployment/gpucommons-{one}", "--tail=40") for one in parts
        ]
        message = "\n".join([str(error), *said])
        raise TimeoutError(message) from None


def test_the_doctor_asks_the_hub_in_its_pod_what_our_tokens_may(release: Release) -> None:
    _, found = doctor(release.kubeconfig)
    for service in SCOPES_OF_SERVICES:
        line = found[f"scopes of {service}"]
        assert line["level"] == "ok", line
    assert found["scopes of gpucommons"]["found"].startswith("servers, ")


def test_a_trainjob_is_handed_in_runs_as_a_real_pod_and_ends(release: Release) -> None:
    there = Kubectl(release.kubeconfig, HANDED_IN)
    made = a_trainjob("digits", 1, 1)
    trainer = made["spec"]["trainer"]
    trainer |= {"image": TOOLS, "command": ["sh", "-c", "echo trained; sleep 2"]}
    trainer["resourcesPerNode"] = {"limits": {"nvidia.com/gpu": "1", "memory": "64Mi"}}
    there("create", "-f", "-", stdin=json.dumps(made))
    until(release, lambda: note(there, "digits", "job"), "it is handed in")
    until(release, lambda: note(there, "digits", "state") == "succeeded", "its job has succeeded")
    (pod,) = there.get("pods", "-l", "jobset.sigs.k8s.io/jobset-name=digits")["items"]
    assert pod["status"]["phase"] == "Succeeded"
    for part in ("scheduler", "trainjobs"):
        log = release.kubectl("logs", f"deployment/gpucommons-{part}")
        assert "trainjobs.trainer.kubeflow.org is forbidden" not in log


def test_a_job_of_ours_is_sent_out_as_a_trainjob(release: Release) -> None:
    submit(release, TRAINERS, "shell", 1000, "sh", "-c", "echo hello from a job; sleep 2")
    there = Kubectl(release.kubeconfig, SENT)
    (made,) = there.get("trainjobs")["items"]
    assert made["metadata"]["name"].startswith("gc-")
    assert made["spec"]["runtimeRef"]["name"] == "torch-distributed"
    assert made["spec"]["trainer"]["image"] == TOOLS
    assert made["spec"]["trainer"]["env"] == [], "nothing that it would report with"


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
