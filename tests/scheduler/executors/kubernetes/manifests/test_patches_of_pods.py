"""The one patch that sends a pod on its way."""

from __future__ import annotations

from typing import Any

from cluster_objects import a_pod_seen, an_attempt

from gpucommons.scheduler.executors.kubernetes.manifests import patches

NODE = {"kubernetes.io/hostname": "n0"}


def by_path(patch: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["path"]: one.get("value") for one in patch if one["op"] == "add"}


def test_node_devices_and_rank_are_set_and_the_gate_is_opened_in_one_step() -> None:
    attempt = an_attempt("worker", "worker", "worker")
    patch = patches.lift(a_pod_seen(2), attempt, 2, NODE, ["GPU-a", "GPU-b"])
    found = by_path(patch)
    assert found["/metadata/annotations/gpucommons.io~1devices"] == "GPU-a,GPU-b"
    assert found["/metadata/annotations/gpucommons.io~1slots"] == "n0/gpu-2"
    assert found["/metadata/annotations/gpucommons.io~1rank"] == "2"
    assert found["/metadata/annotations/gpucommons.io~1slice"] == "s-2"
    assert found["/spec/nodeSelector"] == NODE
    assert patch[-1] == {"op": "remove", "path": "/spec/schedulingGates/0"}


def test_gates_of_others_stay_and_ours_is_checked_to_be_the_one() -> None:
    pod = a_pod_seen(gates=("kueue", "gpucommons.io/placement"))
    patch = patches.lift(pod, an_attempt(), 0, NODE)
    assert patch[0] == {
        "op": "test",
        "path": "/spec/schedulingGates/1/name",
        "value": "gpucommons.io/placement",
    }
    assert patch[-1]["path"] == "/spec/schedulingGates/1"


def test_a_choice_of_nodes_that_is_there_is_added_to() -> None:
    found = by_path(patches.lift(a_pod_seen(has_selector=True), an_attempt(), 0, NODE))
    assert found["/spec/nodeSelector/kubernetes.io~1hostname"] == "n0"
    assert "/spec/nodeSelector" not in found


def test_without_a_bound_device_it_sees_none() -> None:
    found = by_path(patches.lift(a_pod_seen(), an_attempt(), 0, NODE))
    assert found["/metadata/annotations/gpucommons.io~1devices"] == "void"


def test_no_end_of_a_pod_makes_a_job_fail_that_is_being_stopped() -> None:
    spec = patches.suspend()["spec"]
    assert spec["suspend"] is True
    # Kubernetes 1.36 asks a failed Job when it began, and forgets that of a suspended one.
    assert spec["backoffLimit"] > 100_000, "an Indexed Job has at most so many pods"


def test_nobody_books_who_writes_what_is_sent_on_its_way_or_stopped() -> None:
    # An empty list would leave the books as they are.
    assert by_path(patches.lift(a_pod_seen(), an_attempt(), 0, NODE))[
        "/metadata/managedFields"
    ] == [{}]
    assert patches.suspend()["metadata"] == {"managedFields": [{}]}
