"""The control plane of the tests is real: it validates, admits, reconciles, and can be disturbed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import urllib3
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.kubernetes.api import api_client, wait_for
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.control_plane import PROGRAMS, Options
from tests.kubernetes.cluster.network import ip
from tests.kubernetes.cluster.processes import start_time
from tests.kubernetes.cluster.remains import remove_lost_bridges
from tests.kubernetes.fixtures import need

ROOT = Path(__file__).parents[3]
STARTS_AND_WAITS = """
import sys, time
from tests.kubernetes.cluster.cluster import Cluster
cluster = Cluster()
cluster.start()
print(cluster.folder, *(cluster.processes.pid(name) for name in cluster.processes.names()), flush=True)
time.sleep(600)
"""
POD = {
    "metadata": {"name": "pod"},
    "spec": {"containers": [{"name": "main", "image": "gpucommons.test/tools:1"}]},
}


def test_a_restricted_namespace_refuses_an_ordinary_pod(api, restricted_namespace) -> None:
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(api).create_namespaced_pod(restricted_namespace, POD)

    assert refused.value.status == 403
    assert "violates PodSecurity" in refused.value.body


def test_a_simulated_node_runs_what_asks_for_its_gpus(api, namespace, kwok_nodes) -> None:
    (node,) = kwok_nodes(1, gpus=2)
    core = client.CoreV1Api(api)
    asked = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {"containers": [asked], "nodeSelector": {"kubernetes.io/hostname": node}}
    for name in ("first", "second"):
        core.create_namespaced_pod(namespace, {"metadata": {"name": name}, "spec": spec})

    def phases() -> set[str]:
        return {pod.status.phase for pod in core.list_namespaced_pod(namespace).items}

    wait_for(lambda: phases() == {"Running", "Pending"}, "one pod to run")


def test_a_lost_node_is_not_ready(api, kwok_nodes) -> None:
    (node,) = kwok_nodes(1)
    kwok_nodes.lose(node)

    conditions = client.CoreV1Api(api).read_node(node).status.conditions
    assert [c.status for c in conditions if c.type == "Ready"] == ["Unknown"]


def test_a_restarted_api_server_breaks_watches_and_keeps_what_it_stored(own_cluster) -> None:
    with own_cluster.client() as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_config_map("default", {"metadata": {"name": "kept"}})
        broken = threading.Event()
        watching = threading.Event()

        def follow() -> None:
            try:
                for _ in watch.Watch().stream(core.list_namespaced_config_map, "default"):
                    watching.set()
            except (urllib3.exceptions.HTTPError, ApiException):
                pass
            broken.set()

        threading.Thread(target=follow, daemon=True).start()
        assert watching.wait(30)
        own_cluster.restart_apiserver()

        assert broken.wait(30)
        assert core.read_namespaced_config_map("kept", "default").metadata.name == "kept"


def test_requests_hang_while_etcd_stands_still_and_go_on_after(own_cluster) -> None:
    with own_cluster.client() as api:
        core = client.CoreV1Api(api)
        with own_cluster.pause_etcd(), pytest.raises((urllib3.exceptions.HTTPError, ApiException)):
            core.create_namespaced_config_map(
                "default", {"metadata": {"name": "slow"}}, _request_timeout=1
            )

        wait_for(lambda: _creates(core, "after"), "etcd to answer again")


@pytest.mark.kubernetes
def test_a_feature_gate_can_be_off_as_on_older_clusters() -> None:
    need(*PROGRAMS)
    gate = "MutableSchedulingDirectivesForSuspendedJobs"
    cluster = Cluster(Options(feature_gates={gate: False}))
    try:
        cluster.start()
        with cluster.client() as api:
            metrics = api.rest_client.pool_manager.request("GET", f"{cluster.server}/metrics")
    finally:
        cluster.stop()

    lines = metrics.data.decode().splitlines()
    assert [line[-2:] for line in lines if f'name="{gate}"' in line] == [" 0"]


@pytest.mark.kubernetes
def test_the_audit_log_counts_requests_by_user() -> None:
    need(*PROGRAMS)
    cluster = Cluster(Options(audit=True))
    try:
        cluster.start()
        with api_client(cluster.component_kubeconfig("ann")) as api, pytest.raises(ApiException):
            client.CoreV1Api(api).list_namespaced_pod("default")

        log = (cluster.processes.logs / "audit.jsonl").read_text()
    finally:
        cluster.stop()
    assert '"username":"ann"' in log


@pytest.mark.kubernetes
def test_a_killed_test_run_leaves_no_process_and_no_folder() -> None:
    need(*PROGRAMS)
    run = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout is not None
        folder, *pids = run.stdout.readline().split()
        assert len(pids) == 4
        os.kill(run.pid, signal.SIGKILL)

    wait_for(lambda: not Path(folder).exists(), "the reaper")
    assert [pid for pid in pids if start_time(int(pid)) is not None] == []


def test_a_start_sweeps_up_what_a_killed_reaper_left() -> None:
    left = Cluster()
    left.processes.start("etcd", ["sleep", "600"])
    pid = left.processes.pid("etcd")
    left.reaper.process.kill()
    left.reaper.process.wait()

    fresh = Cluster()
    fresh.stop()

    assert not left.folder.exists()
    assert start_time(pid) is None
    left.processes.stop_all()
    left.reaper.finish()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes bridges")
def test_the_bridge_of_a_cluster_whose_folder_is_gone_is_removed(tmp_path: Path) -> None:
    prefix = f"gct{os.getpid()}-"
    (tmp_path / f"{prefix}kept").mkdir()
    for name in ("kept", "lost"):
        ip("link", "add", f"{prefix}{name}", "type", "bridge")
    try:
        remove_lost_bridges(prefix, tmp_path)
        left = [each.name for each in Path("/sys/class/net").glob(f"{prefix}*")]
    finally:
        ip("link", "delete", f"{prefix}kept")
    assert left == [f"{prefix}kept"]


def _creates(core: client.CoreV1Api, name: str) -> bool:
    try:
        core.create_namespaced_config_map(
            "default", {"metadata": {"name": name}}, _request_timeout=5
        )
    except ApiException as error:
        return error.status == 409
    except urllib3.exceptions.HTTPError:
        return False
    return True
