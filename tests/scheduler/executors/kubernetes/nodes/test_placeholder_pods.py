"""Pods that show an autoscaler which nodes are missing: how many, what they ask for, when they go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from published_schemas import validate

from gpucommons.scheduler.core.model.resources import Growth, Pool
from gpucommons.scheduler.core.model.types import PoolName
from gpucommons.scheduler.executors.kubernetes.nodes.placeholder_pods import (
    PlaceholderSeen,
    due,
    is_named_so,
    owner_of,
    placeholder_name,
    placeholder_pod,
    read_placeholder,
)
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

CLOUD, OTHER = PoolName("cloud"), PoolName("other")
GROWTH = Growth(max_nodes=3, gpus=8, cpu_milli=90_500, memory_mib=700_000, boot_ms=240_000)
POOL = Pool(name=CLOUD, executor="kubernetes", gpu_kind="A100-40", growth=GROWTH)
KEEPS_A_NODE = ("karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/safe-to-evict")


def seen(number: int, node: str | None = None, *, leaving: bool = False) -> PlaceholderSeen:
    return PlaceholderSeen(
        name=placeholder_name(CLOUD, number),
        uid=f"u{number}",
        pool=CLOUD,
        node=node,
        leaving=leaving,
    )


def test_a_placeholder_needs_a_whole_node_of_its_pool_and_keeps_none() -> None:
    settings = KubernetesSettings(
        pools={"cloud": PoolPlace(selector={"cloud.example/pool": "a100"})}
    )
    pod = placeholder_pod(POOL, GROWTH, 1, settings)
    validate(pod, "1.35", strict=True)
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert container["resources"]["requests"] == {"cpu": "90500m", "memory": "700000Mi"}
    assert pod["spec"]["nodeSelector"] == {"cloud.example/pool": "a100"}
    assert pod["spec"]["priorityClassName"] == "gpucommons-placeholder"
    assert "schedulingGates" not in pod["spec"]
    assert not set(KEEPS_A_NODE) & pod["metadata"]["annotations"].keys()
    assert [one.get("key") for one in pod["spec"]["tolerations"]] == ["gpucommons.io/pool"]


@pytest.mark.parametrize(("boot_s", "deadline_s"), [(240, 3600), (3000, 6000)])
def test_a_node_that_takes_no_work_is_not_kept_for_ever(boot_s: int, deadline_s: int) -> None:
    growth = replace(GROWTH, boot_ms=boot_s * 1000)
    pod = placeholder_pod(POOL, growth, 1, KubernetesSettings())
    assert pod["spec"]["activeDeadlineSeconds"] == deadline_s


def test_it_goes_with_its_owner() -> None:
    deployment = {"metadata": {"name": "gpucommons-scheduler", "uid": "d1", "labels": {}}}
    pod = placeholder_pod(POOL, GROWTH, 1, KubernetesSettings(), owner=owner_of(deployment))
    validate(pod, "1.35", strict=True)
    assert pod["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gpucommons-scheduler", "uid": "d1"}
    ]


def test_a_pool_without_gpus_asks_for_none() -> None:
    growth = replace(GROWTH, gpus=0)
    (container,) = placeholder_pod(POOL, growth, 1, KubernetesSettings())["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "700000Mi"}


@pytest.mark.parametrize("pool", ["cloud", "Cloud A100!", "a--b", "x" * 63])
def test_what_is_made_is_read_as_it_was_meant(pool: str) -> None:
    made = placeholder_pod(replace(POOL, name=PoolName(pool)), GROWTH, 12, KubernetesSettings())
    assert len(made["metadata"]["name"]) <= 63
    made["metadata"]["uid"] = "u"
    found = read_placeholder(made)
    assert (found.pool, found.node, found.leaving) == (pool, None, False)
    assert is_named_so(found)
    assert not is_named_so(replace(found, pool=PoolName("another")))


def test_as_many_are_made_as_are_missing_under_names_that_are_free() -> None:
    found = due({CLOUD: 3}, [seen(1), seen(2, leaving=True)], lambda _node: False)
    assert found.make == ((CLOUD, 3), (CLOUD, 4))
    assert found.remove == ()


def test_it_goes_as_soon_as_its_node_takes_work() -> None:
    there = [seen(1, "n1"), seen(2)]
    found = due({CLOUD: 1}, there, lambda node: node == "n1")
    assert ([pod.name for pod in found.remove], found.make) == (["gc-node-cloud-1"], ())


def test_while_its_node_boots_it_stays() -> None:
    assert due({CLOUD: 1}, [seen(1, "n1")], lambda _node: False).remove == ()


def test_of_too_many_one_without_a_node_goes_first() -> None:
    found = due({CLOUD: 1}, [seen(1), seen(2, "boots"), seen(3)], lambda _node: False)
    assert [pod.name for pod in found.remove] == ["gc-node-cloud-1", "gc-node-cloud-3"]


def test_nothing_is_left_of_a_pool_that_needs_none_any_more() -> None:
    found = due({OTHER: 1}, [seen(1), seen(2, "n1"), seen(3, leaving=True)], lambda _node: False)
    assert [pod.uid for pod in found.remove] == ["u1", "u2"]
    assert found.make == ((OTHER, 1),)


def test_one_that_its_node_runs_no_more_is_removed_and_made_anew() -> None:
    found = due({CLOUD: 1}, [replace(seen(1, "n1"), ended=True)], lambda _node: False)
    assert [pod.uid for pod in found.remove] == ["u1"]
    assert found.make == ((CLOUD, 2),)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_stays_until_it_is_deleted(phase: str) -> None:
    made = placeholder_pod(POOL, GROWTH, 1, KubernetesSettings())
    made["metadata"]["uid"], made["status"] = "u", {"phase": phase}
    found = read_placeholder(made)
    assert (found.ended, found.leaving) == (True, False)
    made["metadata"]["deletionTimestamp"] = "2026-11-29T20:00:00Z"
    assert read_placeholder(made).leaving
