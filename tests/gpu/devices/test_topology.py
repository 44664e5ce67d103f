"""Links of a machine's GPUs, as they are told and as they are read."""

from __future__ import annotations

from itertools import combinations

import pytest

from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.devices.topology import (
    FROM_NEAR_TO_FAR,
    DeviceLink,
    LinkKind,
    SimulatedTopology,
    links_among,
    links_from,
    links_json,
    simulated_links,
)
from gpucommons.gpu.node.fake import simulated_devices

EIGHT = simulated_devices(8)


def test_links_are_read_as_they_were_told() -> None:
    links = simulated_links(EIGHT, SimulatedTopology.PAIRS)
    assert links_from(links_json(links)) == links


def test_of_each_kind_it_is_said_how_near_it_is() -> None:
    assert sorted(FROM_NEAR_TO_FAR) == sorted(LinkKind)


def test_simulated_pairs_lie_on_two_sockets() -> None:
    found = {
        (one.first, one.second): one.kind for one in simulated_links(EIGHT, SimulatedTopology.PAIRS)
    }
    assert found["sim-0", "sim-1"] is LinkKind.NVLINK
    assert found["sim-0", "sim-3"] is LinkKind.SOCKET
    assert found["sim-3", "sim-4"] is LinkKind.NODE
    assert found["sim-6", "sim-7"] is LinkKind.NVLINK
    assert len(found) == len(list(combinations(EIGHT, 2)))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 6, 10])
def test_no_simulated_pair_lies_on_two_sockets(count: int) -> None:
    links = simulated_links(simulated_devices(count), SimulatedTopology.PAIRS)
    nvlinks = [one for one in links if one.kind is LinkKind.NVLINK]
    assert len(nvlinks) == count // 2


def test_unless_said_simulated_gpus_tell_nothing() -> None:
    assert simulated_links(EIGHT, SimulatedTopology.UNKNOWN) == ()


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        "nvlink",
        [None],
        [["a", "b"]],
        [["a", "b", "quantum"]],
        [["a", "a", "nvlink"]],
        [["a", "", "nvlink"]],
        [["a", 7, "nvlink"]],
        [["a", "b", "nvlink"]] * 10_000,
    ],
)
def test_what_can_be_no_link_is_unknown(told: object) -> None:
    assert links_from(told) == ()


def test_one_pair_has_one_link_whatever_its_order() -> None:
    told = [["b", "a", "nvlink"], ["a", "b", "node"]]
    assert links_from(told) == (
        DeviceLink(first=DeviceId("a"), second=DeviceId("b"), kind=LinkKind.NODE),
    )


def test_only_links_between_these_devices_are_kept() -> None:
    links = simulated_links(EIGHT, SimulatedTopology.ALL)
    kept = links_among(links, (EIGHT[0].device_id, EIGHT[5].device_id))
    assert [(one.first, one.second) for one in kept] == [("sim-0", "sim-5")]
