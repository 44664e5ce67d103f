"""What is kept of the API's objects, and how pods and Jobs that come and go are followed."""

from __future__ import annotations

from typing import Any

from cluster_objects import ATTEMPT_ID, JOB, a_job_seen, a_pod, a_pod_seen, an_ended_pod

from gpucommons.scheduler.executors.kubernetes.objects.attempt_cache import DELETED, AttemptCache
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    Why,
    indexes,
    read_job,
    read_node,
    read_other,
    read_pod,
)


def worker(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "sidecar", "state": {"running": {}}}, {"name": "worker", "state": state}]


def test_completed_indexes() -> None:
    assert indexes("0-2,5") == {0, 1, 2, 5}
    assert indexes("") == frozenset()


def test_a_pod_behind_its_gate() -> None:
    pod = read_pod(a_pod())
    assert pod is not None
    assert (pod.attempt_id, pod.job, pod.index) == (ATTEMPT_ID, JOB, 0)
    assert pod.gated
    assert not pod.placed
    assert (pod.gpus, pod.variables, pod.started) == (1, ("A",), False)


def test_a_pod_of_somebody_else_is_none_of_ours() -> None:
    other = a_pod()
    other["metadata"]["labels"] = {}
    assert read_pod(other) is None


def test_a_worker_runs_when_its_own_container_does() -> None:
    pod = read_pod(a_pod(phase="Running", containerStatuses=worker(running={})))
    assert pod is not None
    assert pod.started


def test_a_worker_that_ended_tells_how() -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": "a", "finishedAt": "b"}
    pod = read_pod(a_pod(phase="Failed", containerStatuses=worker(terminated=ended)))
    assert pod is not None
    assert (pod.exit_code, pod.end.reason, pod.finished_at, pod.terminal) == (
        137,
        "OOMKilled",
        "b",
        True,
    )


def test_a_failed_init_container_is_what_a_pod_waits_for() -> None:
    failed = {"terminated": {"exitCode": 1, "message": "no snapshot"}}
    pod = read_pod(a_pod(initContainerStatuses=[{"name": "i", "state": failed}]))
    assert pod is not None
    assert pod.waiting == Why(reason="InitFailed", message="no snapshot")


def test_conditions_say_why_it_is_taken_away_or_not_bound() -> None:
    conditions = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"},
    ]
    pod = read_pod(a_pod(conditions=conditions))
    assert pod is not None
    assert (pod.disrupted.reason, pod.unschedulable) == ("PreemptionByScheduler", "full")


def test_others_pods_count_once_they_have_a_node_and_until_they_end() -> None:
    other = a_pod()
    assert read_other(other) is None
    other["spec"]["nodeName"] = "n1"
    found = read_other(other)
    assert found is not None
    assert (found.gpus, found.memory_mib) == (1, 512)
    assert read_other({**other, "status": {"phase": "Succeeded"}}) is None


def test_a_job_and_how_it_failed() -> None:
    labels = {"gpucommons.io/attempt": ATTEMPT_ID}
    found = read_job(
        {
            "metadata": {"name": JOB, "namespace": "jobs", "uid": "u", "labels": labels},
            "spec": {
                "parallelism": 2,
                "completions": 2,
                "template": {"spec": {"terminationGracePeriodSeconds": 9}},
            },
            "status": {
                "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]
            },
        }
    )
    assert found is not None
    assert (found.finished, found.failure.reason, found.grace_s) == (
        "Failed",
        "DeadlineExceeded",
        9,
    )


def test_a_node() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    node = read_node(
        {
            "metadata": {"name": "n1", "labels": {"a": "b"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [ready],
                "allocatable": {"cpu": "7910m", "memory": "1Gi", "nvidia.com/gpu": "8"},
            },
        }
    )
    assert (node.ready, node.cordoned, node.allocatable) == (True, True, {"nvidia.com/gpu": 8})
    assert (node.cpu_milli, node.memory_mib) == (7910, 1024)


# --- following -----------------------------------------------------------------------------------


def test_how_a_pod_ended_is_kept_though_its_last_event_says_less() -> None:
    cache = AttemptCache()
    cache.put_pod("ADDED", an_ended_pod(0, 3))
    cache.put_pod(DELETED, a_pod_seen(0, killed_at_ms=1))
    trace = cache.of(ATTEMPT_ID)
    assert trace.pods[JOB, 0].exit_code == 3
    assert trace.gone == {"uid-0"}
    assert trace.bare


def test_a_second_pod_for_a_place_is_not_taken_for_the_first() -> None:
    cache = AttemptCache()
    cache.put_pod("ADDED", an_ended_pod(0, 3))
    cache.put_pod("ADDED", a_pod_seen(0, uid="another"))
    assert cache.of(ATTEMPT_ID).pods[JOB, 0].uid == "uid-0"


def test_what_a_new_list_lacks_is_gone() -> None:
    cache = AttemptCache()
    cache.put_job("ADDED", a_job_seen())
    cache.put_pod("ADDED", a_pod_seen(0))
    cache.put_pod("ADDED", a_pod_seen(1))
    assert cache.reset_jobs([]) == {ATTEMPT_ID}
    assert cache.reset_pods([a_pod_seen(1)]) == {ATTEMPT_ID}
    trace = cache.of(ATTEMPT_ID)
    assert trace.jobs == {}
    assert trace.gone == {"uid-0"}
    assert not trace.bare


def test_a_worker_that_wakes_something_has_not_started_before_that_is_over() -> None:
    runs = {"name": "worker", "state": {"running": {}}}
    for told, started in (({}, True), ({"started": True}, True), ({"started": False}, False)):
        pod = read_pod(a_pod(containerStatuses=[{**runs, **told}]))
        assert pod is not None
        assert pod.started is started
