"""Pods that hold cards: which are needed, what they look like, and what they said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import a_node
from published_schemas import validate

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.executors.kubernetes.nodes import reservation_pods
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

SETTINGS = KubernetesSettings(pools={"build": PoolPlace(reservations="standing")})


def a_slot_node(name: str, pool: str, gpus: int = 2) -> Node:
    node = a_node(name, gpus=gpus, pool=pool)
    devices = tuple(
        replace(one, device_id=DeviceId(f"{name}/gpu-{one.index}")) for one in node.devices
    )
    return replace(node, devices=devices)


def test_standing_pools_hold_every_card_and_others_only_those_that_are_shared() -> None:
    nodes = [a_slot_node("b", "build"), a_slot_node("t", "train")]
    found = reservation_pods.wanted(nodes, [DeviceId("t/gpu-1")], SETTINGS)
    assert {slot: node.node_id for slot, node in found.items()} == {
        "b/gpu-0": "b",
        "b/gpu-1": "b",
        "t/gpu-1": "t",
    }


def test_a_reservation_asks_for_one_card_on_its_node_in_a_restricted_namespace() -> None:
    node = a_slot_node("b.example.org", "build")
    slot = DeviceId("b.example.org/gpu-1")
    pod = reservation_pods.reservation_pod(slot, node, {"kubernetes.io/hostname": "b"}, SETTINGS)
    validate(pod, "1.35", strict=True)
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["spec"]["priorityClassName"] == "gpucommons-reservation"
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "b"}
    assert "env" not in container
    assert len(pod["metadata"]["name"]) < 63


def test_two_nodes_whose_names_look_alike_do_not_share_a_reservation() -> None:
    names = {
        reservation_pods.reservation_name(DeviceId(f"{n}/gpu-0")) for n in ("a.b", "a-b", "A.b")
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("log", "uuid"),
    [
        (b"GPU-1234\n", "GPU-1234"),
        (b"MIG-5\nmore\n", "MIG-5"),
        (b"", None),
        (b"void\n", None),
        (b"all\n", None),
        (b"GPU-1,GPU-2\n", None),
        (b"/var/run/nvidia-container-devices\n", None),
    ],
)
def test_what_a_reservation_says_names_one_card_or_nothing(log: bytes, uuid: str | None) -> None:
    assert reservation_pods.uuid_in(log) == uuid


def test_a_reservation_that_ended_holds_nothing_any_more() -> None:
    pod = {
        "metadata": {
            "name": "gc-hold-b-0",
            "uid": "u",
            "annotations": {"gpucommons.io/slot": "b/gpu-0"},
        },
        "status": {"phase": "Running"},
    }
    seen = reservation_pods.read_reservation(pod)
    assert (seen.slot, seen.running, seen.leaving) == ("b/gpu-0", True, False)
    assert reservation_pods.read_reservation({**pod, "status": {"phase": "Failed"}}).leaving
