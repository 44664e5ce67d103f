"""What would start a waiting workload now, decided by the core and changing nothing."""

from __future__ import annotations

from builders import World, a_device, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.intents import PutPolicy, Started
from gpucommons.scheduler.core.model.resources import Node, Policy, Quota
from gpucommons.scheduler.core.model.types import NodeId, PoolName, TeamName, WorkloadId
from gpucommons.scheduler.core.whatif.counterfactuals import Counterfactual, ways

OTHER = PoolName("other")


def found(world: World, workload_id: WorkloadId) -> list[str]:
    before = world.cluster
    told = [way.text for way in ways(world.cluster, workload_id, world.now, every_size)]
    assert world.cluster is before
    return told


def test_one_gpu_fewer_would_start_now() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("resnet-1", 4000))
    assert found(world, waits) == ["Would start now with 3 GPUs."]
    (way,) = ways(world.cluster, waits, world.now, every_size)
    assert way == Counterfactual(change="with 3 GPUs", at_once=True, milli_gpu=3000)


def test_a_gang_would_start_with_smaller_or_fewer_workers() -> None:
    world = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("resnet-1", 1000, workers=4))
    assert found(world, waits) == [
        "Would start now with ½ GPU per worker.",
        "Would start now with 3 workers.",
    ]


def test_another_kind_or_pool_would_start_now() -> None:
    old = a_device("old", kind="A100-40")
    mixed = Node(
        node_id=NodeId("n1"),
        pool=PoolName("train"),
        devices=(a_device("new", kind="A100-80"), old),
        cpu_milli=64_000,
        memory_mib=262_144,
    )
    quota = Quota(guaranteed_milli_gpu=2000)
    team = a_team(guaranteed_milli_gpu=2000)
    team = type(team)(name=team.name, quotas={**team.quotas, OTHER: quota})
    world = World(mixed, a_node("n2", pool=OTHER), pools=[a_pool(), a_pool(OTHER)], teams=[team])
    spec = a_job("digits-1")
    role = type(spec.roles[0])(milli_gpu=1000, gpu_kind="A100-80", command=("true",))
    kind = a_job("digits-1", roles=(role,))
    world.run(kind)
    waits = world.submit(a_job("digits-2", roles=(role,)))
    assert found(world, waits) == ["Would start now on the A100-40."]
    world.run(a_job("digits-3"))
    both = world.submit(a_job("digits-4"))
    assert "Would start now in pool other." in found(world, both)


def test_who_is_ahead_in_line_counts() -> None:
    world = World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=2000)])
    world.run(a_job("digits-1"))
    world.submit(a_job("first-1", 2000))
    waits = world.submit(a_job("second-1", 2000))
    # One GPU is free, but whoever asks for one now is behind nobody who could take it.
    assert found(world, waits) == ["Would start now with 1 GPU."]


def test_a_higher_priority_would_stop_others_where_policy_allows_it() -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("digits-1"))
    world.wait(120_000)
    waits = world.submit(a_job("digits-2"))
    assert found(world, waits) == [
        "Would be next with priority high: others would be stopped for it."
    ]
    world.ask(PutPolicy(policy=Policy(priorities=frozenset({"low", "normal"}))))
    assert found(world, waits) == []


def test_a_job_that_may_not_borrow_would_start_if_it_did() -> None:
    world = World(a_node(gpus=2), teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("digits-1"))
    waits = world.submit(a_job("digits-2", over_quota=False))
    assert "Would start now if it may borrow." in found(world, waits)


def test_a_ticket_would_start_with_an_offered_size_only() -> None:
    pool = a_pool(notebook_sizes=(250, 1000))
    world = World(a_node(gpus=2), pools=[pool], teams=[a_team(fixed_milli_gpu=1500)])
    world.ask(Started(workload_id=world.submit(a_notebook("ann", 1000))))
    ticket = world.submit(a_notebook("ada", 1000))
    assert found(world, ticket) == ["Would start now with ¼ GPU."]


