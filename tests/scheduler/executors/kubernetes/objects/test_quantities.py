"""Amounts as Kubernetes writes them, and what pods ask of their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.utils.quantity import parse_quantity

from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import (
    OtherPod,
    read_node,
    read_other,
)
from gpucommons.scheduler.executors.kubernetes.objects.quantities import (
    amount_of,
    cpu_of,
    memory_of,
)

SMALL = {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
BIG = {"requests": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}


@pytest.mark.parametrize(
    ("text", "milli"),
    [("2", 2000), ("500m", 500), ("0.5", 500), (3, 3000), ("1500000n", 1), ("1k", 1_000_000)],
)
def test_amounts_of_cpu(text: str | int, milli: int) -> None:
    assert cpu_of(text) == milli


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        *[("512Mi", 512), ("1Gi", 1024), ("1G", 953), (1 << 20, 1), ("1048576k", 1000)],
        *[("1e9", 953), ("1Pi", 1 << 30), ("500u", 0), ("1E", 10**18 >> 20), ("1E3", 0)],
    ],
)
def test_amounts_of_memory(text: str | int, mib: int) -> None:
    assert memory_of(text) == mib


@pytest.mark.parametrize("suffix", ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3"])
@pytest.mark.parametrize("number", ["1", "0.5", "-2", ".25", "7."])
def test_every_suffix_means_what_the_client_library_reads(number: str, suffix: str) -> None:
    assert amount_of(number + suffix) == parse_quantity(number + suffix)


@pytest.mark.parametrize("text", ["", "much", "1ki", "1Mb", "0x1", "1 Gi", "NaN", "1e9999999"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount"):
        amount_of(text)


def test_no_amount_is_larger_than_kubernetes_lets_it_be() -> None:
    assert amount_of("1e200") == amount_of("16Ei") == 2**63 - 1


def a_pod(**spec: Any) -> OtherPod:
    meta = {"uid": "u", "name": "p", "namespace": "x"}
    found = read_other({"metadata": meta, "spec": {"nodeName": "n1", **spec}})
    assert found is not None
    return found


def an_init(resources: Any, **more: Any) -> dict[str, Any]:
    return {"name": "i", "resources": resources, **more}


ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu_milli", "gpus"),
    [
        ({"containers": [SMALL, SMALL]}, 200, 0),
        ({"containers": [SMALL], "initContainers": [an_init(BIG)]}, 4000, 1),
        ({"containers": [SMALL], "initContainers": [an_init(BIG), an_init(BIG)]}, 4000, 1),
        ({"containers": [SMALL], "initContainers": [an_init(BIG, **ALWAYS)]}, 4100, 1),
        (
            {"containers": [SMALL], "initContainers": [an_init(BIG, **ALWAYS), an_init(BIG)]},
            8000,
            2,
        ),
        (
            {"containers": [SMALL], "initContainers": [an_init(BIG), an_init(BIG, **ALWAYS)]},
            4100,
            1,
        ),
        ({"containers": [SMALL], "resources": {"requests": {"cpu": "3"}}}, 3000, 0),
        ({"containers": [SMALL], "overhead": {"cpu": "250m"}}, 350, 0),
        (
            {
                "containers": [SMALL],
                "resources": {"limits": {"cpu": "9"}, "requests": {"cpu": "3"}},
                "overhead": {"cpu": "1"},
            },
            4000,
            0,
        ),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000, 0),
    ],
)
def test_a_pod_takes_what_the_kube_scheduler_counts(
    spec: dict[str, Any], cpu_milli: int, gpus: int
) -> None:
    found = a_pod(**spec)
    assert (found.cpu_milli, found.gpus) == (cpu_milli, gpus)


def test_a_node_offers_also_what_is_written_with_a_suffix() -> None:
    status = {"allocatable": {"cpu": "1k", "memory": "1Pi", "example.org/port": "1k"}}
    node = read_node({"metadata": {"name": "n1"}, "status": status})
    assert (node.cpu_milli, node.memory_mib) == (1_000_000, 1 << 30)
    assert node.allocatable == {"example.org/port": 1000}
