"""What the API server will not do for us, and what vanished while nobody looked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from gpucommons.scheduler.core.model.state import AttemptEnded
from tests.kubernetes.api import wait_for
from tests.kubernetes.cluster.simulated_nodes import SimulatedNodes
from tests.kubernetes.executors.cluster_of_jobs import Jobs

_PATIENCE_S = 120
FORBIDDEN = 403


@pytest.fixture
def jobs(api: client.ApiClient, kubeconfig: Path, namespace: str) -> Iterator[Jobs]:
    made = Jobs(api, kubeconfig, namespace, vanished_hold_s=1)
    yield made
    made.close()


@pytest.fixture
def nodes(jobs: Jobs, kwok_nodes: SimulatedNodes) -> list[str]:
    names = kwok_nodes(2, 4, labels=jobs.labels)
    wait_for(lambda: len(jobs.executor.nodes()) == 2, "nodes")
    return names


@contextmanager
def no_job_may_be_changed(jobs: Jobs) -> Iterator[str]:
    """A policy of the cluster forbids it, as a right that is missing would."""
    admission = client.AdmissionregistrationV1Api(jobs.core.api_client)
    name = f"no-changes-{jobs.namespace}"
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "resources": ["jobs"],
        "operations": ["UPDATE"],
    }
    denied = {"expression": "false", "message": "Nobody changes Jobs.", "reason": "Forbidden"}
    policy: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [denied]},
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": jobs.namespace}}
    binding: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    admission.create_validating_admission_policy(policy)
    admission.create_validating_admission_policy_binding(binding)
    try:
        yield name
    finally:
        admission.delete_validating_admission_policy_binding(name)
        admission.delete_validating_admission_policy(name)


def is_refused(jobs: Jobs, job: str) -> bool:
    change = {"metadata": {"labels": {"probe": "yes"}}}
    try:
        jobs.batch.patch_namespaced_job(job, jobs.namespace, change, dry_run="All")
    except ApiException as error:
        if error.status != FORBIDDEN:
            raise
        return True
    return False


def patches(jobs: Jobs) -> int:
    return jobs.executor.connection.requests.get(("patch", "jobs"), 0)


def test_a_stop_that_is_refused_is_said_repeated_slowly_and_done_once_it_is_allowed(
    jobs: Jobs, nodes: list[str]
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    with no_job_may_be_changed(jobs) as policy:
        wait_for(lambda: is_refused(jobs, jobs.job_name(launch)), "a policy in force")
        began_s = time.monotonic()
        jobs.stop(launch)
        (said,) = wait_for(jobs.executor.refusals, "a sentence").values()
        assert said.startswith("It cannot be ended, and holds what it has: The cluster's rule")
        assert policy in said
        assert "Nobody changes Jobs." in said
        assert list(jobs.executor.troubles().values()) == [said]
        wait_for(lambda: patches(jobs) >= 3, "a third try", seconds=_PATIENCE_S)
        # After two seconds, then four: not as fast as refusals come.
        assert time.monotonic() - began_s > 5
        assert patches(jobs) == 3
    assert jobs.wait_ended(launch).exit_code == 143
    assert jobs.executor.troubles() == {}


def test_a_start_that_vanished_with_its_node_while_nobody_looked_is_not_repeated(
    jobs: Jobs, nodes: list[str], kwok_nodes: SimulatedNodes
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.wait_started(launch)
    (pod,) = jobs.pods(launch)
    # The scheduler dies before it puts on record that it runs; then all of it goes.
    jobs.executor.close()
    kwok_nodes.lose(nodes[0])
    jobs.batch.delete_namespaced_job(
        jobs.job_name(launch), jobs.namespace, propagation_policy="Orphan"
    )
    jobs.core.patch_namespaced_pod(
        pod.metadata.name, jobs.namespace, {"metadata": {"finalizers": None}}
    )
    jobs.core.delete_namespaced_pod(pod.metadata.name, jobs.namespace, grace_period_seconds=0)
    kwok_nodes.remove(nodes[0])
    wait_for(lambda: not jobs.pods(launch), "no pod in the books")
    jobs.executor = jobs.boot()
    assert launch.attempt.started_ms is None
    assert jobs.executor.adopt([launch.attempt]) == ()
    # A loop asks every second. One of the same age whose node is there is begun meanwhile.
    other = jobs.launch(nodes[1])
    began_s = time.monotonic()
    jobs.wait_started(other)
    hold_s = jobs.pool.grace_ms / 1000 + jobs.settings.vanished_hold_s

    def time_is_up() -> bool:
        jobs.start(launch)
        return time.monotonic() - began_s > hold_s + 3

    wait_for(time_is_up, "what a node that answers is given", seconds=_PATIENCE_S)
    assert jobs.pods(launch) == []
    jobs.stop(launch)
    jobs.executor._beat()
    assert jobs.seen(launch, AttemptEnded) is None
    # An admin fences it: not on record as live.
    jobs.live.discard(launch.attempt.attempt_id)
    wait_for(
        lambda: launch.attempt.attempt_id not in jobs.executor._records,
        "it is forgotten",
        seconds=_PATIENCE_S,
    )


def test_a_start_that_left_nothing_on_a_node_that_answers_is_repeated(
    jobs: Jobs, nodes: list[str]
) -> None:
    launch = jobs.launch(nodes[0])
    jobs.executor.close()
    for job in jobs.batch.list_namespaced_job(jobs.namespace).items:
        jobs.batch.delete_namespaced_job(
            job.metadata.name, jobs.namespace, propagation_policy="Background"
        )
    wait_for(lambda: not jobs.pods(launch), "nothing is left")
    jobs.executor = jobs.boot()
    jobs.executor.adopt([launch.attempt])
    jobs.wait_started(launch)
    assert len(jobs.pods(launch)) == 1
