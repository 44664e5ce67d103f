"""The executor through an API server that restarts, on a cluster as older ones are configured.

The gate ``MutableSchedulingDirectivesForSuspendedJobs`` is off: nothing of ours needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.executors.kubernetes.api_server.connection import Connection
from gpucommons.scheduler.executors.kubernetes.api_server.credentials import connect
from gpucommons.scheduler.executors.kubernetes.api_server.watching import Subject, Watch
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, read_node
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.cluster import Cluster
from tests.kubernetes.cluster.control_plane import PROGRAMS, Options
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.executors.cluster_of_jobs import Jobs
from tests.kubernetes.fixtures import need


@pytest.fixture(scope="module")
def older_cluster() -> Iterator[Cluster]:
    need(*PROGRAMS, "kwok")
    gates = {"MutableSchedulingDirectivesForSuspendedJobs": False}
    cluster = Cluster(Options(feature_gates=gates))
    try:
        cluster.start()
        cluster.start_kwok()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def jobs(older_cluster: Cluster) -> Iterator[Jobs]:
    with older_cluster.client() as api:
        # As patient as the product: what the cluster refuses while it is disturbed gets better.
        made = Jobs(api, older_cluster.kubeconfig, "default", patience_s=60)
        nodes = SimulatedNodes(api, f"out-{made.pool.name}")
        nodes(2, 4, labels=made.labels)
        wait_for(lambda: len(made.executor.nodes()) == 2, "nodes")
        yield made
        made.close()
        nodes.remove_all()


def names(jobs: Jobs) -> list[str]:
    return [node.node_id for node in jobs.executor.nodes()]


def test_a_gang_starts_and_is_stopped_on_an_older_cluster(jobs: Jobs) -> None:
    launch = jobs.launch(*names(jobs))
    jobs.wait_started(launch)
    jobs.stop(launch)
    assert jobs.wait_ended(launch).exit_code == 143


def test_what_is_asked_while_the_api_server_is_away_is_done_when_it_is_back(
    jobs: Jobs, older_cluster: Cluster
) -> None:
    running = jobs.launch(names(jobs)[0])
    jobs.wait_started(running)
    nodes = names(jobs)
    with older_cluster.stopped_apiserver():
        waiting = jobs.launch(nodes[1])
        # Not knowing is not losing: the nodes stay, and nothing has ended.
        assert names(jobs) == nodes
        assert jobs.seen(running, AttemptEnded) is None
    jobs.wait_started(waiting)
    assert jobs.seen(running, AttemptEnded) is None
    jobs.stop(running)
    assert jobs.wait_ended(running).exit_code in (None, 143)


def test_a_slow_etcd_delays_jobs_and_doubles_nothing(jobs: Jobs, older_cluster: Cluster) -> None:
    nodes = names(jobs)
    with older_cluster.slow_etcd():
        launch = jobs.launch(*nodes)
        jobs.wait_started(launch)
        assert names(jobs) == nodes
        jobs.stop(launch)
        end = jobs.wait_ended(launch)
    assert (end.exit_code, end.start_failed) == (143, False)
    assert len(jobs.pods(launch)) <= len(nodes)
    found = jobs.batch.list_namespaced_job(jobs.namespace).items
    assert [one.metadata.name for one in found] == [jobs.job_name(launch)]


class Forgetful(Connection):
    """Its first list says that it is as old as the cluster."""

    lists = 0

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        found = super().get(path, **query)
        self.lists += 1
        if self.lists == 1:
            found["metadata"]["resourceVersion"] = "1"
        return found


class Kept:
    def __init__(self) -> None:
        self.resets: list[list[NodeSeen]] = []
        self.events: list[tuple[str, NodeSeen]] = []

    def reset(self, found: list[NodeSeen]) -> None:
        self.resets.append(found)

    def event(self, kind: str, found: NodeSeen) -> None:
        self.events.append((kind, found))


def test_a_watch_whose_place_is_forgotten_lists_anew_and_goes_on(
    jobs: Jobs, older_cluster: Cluster
) -> None:
    real = connect(kubeconfig=str(older_cluster.kubeconfig))
    connection = Forgetful(real._host, real._pool, real._credentials)
    kept = Kept()
    # Leases are many and short-lived: their oldest version is forgotten first.
    older_cluster.restart_apiserver()
    wait_for(lambda: client.VersionApi(jobs.core.api_client).get_code(), "the API server")
    watch = Watch(connection, Subject(path="/api/v1/nodes", read=read_node), kept)
    try:
        wait_for(lambda: watch.lists >= 1 and kept.resets, "a list")
        node = names(jobs)[0]
        jobs.core.patch_node(node, {"metadata": {"labels": {"seen": "yes"}}})
        wait_for(
            lambda: (
                [one for _, one in kept.events if one.labels.get("seen") == "yes"]
                or [one for one in kept.resets[-1] if one.labels.get("seen") == "yes"]
            ),
            "the change",
        )
        assert watch.lists == 2
    finally:
        watch.close()
