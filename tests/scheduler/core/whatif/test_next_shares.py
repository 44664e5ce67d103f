"""Which device the next notebook with a part of a GPU would get, before anybody asks for one."""

from __future__ import annotations

from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.whatif.next_shares import next_shares


def slots(world: World) -> set[str]:
    return set(next_shares(world.cluster, [TRAIN]))


def given(world: World, milli_gpu: int, owner: str) -> str:
    lease = world.get(world.submit(a_notebook(owner, milli_gpu), redeem=True))
    assert lease.current is not None
    return lease.current.placements[0].device_ids[0]


def test_it_is_the_device_that_the_next_such_notebook_gets_until_no_place_is_left() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1500)])
    expected = []
    while slots(world):
        (slot,) = slots(world)
        expected.append(slot)
        assert given(world, 500, f"user-{len(expected)}") == slot
    assert len(expected) == 3


def test_every_team_with_notebooks_has_one_and_others_none() -> None:
    quotas = {"vision": 1000, "nlp": 1000, "audio": 0}
    world = World(teams=[a_team(name, fixed_milli_gpu=much) for name, much in quotas.items()])
    assert slots(world) == {device for b in world.cluster.blocks for device in b.device_ids}
    assert len(slots(world)) == 2
    assert next_shares(world.cluster, []) == frozenset()


def test_where_no_half_fits_it_is_where_a_quarter_does() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    given(world, 500, "ann")
    last = given(world, 250, "bob")
    assert slots(world) == {last}


def test_a_pool_that_gives_whole_gpus_alone_has_none() -> None:
    pool = a_pool(notebook_sizes=(1000,))
    world = World(teams=[a_team(fixed_milli_gpu=1000)], pools=[pool])
    assert slots(world) == set()


def test_a_lent_device_is_not_the_next_one() -> None:
    world = World(a_node(gpus=1), teams=[a_team(fixed_milli_gpu=1000)])
    assert slots(world)
    world.run(a_job())
    assert slots(world) == set()


def test_nothing_of_the_cluster_changes_by_asking() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    assert slots(world) == slots(world)
    assert given(world, 500, "ann") in slots(world)
