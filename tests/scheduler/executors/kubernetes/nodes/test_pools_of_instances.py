"""Pools of MIG instances: each instance that a kubelet offers is a device of its own, given whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cluster_objects import FILES, a_launch, an_attempt

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.manifests.laying_out import lay_out
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import (
    Holdings,
    nodes_of,
    taken_by_others,
    why_no_part,
)
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    NodeSeen,
    read_node,
    read_other,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

CUT = "nvidia.com/mig-1g.10gb"
POOL = Pool(name=PoolName("train"), executor="kubernetes")
PLACE = PoolPlace(gpu_resource=CUT)
SETTINGS = KubernetesSettings(environments={"": "python:3"}, pools={"train": PLACE})


def a_node(**labels: str) -> NodeSeen:
    amounts = {CUT: "2", "nvidia.com/gpu": "3", "cpu": "8", "memory": "32Gi"}
    meta = {"name": "n0", "labels": {"gpucommons.io/pool": "train", **labels}}
    ready = {"type": "Ready", "status": "True"}
    return read_node({"metadata": meta, "status": {"conditions": [ready], "allocatable": amounts}})


def devices(node: NodeSeen, pool: Pool = POOL, *others: Any) -> list[tuple[str, str, int]]:
    taken = taken_by_others(one for one in others if one is not None)
    (found,) = nodes_of([node], [pool], SETTINGS, Holdings(taken=taken))
    return [(one.device_id, one.kind, one.memory_mib) for one in found.devices]


def test_every_instance_is_a_device_with_the_memory_of_its_profile() -> None:
    assert devices(a_node()) == [
        ("n0/gpu-0", "GPU-1g.10gb", 10_240),
        ("n0/gpu-1", "GPU-1g.10gb", 10_240),
    ]


def test_what_feature_discovery_says_is_believed_before_the_name() -> None:
    product = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", f"{CUT}.memory": "9728"}
    # Of the card itself it says something else.
    found = devices(a_node(**product, **{"nvidia.com/gpu.memory": "81920"}))
    assert found[0] == ("n0/gpu-0", "A100-1g.10gb", 9728)
    named = replace(POOL, gpu_kind="H100-1g.10gb")
    assert devices(a_node(**product), named)[0][1] == "H100-1g.10gb"


@pytest.mark.parametrize(("resource", "left"), [(CUT, 1), ("nvidia.com/gpu", 2)])
def test_others_take_what_they_ask_for_and_nothing_else(resource: str, left: int) -> None:
    limits = {"limits": {resource: "1"}}
    spec = {"nodeName": "n0", "containers": [{"name": "c", "resources": limits}]}
    meta = {"uid": "u", "namespace": "anybodys"}
    other = read_other({"metadata": meta, "spec": spec, "status": {"phase": "Running"}})
    assert len(devices(a_node(), POOL, other)) == left


def test_parts_of_an_instance_are_refused_with_what_to_do() -> None:
    assert why_no_part(PLACE, POOL, 1000) is None
    assert why_no_part(PLACE, POOL, 0) is None
    assert why_no_part(PoolPlace(), POOL, 500) is None
    assert why_no_part(PLACE, POOL, 500) == (
        "Pool train gives MIG instances (1g.10gb), each of them whole: ask for 1 GPU, which is one"
        " instance there, or for another pool."
    )


def test_a_worker_asks_the_device_plugin_for_its_instances() -> None:
    attempt = an_attempt()
    held = replace(attempt.placements[0], device_ids=(DeviceId("n0/gpu-0"), DeviceId("n0/gpu-1")))
    launch = a_launch(replace(attempt, placements=(held,)))
    (job,) = lay_out(launch, SETTINGS, POOL, FILES).jobs
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits[CUT] == "2"
    assert "nvidia.com/gpu" not in limits
