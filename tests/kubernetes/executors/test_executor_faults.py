"""What people and clusters do to running jobs: the right state, and a sentence for the user."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_objects import a_pod_seen
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from gpucommons.scheduler.core.model.resources import NodeState
from gpucommons.scheduler.core.model.state import AttemptEnded
from gpucommons.scheduler.core.model.types import Millis, NodeId
from gpucommons.scheduler.executors.kubernetes.api_server.connection import UNPROCESSABLE, ApiError
from gpucommons.scheduler.executors.kubernetes.manifests.requests import Requests
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.executors.cluster_of_jobs import Jobs

FORBIDDEN = 403


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Iterator[Jobs]:
    made = Jobs(api, kubeconfig, namespace, vanished_hold_s=3)
    yield made
    made.close()


@pytest.fixture
def nodes(jobs: Jobs, kwok_nodes: SimulatedNodes) -> list[str]:
    """Two simulated nodes with four GPUs each, which the executor has seen."""
    names = kwok_nodes(2, 4, labels=jobs.labels)
    wait_for(lambda: len(jobs.executor.nodes()) == 2, "nodes")
    return names


def test_a_pod_that_was_let_go_before_is_let_go_again_and_never_elsewhere(
    jobs: Jobs, nodes: list[str]
) -> None:
    """As after an answer that was lost: the server refuses the patch, whose test fails by then."""
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    (found,) = jobs.pods(launch)
    pod = a_pod_seen(name=found.metadata.name, namespace=jobs.namespace, uid=found.metadata.uid)
    requests, node = Requests(jobs.executor.connection), {"kubernetes.io/hostname": nodes[0]}
    requests.lift(pod, launch.attempt, 0, node)
    (placement,) = launch.attempt.placements
    elsewhere = replace(launch.attempt, placements=(replace(placement, node_id=NodeId(nodes[1])),))
    with pytest.raises(ApiError) as refused:
        requests.lift(pod, elsewhere, 0, node)
    assert refused.value.status == UNPROCESSABLE


def test_a_gang_runs_where_it_was_placed_with_few_requests(jobs: Jobs, nodes: list[str]) -> None:
    before = dict(jobs.executor.connection.requests)
    launch = jobs.launch(*nodes)
    jobs.wait_started(launch)
    assert {pod.spec.node_name for pod in jobs.pods(launch)} == set(nodes)
    made = jobs.executor.connection.requests
    ours = {key: count - before.get(key, 0) for key, count in made.items() if key[0] != "watch"}
    assert {key: count for key, count in ours.items() if count and key[0] != "get"} == {
        ("post", "jobs"): 1,
        ("post", "secrets"): 1,
        ("post", "services"): 1,
        ("patch", "pods"): 2,
    }
    jobs.stop(launch)
    end = jobs.wait_ended(launch)
    assert (end.exit_code, end.killed) == (143, False)
    jobs.live.clear()
    jobs.executor.forget(launch.attempt.attempt_id)
    wait_for(lambda: not jobs.batch.list_namespaced_job(jobs.namespace).items, "no Job")
    wait_for(lambda: not jobs.pods(launch), "no pods")
    names = [one.metadata.name for one in jobs.core.list_namespaced_secret(jobs.namespace).items]
    wait_for(
        lambda: not [n for n in names if n.startswith("gc-") and _exists(jobs, n)], "no Secret"
    )


def test_the_api_server_books_no_field_managers_of_pods_that_run_and_jobs_that_stop(
    jobs: Jobs, nodes: list[str]
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    (pod,) = jobs.pods(launch)
    # Bound by the cluster's scheduler and reported by its node since then.
    assert (pod.spec.node_name, pod.metadata.managed_fields) == (nodes[0], None)
    jobs.stop(launch)
    jobs.wait_ended(launch)
    (job,) = jobs.batch.list_namespaced_job(jobs.namespace).items
    assert (job.spec.suspend, job.metadata.managed_fields) == (True, None)


def _exists(jobs: Jobs, name: str) -> bool:
    found = jobs.core.list_namespaced_secret(jobs.namespace).items
    return name in [one.metadata.name for one in found]


def test_a_pod_deleted_by_hand_is_a_loss_and_not_the_jobs_fault(
    jobs: Jobs, nodes: list[str]
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    (pod,) = jobs.pods(launch)
    jobs.core.delete_namespaced_pod(pod.metadata.name, jobs.namespace)
    end = jobs.wait_ended(launch)
    assert (end.exit_code, end.start_failed) == (None, False)
    assert end.text == f"Somebody removed {pod.metadata.name} in the cluster"


def test_a_job_deleted_by_hand_is_said(jobs: Jobs, nodes: list[str]) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    name = jobs.job_name(launch)
    jobs.batch.delete_namespaced_job(name, jobs.namespace, propagation_policy="Background")
    end = jobs.wait_ended(launch)
    assert end.exit_code is None
    assert end.text == f"Somebody deleted its Job {name}"


def test_a_job_suspended_by_hand_is_said(jobs: Jobs, nodes: list[str]) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    name = jobs.job_name(launch)
    jobs.batch.patch_namespaced_job(name, jobs.namespace, {"spec": {"suspend": True}})
    end = jobs.wait_ended(launch)
    assert end.exit_code is None
    assert end.text == f"Somebody suspended its Job {name}: stop jobs here, not in the cluster"


def test_a_job_edited_while_it_starts_is_withdrawn(jobs: Jobs, nodes: list[str]) -> None:
    # A node that is not there keeps the gang from starting.
    launch = jobs.launch(nodes[0], "nowhere")
    name = jobs.job_name(launch)
    wait_for(lambda: len(jobs.pods(launch)) == 2, "pods")
    jobs.batch.patch_namespaced_job(name, jobs.namespace, {"spec": {"parallelism": 1}})
    end = jobs.wait_ended(launch)
    assert (end.exit_code, end.start_failed) == (None, False)
    assert f"changed the number of workers of {name} in the cluster from 2 to 1" in end.text


def test_a_quota_that_refuses_its_pod_is_named(jobs: Jobs, nodes: list[str]) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    jobs.core.create_namespaced_resource_quota(jobs.namespace, quota)
    wait_for(
        lambda: jobs.core.read_namespaced_resource_quota("none", jobs.namespace).status.hard,
        "a quota in force",
    )
    end = jobs.wait_ended(jobs.launch(nodes[0]))
    assert (end.exit_code, end.start_failed) == (None, True)
    assert end.text.startswith("The cluster's quota none refuses this (requested:")


def test_a_place_that_a_foreign_pod_has_is_said_and_tried_elsewhere(
    jobs: Jobs, nodes: list[str]
) -> None:
    _foreign(jobs, nodes[0], gpus=4)
    end = jobs.wait_ended(jobs.launch(nodes[0]))
    assert (end.exit_code, end.start_failed) == (None, False)
    assert end.text.startswith("Its node does not take it: ")
    by_name = {node.node_id: node for node in jobs.executor.nodes()}
    assert [len(by_name[name].devices) for name in nodes] == [0, 4]  # type: ignore[index] # str


def test_a_foreign_pod_of_higher_priority_takes_the_place(jobs: Jobs, nodes: list[str]) -> None:
    launches = [jobs.launch(nodes[0]) for _ in range(4)]
    for launch in launches:
        jobs.wait_started(launch)
    scheduling = client.SchedulingV1Api(jobs.core.api_client)
    name = f"high-{jobs.namespace}"
    scheduling.create_priority_class({"metadata": {"name": name}, "value": 1000})
    try:
        _foreign(jobs, nodes[0], gpus=1, priority=name)

        def end() -> AttemptEnded | None:
            found = (jobs.seen(launch, AttemptEnded) for launch in launches)
            return next((one for one in found if one is not None), None)

        seen = wait_for(end, "an end", seconds=120)
    finally:
        scheduling.delete_priority_class(name)
    assert (seen.exit_code, seen.start_failed) == (None, False)
    assert "to other work of higher priority that is not ours" in seen.text


def _foreign(jobs: Jobs, node: str, *, gpus: int, priority: str | None = None) -> None:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "c", "image": "gpucommons.test/tools:1", "resources": resources}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [container],
        **({"priorityClassName": priority} if priority else {}),
    }
    body = {"metadata": {"name": "other"}, "spec": spec}

    def made() -> bool:
        try:
            jobs.core.create_namespaced_pod(jobs.namespace, body)
        except ApiException as error:
            # Whoever admits pods hears of a new priority class a moment later.
            if priority is None or error.status != FORBIDDEN:
                raise
            return False
        return True

    wait_for(made, "a foreign pod")
    if priority is None:

        def bound() -> bool:
            found = jobs.core.read_namespaced_pod("other", jobs.namespace)
            return bool(found.spec.node_name)

        wait_for(bound, "a bound foreign pod")


def test_a_cordoned_node_is_said_to_be(jobs: Jobs, nodes: list[str]) -> None:
    jobs.core.patch_node(nodes[0], {"spec": {"unschedulable": True}})

    def states() -> bool:
        found = {node.node_id: node.state for node in jobs.executor.nodes()}
        return found == {nodes[0]: NodeState.CORDONED, nodes[1]: NodeState.READY}

    wait_for(states, "the cordon")


def test_what_ran_on_a_lost_node_counts_as_live_until_it_is_fenced(
    jobs: Jobs, nodes: list[str], kwok_nodes: SimulatedNodes
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    kwok_nodes.lose(nodes[0])
    wait_for(lambda: len(jobs.executor.nodes()) == 1, "one node less")
    (pod,) = jobs.pods(launch)
    # Also when somebody takes the pod out of the books: that proves nothing.
    jobs.core.delete_namespaced_pod(pod.metadata.name, jobs.namespace, grace_period_seconds=0)
    wait_for(lambda: _is_gone_from_view(jobs, launch.attempt.attempt_id), "the pod gone")
    assert jobs.seen(launch, AttemptEnded) is None
    # Nor does it when its Job goes as well, and another scheduler takes over.
    jobs.batch.delete_namespaced_job(
        jobs.job_name(launch), jobs.namespace, propagation_policy="Background"
    )
    wait_for(lambda: not jobs.pods(launch), "no pods")
    jobs.restart()
    ran = replace(launch.attempt, started_ms=Millis(1))
    assert [live.running for live in jobs.executor.adopt([ran])] == [True]
    jobs.executor._beat()
    assert jobs.seen(launch, AttemptEnded) is None
    # An admin fences the node: the attempt is no longer on record as live.
    jobs.live.clear()
    jobs.restart()
    assert jobs.executor.adopt(()) == ()
    wait_for(lambda: not jobs.batch.list_namespaced_job(jobs.namespace).items, "no Job")
    wait_for(lambda: not jobs.pods(launch), "no pods")


def _is_gone_from_view(jobs: Jobs, attempt_id: object) -> bool:
    trace = jobs.executor._view.cache.get(attempt_id)  # type: ignore[arg-type] # an AttemptId
    return trace is None or all(
        pod.uid in trace.gone or pod.deleting for pod in trace.pods.values()
    )


def test_a_scheduler_that_comes_back_goes_on_with_what_it_finds(
    jobs: Jobs, nodes: list[str]
) -> None:
    launch = jobs.launch(*nodes)
    jobs.restart()
    lives = jobs.executor.adopt([launch.attempt])
    assert {live.attempt_id for live in lives} <= {launch.attempt.attempt_id}
    jobs.wait_started(launch)
    assert len(jobs.pods(launch)) == 2
    stopping = jobs.stop(launch)
    jobs.restart()
    jobs.executor.adopt([stopping])
    end = jobs.wait_ended(launch)
    # Simulated pods may be gone before anybody looks; how they ended is then not known.
    assert end.exit_code in (None, 143)
    assert not end.start_failed


def test_a_job_that_a_frozen_leader_makes_late_is_removed(jobs: Jobs, nodes: list[str]) -> None:
    jobs.executor.adopt(())
    late = Jobs(
        jobs.core.api_client,
        jobs._kubeconfig,
        jobs.namespace,
        instance=jobs.settings.instance,
    )
    launch = late.launch(nodes[0])
    wait_for(lambda: late.pods(launch), "its pod")
    late.executor.close()
    wait_for(
        lambda: not jobs.batch.list_namespaced_job(jobs.namespace).items, "no Job", seconds=120
    )


def test_a_pod_deleted_by_force_holds_its_place_for_its_grace_and_more(
    jobs: Jobs, nodes: list[str], kwok_nodes: SimulatedNodes
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    (pod,) = jobs.pods(launch)
    # The node is there, and nobody ends what runs on it: its kubelet has not heard yet.
    kwok_nodes.forget_pods(nodes[0])
    jobs.batch.delete_namespaced_job(
        jobs.job_name(launch), jobs.namespace, propagation_policy="Orphan"
    )
    jobs.core.patch_namespaced_pod(
        pod.metadata.name, jobs.namespace, {"metadata": {"finalizers": None}}
    )
    jobs.core.delete_namespaced_pod(pod.metadata.name, jobs.namespace, grace_period_seconds=0)
    wait_for(lambda: not jobs.pods(launch), "no pod in the books")
    gone_ms = jobs.executor._around.now_ms()
    end = jobs.wait_ended(launch)
    held_ms = jobs.executor._around.now_ms() - gone_ms
    assert held_ms >= (jobs.pool.grace_ms + jobs.settings.vanished_hold_s * 1000) - 2_000
    assert end.exit_code is None
    assert end.text.startswith("Somebody deleted ")
