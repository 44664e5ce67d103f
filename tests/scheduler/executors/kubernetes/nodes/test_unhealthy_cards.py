"""Slots of unhealthy cards take nothing new, as far as it is known which card a slot has."""

from __future__ import annotations

from builders import a_device, a_node

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.scheduler.core.model.resources import Node, UnhealthyDevice
from gpucommons.scheduler.core.model.types import NodeId
from gpucommons.scheduler.executors.kubernetes.nodes.unhealthy_cards import Told, with_unhealthy

N1 = NodeId("n1")
ONE, TWO = (a_device(f"n1/gpu-{index}", index) for index in range(2))
LOST = {DeviceId("GPU-a"): "GPU is lost"}
ON_RECORD = {N1: (UnhealthyDevice(device=ONE, text="GPU is lost"),)}


def seen(told: Told) -> Node:
    (node,) = with_unhealthy([a_node(devices=(ONE, TWO))], told)
    return node


def test_a_slot_whose_card_is_unhealthy_takes_nothing_new() -> None:
    cards = {ONE.device_id: DeviceId("GPU-a"), TWO.device_id: DeviceId("GPU-b")}
    node = seen(Told(by_agents={N1: LOST}, on_record={}, cards=cards))
    assert node.devices == (TWO,)
    assert node.unhealthy == (UnhealthyDevice(device=ONE, text="GPU is lost"),)


def test_which_free_slot_has_it_is_the_device_plugin_s_to_say() -> None:
    node = seen(Told(by_agents={N1: LOST}, on_record={}, cards={TWO.device_id: DeviceId("GPU-b")}))
    assert node == a_node(devices=(ONE, TWO))


def test_an_agent_that_says_it_is_well_is_believed() -> None:
    cards = {ONE.device_id: DeviceId("GPU-a")}
    node = seen(Told(by_agents={N1: {}}, on_record=ON_RECORD, cards=cards))
    assert node.unhealthy == ()


def test_an_agent_that_is_away_makes_no_card_well() -> None:
    node = seen(Told(by_agents={}, on_record=ON_RECORD, cards={}))
    assert (node.devices, node.unhealthy) == ((TWO,), ON_RECORD[N1])
