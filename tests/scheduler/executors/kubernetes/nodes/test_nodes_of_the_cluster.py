"""The scheduler's nodes from the cluster's: pools by labels, what others hold left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.hibernation.containers import RESOURCE
from gpucommons.scheduler.core.model.going_on import HibernationAbility
from gpucommons.scheduler.core.model.resources import Node, NodeState, Pool
from gpucommons.scheduler.core.model.types import NodeId, PoolName
from gpucommons.scheduler.executors.kubernetes.nodes.cluster_nodes import (
    Holdings,
    nodes_of,
    taken_by_others,
    with_drivers,
)
from gpucommons.scheduler.executors.kubernetes.objects.observed_objects import NodeSeen, OtherPod
from gpucommons.scheduler.executors.kubernetes.settings import KubernetesSettings, PoolPlace

TRAIN = Pool(name=PoolName("train"), executor="kubernetes", gpu_kind="A100-40")
CPU = Pool(name=PoolName("cpu"), executor="kubernetes")


def a_node(name: str = "n1", **changes: Any) -> NodeSeen:
    node = NodeSeen(
        name=name,
        labels={"gpucommons.io/pool": "train"},
        ready=True,
        ready_changed_s=0,
        cordoned=False,
        allocatable={"nvidia.com/gpu": 4},
        cpu_milli=8000,
        memory_mib=16_000,
    )
    return replace(node, **changes)


def other(uid: str = "u", node: str = "n1", gpus: int = 0) -> OtherPod:
    return OtherPod(uid=uid, node=node, gpus=gpus, cpu_milli=500, memory_mib=1000)


def seen(*nodes: NodeSeen, others: tuple[OtherPod, ...] = (), **more: Any) -> tuple[Node, ...]:
    settings = more.pop("settings", KubernetesSettings())
    holdings = Holdings(taken=taken_by_others(others), **more)
    return nodes_of(nodes, [TRAIN, CPU], settings, holdings)


def slots(node: Node) -> list[str]:
    return [device.device_id for device in node.devices]


@pytest.mark.parametrize(
    ("labels", "driver"),
    [
        ({"nvidia.com/cuda.driver-version.full": "580.95.05"}, "580.95.05"),
        (
            {
                "nvidia.com/cuda.driver.major": "550",
                "nvidia.com/cuda.driver.minor": "54",
                "nvidia.com/cuda.driver.rev": "15",
            },
            "550.54.15",
        ),
        ({}, ""),
        ({"nvidia.com/cuda.driver-version.full": "=cmd|' /C calc'!A0"}, ""),
        ({"nvidia.com/cuda.driver-version.full": "5" * 65}, ""),
    ],
)
def test_the_driver_is_what_the_labels_of_feature_discovery_say(
    labels: dict[str, str], driver: str
) -> None:
    (node,) = seen(a_node(labels={"gpucommons.io/pool": "train", **labels}))
    assert node.driver == driver


def test_where_no_label_names_the_driver_it_is_what_the_agent_told() -> None:
    label = {"gpucommons.io/pool": "train", "nvidia.com/cuda.driver-version.full": "580.95.05"}
    nodes = seen(
        a_node("labelled", labels=label), a_node("told"), a_node("silent"),
        a_node("bare", allocatable={}),
    )  # fmt: skip
    told = {NodeId(name): "550.54.15" for name in ("labelled", "told", "bare")}
    assert {one.node_id: one.driver for one in with_drivers(nodes, told)} == {
        "labelled": "580.95.05",
        "told": "550.54.15",
        "silent": "",
        "bare": "",
    }


def test_a_nodes_gpus_are_slots_and_its_label_names_the_pool() -> None:
    (node,) = seen(a_node(), a_node("n2", labels={}))
    assert (node.node_id, node.pool, node.cpu_milli, node.memory_mib) == (
        "n1",
        "train",
        8000,
        16_000,
    )
    assert slots(node) == [f"n1/gpu-{index}" for index in range(4)]
    assert {device.kind for device in node.devices} == {"A100-40"}


def test_a_pool_may_choose_its_nodes_by_other_labels() -> None:
    settings = KubernetesSettings(
        pools={"train": PoolPlace(selector={"gpu": "yes"}, rack_label="rack")}
    )
    (node,) = seen(a_node(labels={"gpu": "yes", "rack": "r7"}), settings=settings)
    assert (node.pool, node.rack) == ("train", "r7")


def test_a_nodes_labels_name_the_data_that_lies_on_it() -> None:
    labels = {
        "gpucommons.io/pool": "train",
        "data.gpucommons.io/imagenet": "true",
        "data.gpucommons.io/c4": "",
        "data.gpucommons.io/laion": "false",
        "data.example.org/other": "true",
    }
    (node,) = seen(a_node(labels=labels))
    assert node.data == {"imagenet", "c4"}


def test_feature_discovery_knows_the_model_better_than_the_pool() -> None:
    labels = {
        "gpucommons.io/pool": "train",
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.memory": "143771",
    }
    (node,) = seen(a_node(labels=labels))
    assert (node.devices[0].kind, node.devices[0].memory_mib) == ("H200-140", 143_771)


def test_a_simulated_node_says_so() -> None:
    labels = {"gpucommons.io/pool": "train", "gpucommons.io/simulated": "true"}
    (node,) = seen(a_node(labels=labels))
    assert node.devices[0].simulated


def test_a_node_that_is_not_ready_is_missing_and_a_cordoned_one_is_said_to_be() -> None:
    (node,) = seen(a_node(ready=False), a_node("n2", cordoned=True))
    assert (node.node_id, node.state) == ("n2", NodeState.CORDONED)


def test_room_that_others_take_is_left_out() -> None:
    (node,) = seen(a_node(), others=(other("a"), other("b"), other("c", node="n9")))
    assert (node.cpu_milli, node.memory_mib) == (7000, 14_000)


def test_gpus_of_others_are_never_those_that_our_work_holds() -> None:
    held = frozenset({DeviceId("n1/gpu-3"), DeviceId("n1/gpu-1")})
    (node,) = seen(a_node(), others=(other(gpus=1),), held=held)
    assert slots(node) == ["n1/gpu-0", "n1/gpu-1", "n1/gpu-3"]
    (crowded,) = seen(a_node(), others=(other(gpus=3),), held=held)
    assert slots(crowded) == ["n1/gpu-1", "n1/gpu-3"]


@pytest.mark.parametrize(
    ("offered", "left"),
    [(0, ["n1/gpu-1", "n1/gpu-3"]), (3, ["n1/gpu-0", "n1/gpu-1", "n1/gpu-3"])],
    ids=["its device plugin begins anew", "a card is not well"],
)
def test_a_kubelet_that_offers_fewer_cards_takes_only_free_ones(
    offered: int, left: list[str]
) -> None:
    held = frozenset({DeviceId("n1/gpu-3"), DeviceId("n1/gpu-1")})
    (node,) = seen(a_node(allocatable={"nvidia.com/gpu": offered}), held=held)
    assert slots(node) == left


def test_of_fewer_cards_and_others_pods_both_are_missing() -> None:
    held = frozenset({DeviceId("n1/gpu-3")})
    (node,) = seen(a_node(allocatable={"nvidia.com/gpu": 3}), others=(other(gpus=1),), held=held)
    assert slots(node) == ["n1/gpu-0", "n1/gpu-3"]


STANDING = KubernetesSettings(pools={"train": PoolPlace(reservations="standing")})
FIRST, THIRD = DeviceId("n1/gpu-0"), DeviceId("n1/gpu-2")


def test_where_reservations_stand_only_held_slots_are_offered() -> None:
    (node,) = seen(a_node(), settings=STANDING, reserved={THIRD})
    assert slots(node) == ["n1/gpu-2"]


def test_of_fewer_cards_those_that_are_reserved_are_offered() -> None:
    held, reserved = frozenset({DeviceId("n1/gpu-3")}), {FIRST, THIRD, DeviceId("n1/gpu-3")}
    (node,) = seen(
        a_node(allocatable={"nvidia.com/gpu": 3}), settings=STANDING, reserved=reserved, held=held
    )
    assert slots(node) == ["n1/gpu-0", "n1/gpu-2", "n1/gpu-3"]


def test_work_does_not_lose_its_slot_because_the_reservation_is_not_heard_of_yet() -> None:
    held = frozenset({FIRST})
    (node,) = seen(a_node(), settings=STANDING, reserved=set(), held=held, strayed={FIRST})
    assert slots(node) == ["n1/gpu-0"]


@pytest.mark.parametrize("settings", [STANDING, KubernetesSettings()], ids=["standing", "other"])
def test_a_slot_whose_reservation_holds_another_card_is_lost(settings: KubernetesSettings) -> None:
    reserved = {DeviceId(f"n1/gpu-{index}") for index in range(4)}
    (node,) = seen(
        a_node(), settings=settings, reserved=reserved, held=frozenset({FIRST}), lost={FIRST}
    )
    assert slots(node) == ["n1/gpu-1", "n1/gpu-2", "n1/gpu-3"]


def test_a_slot_that_a_pod_without_a_lease_has_is_not_offered() -> None:
    (node,) = seen(a_node(), settings=STANDING, reserved={FIRST, THIRD}, strayed={FIRST})
    assert slots(node) == ["n1/gpu-2"]


def test_no_whole_card_is_offered_where_the_plugin_may_choose_one_that_is_in_use() -> None:
    (node,) = seen(a_node(), held=frozenset({FIRST}), closed={"n1"})
    assert slots(node) == ["n1/gpu-0"]


@pytest.mark.parametrize("pool", ["cpu"])
def test_a_node_without_gpus_is_a_node(pool: str) -> None:
    (node,) = seen(a_node(labels={"gpucommons.io/pool": pool}, allocatable={}))
    assert (node.pool, node.devices) == ("cpu", ())


def test_what_a_nodes_agent_offers_is_what_its_jobs_can_be_saved_by() -> None:
    offers = a_node(allocatable={RESOURCE: 64})
    on = KubernetesSettings(hibernation=True)
    (silent,) = seen(offers)
    (able,) = seen(offers, settings=on)
    (failed,) = seen(a_node(), settings=on)
    hindered = on.model_copy(update={"hibernation_hindrance": "there is no volume"})
    (nowhere,) = seen(offers, settings=hindered)
    assert silent.hibernation is None
    assert able.hibernation is not None
    assert able.hibernation.able
    assert failed.hibernation is not None
    assert failed.hibernation.because == (
        "its node does not offer to save processes (the log of the node's agent says why)"
    )
    assert nowhere.hibernation == HibernationAbility(able=False, because="there is no volume")