def whole_gpus_only(pool: PoolName, milli_gpu: int) -> str | None:
    return f"Pool {pool} gives whole GPUs only." if milli_gpu % 1000 else None


def test_no_size_is_proposed_that_the_pool_makes_no_slices_of() -> None:
    notebooks = World(
        a_node(gpus=2),
        pools=[a_pool(notebook_sizes=(250, 1000))],
        teams=[a_team(fixed_milli_gpu=1500)],
    )
    notebooks.ask(Started(workload_id=notebooks.submit(a_notebook("ann", 1000))))
    ticket = notebooks.submit(a_notebook("ada", 1000))
    assert list(ways(notebooks.cluster, ticket, notebooks.now, whole_gpus_only)) == []

    training = World(a_node(gpus=4), teams=[a_team(guaranteed_milli_gpu=4000)])
    training.run(a_job("digits-1"))
    waits = training.submit(a_job("resnet-1", 1000, workers=4))
    told = [way.text for way in ways(training.cluster, waits, training.now, whole_gpus_only)]
    assert told == ["Would start now with 3 workers."]


def test_no_pool_is_proposed_that_makes_no_slices_of_the_size() -> None:
    quota = Quota(guaranteed_milli_gpu=1000)
    team = a_team(guaranteed_milli_gpu=1000)
    team = type(team)(name=team.name, quotas={**team.quotas, OTHER: quota})
    world = World(
        a_node(gpus=1), a_node("n2", pool=OTHER), pools=[a_pool(), a_pool(OTHER)], teams=[team]
    )
    world.run(a_job("digits-1", 1000))
    waits = world.submit(a_job("digits-2", 500))

    def not_in_other(pool: PoolName, _milli_gpu: int) -> str | None:
        return "Pool other gives whole GPUs only." if pool == OTHER else None

    assert "Would start now in pool other." in found(world, waits)
    told = [way.text for way in ways(world.cluster, waits, world.now, not_in_other)]
    assert [text for text in told if "other" in text] == []


def test_no_size_is_named_that_no_form_has() -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    world.run(a_job("digits-1", 500))
    world.run(a_job("digits-2", 250))
    world.run(a_job("digits-3", 125))
    waits = world.submit(a_job("digits-4", 250))
    # An eighth is free, and can be asked for by hand; but nobody is sent looking for it.
    assert not [text for text in found(world, waits) if "⅛" in text]


def test_what_runs_or_is_unknown_needs_no_change() -> None:
    world = World(a_node(gpus=1), teams=[a_team(guaranteed_milli_gpu=1000)])
    running = world.run(a_job("digits-1"))
    assert found(world, running) == []
    assert found(world, WorkloadId("nobody")) == []
    assert TeamName("vision") in world.cluster.teams


def test_no_size_is_proposed_that_one_of_its_pools_lacks() -> None:
    team = a_team(guaranteed_milli_gpu=1000)
    team = type(team)(
        name=team.name, quotas={**team.quotas, OTHER: Quota(guaranteed_milli_gpu=1000)}
    )
    world = World(
        a_node(gpus=1), a_node("n2", pool=OTHER), pools=[a_pool(), a_pool(OTHER)], teams=[team]
    )
    for number, pool in enumerate((a_pool().name, OTHER)):
        world.run(a_job(f"digits-{number}", 500, pools=(pool,)))
    waits = world.submit(a_job("digits-2", 1000, pools=(a_pool().name, OTHER), over_quota=False))

    def not_in_other(pool: PoolName, _milli_gpu: int) -> str | None:
        return "Pool other gives whole GPUs only." if pool == OTHER else None

    # Its pools stay as they are, so a size that one of them lacks is refused.
    assert "Would start now with ½ GPU." in found(world, waits)
    told = [way.text for way in ways(world.cluster, waits, world.now, not_in_other)]
    assert "Would start now with ½ GPU." not in told
