"""Which GPUs of one machine are taken together."""

from __future__ import annotations

from collections.abc import Sequence

from builders import World, a_device, a_job, a_node, a_team

from gpucommons.gpu.devices.topology import SimulatedTopology, simulated_links
from gpucommons.scheduler.core.capacity.device_distances import distances_of, nearest
from gpucommons.scheduler.core.model.resources import Node


def a_linked_node(name: str = "n1", gpus: int = 8, topology: str = "pairs") -> Node:
    node = a_node(name, gpus)
    return a_node(name, gpus, links=simulated_links(node.devices, SimulatedTopology(topology)))


def where(world: World, job: str) -> list[str]:
    attempt = world.get(job).current  # type: ignore[arg-type]
    assert attempt is not None
    return [one for place in attempt.placements for one in place.device_ids]


def a_world(*nodes: Node) -> World:
    return World(*nodes, teams=[a_team(guaranteed_milli_gpu=0)])


def test_two_workers_of_a_job_get_a_linked_pair() -> None:
    world = a_world(a_linked_node())
    world.run(a_job("one", 1000))
    assert where(world, world.run(a_job("gang", 1000, workers=2))) == ["n1-g2", "n1-g3"]


def test_one_gpu_is_taken_where_it_parts_no_linked_pair() -> None:
    world = a_world(a_linked_node(gpus=4))
    first = world.run(a_job("first", 1000))
    pair = world.run(a_job("pair", 2000))
    assert where(world, first) == ["n1-g0"]
    assert where(world, pair) == ["n1-g2", "n1-g3"]
    assert where(world, world.run(a_job("second", 1000))) == ["n1-g1"]


def test_without_a_linked_pair_two_gpus_lie_on_one_socket() -> None:
    devices = [a_device(f"g{i}", i) for i in range(8)]
    distances = distances_of(devices, simulated_links(devices, SimulatedTopology.PAIRS))
    assert distances is not None
    assert nearest(distances, {1, 2, 5}, 2, {}) == (1, 2)


def test_gpus_outside_fixed_blocks_go_before_linked_ones() -> None:
    devices = [a_device(f"g{i}", i) for i in range(4)]
    distances = distances_of(devices, simulated_links(devices, SimulatedTopology.PAIRS))
    assert distances is not None
    assert nearest(distances, {0, 1, 2}, 2, {0: 1000}) == (1, 2)


def test_where_links_are_all_alike_it_is_as_without_them() -> None:
    def taken(topology: str) -> Sequence[list[str]]:
        world = a_world(a_linked_node(topology=topology))
        return [where(world, world.run(a_job(f"job-{n}", n * 1000))) for n in (1, 3, 2)]

    assert taken("all") == taken("unknown")


def test_of_equal_nodes_the_one_with_linked_gpus_is_taken() -> None:
    world = a_world(a_linked_node("n1", topology="unknown"), a_linked_node("n2"))
    assert where(world, world.run(a_job("pair", 2000))) == ["n2-g0", "n2-g1"]


def test_on_large_nodes_a_set_is_grown_and_no_pair_is_parted_needlessly() -> None:
    devices = [a_device(f"g{i}", i) for i in range(32)]
    distances = distances_of(devices, simulated_links(devices, SimulatedTopology.PAIRS))
    assert distances is not None
    chosen = nearest(distances, set(range(1, 32)), 8, {})
    assert {one // 16 for one in chosen} in ({0}, {1})
    assert sorted(one // 2 for one in chosen) == sorted([one // 2 for one in chosen[::2]] * 2)


def test_workers_that_an_elastic_job_starts_with_get_linked_gpus_as_a_gang_would() -> None:
    """Its fewest are placed first, the others when everybody has had a turn: none has begun by then."""
    world = a_world(a_linked_node(gpus=4))
    world.run(a_job("other", 1000))
    grown = world.run(a_job("grown", 1000, workers=2, min_workers=1, max_workers=2))
    assert where(world, grown) == ["n1-g2", "n1-g3"]


def test_an_elastic_job_starts_on_one_node_where_one_takes_all_of_it() -> None:
    """Its first worker alone would fill up the fuller node."""
    world = a_world(a_linked_node("n1", 4), a_linked_node("n2", 4))
    world.run(a_job("other", 3000))
    grown = world.run(a_job("grown", 1000, workers=4, min_workers=1, max_workers=4))
    assert {name.split("-")[0] for name in where(world, grown)} == {"n2"}
    told = [event.text for event in world.events if event.kind == "admitted"]
    assert told[1:] == ["grown has 4 GPUs on n2 (borrowed)."], "told once, and where it is"


def test_workers_beyond_a_guarantee_go_to_the_node_of_those_inside() -> None:
    """A single GPU that is left elsewhere would be packed better."""
    teams = [a_team(guaranteed_milli_gpu=2000), a_team("nlp")]
    world = World(a_linked_node("n1", 4), a_linked_node("n2", 4), teams=teams)
    other = where(world, world.run(a_job("other", 3000, team="nlp")))
    grown = world.run(a_job("grown", 1000, workers=2, min_workers=2, max_workers=4))
    attempt = world.get(grown).current
    assert attempt is not None
    assert [one.surplus for one in attempt.placements] == [False, False, True, True]
    assert {one.node_id for one in attempt.placements} == {"n1", "n2"} - {other[0].split("-")[0]}
    told = [event.text for event in world.events if event.kind == "admitted"]
    node = attempt.placements[0].node_id
    assert told[1:] == [f"grown has 4 GPUs on {node} (guaranteed, 2 GPUs of them borrowed)."]
