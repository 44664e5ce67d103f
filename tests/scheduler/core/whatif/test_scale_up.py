"""Nodes are brought for work that would get them, and for no other: the cycle itself decides it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import World, a_job, a_node, a_pool, a_team

from gpucommons.scheduler.core.model.intents import (
    NoteFacts,
    PoolFacts,
    PutPools,
    PutTeams,
    SetBudget,
)
from gpucommons.scheduler.core.model.resources import Budget, BudgetPolicy, Growth, Price, Quota
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    PoolName,
    Role,
    State,
    TeamName,
    WorkloadId,
)
from gpucommons.scheduler.core.whatif.scale_up import plan_scale_up

CLOUD, HERE = PoolName("cloud"), PoolName("here")
GROWTH = Growth(max_nodes=3, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_ms=240_000)
PRICE = (Price(micro_per_gpu_h=2_000_000),)


def a_world(*nodes: Any, **quota: Any) -> World:
    pools = [a_pool("here"), a_pool("cloud", gpu_kind="A100-40", growth=GROWTH, prices=PRICE)]
    team = replace(a_team(), quotas={HERE: Quota(), CLOUD: Quota(**quota)})
    return World(*(nodes or (a_node("h1", 2, pool="here"),)), teams=[team], pools=pools)


def brought(world: World) -> dict[str, int]:
    found = plan_scale_up(world.cluster, world.now).nodes
    return {str(pool): len(nodes) for pool, nodes in found.items()}


def reason(world: World, job: WorkloadId) -> str:
    found = world.get(job).reason
    assert found is not None
    return found.text


@pytest.mark.parametrize(
    ("gpus", "jobs", "nodes"), [(1, 1, 1), (1, 4, 1), (1, 5, 2), (4, 3, 3), (4, 9, 3), (3, 2, 2)]
)
def test_as_many_nodes_as_the_waiting_jobs_fill_up_to_the_pools_most(
    gpus: int, jobs: int, nodes: int
) -> None:
    world = a_world()
    for number in range(jobs):
        world.submit(a_job(f"j{number}", gpus * 1000, pools=(CLOUD,)))
    assert brought(world) == {"cloud": nodes}


def test_what_fits_where_nodes_are_brings_none() -> None:
    world = a_world()
    first = world.submit(a_job("a", 2000, pools=(HERE, CLOUD)))
    assert world.state(first) is State.STARTING
    assert brought(world) == {}
    world.submit(a_job("b", 2000, pools=(HERE, CLOUD)))
    assert brought(world) == {"cloud": 1}
    world.end(first)
    assert brought(world) == {}


def test_a_free_node_that_is_there_goes_before_one_that_may_come() -> None:
    """Both are alike, and the one that is there has the later name."""
    world = a_world()
    world.submit(a_job("a", 4000, pools=(CLOUD,)))
    free = a_node("z1", pool="cloud")
    there = replace(world.cluster, nodes={**world.cluster.nodes, free.node_id: free})
    assert plan_scale_up(there, world.now).nodes == {}


def test_work_without_gpus_that_no_limit_holds_brings_no_node_with_gpus() -> None:
    world = a_world()
    for number in range(3):
        world.submit(a_job(f"j{number}", 0, pools=(CLOUD,), cpu_milli=60_000))
    assert brought(world) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_price_micro": 1_000_000},
        {"over_quota": False},
        {"pools": (HERE,), "roles": (Role(milli_gpu=2000),)},
    ],
    ids=["dearer than it pays", "no guarantee and no borrowing", "another pool"],
)
def test_no_node_is_brought_for_who_would_not_get_it(changes: dict[str, Any]) -> None:
    world = a_world()
    world.submit(a_job("fills", 2000, pools=(HERE,)))
    world.submit(a_job("waits", 2000, **{"pools": (CLOUD,), **changes}))
    assert brought(world) == {}


def test_a_used_up_budget_brings_no_node() -> None:
    world = a_world()
    budget = Budget(money_micro=1, at_full=BudgetPolicy.NO_BORROW)
    world.ask(SetBudget(team=TeamName("vision"), budget=budget, spent="All is spent."))
    job = world.submit(a_job("waits", 1000, pools=(CLOUD,)))
    assert brought(world) == {}
    assert reason(world, job).startswith("All is spent.")


def test_a_guarantee_is_backed_by_template_nodes() -> None:
    world = a_world(guaranteed_milli_gpu=8000)
    jobs = [world.submit(a_job(f"j{n}", 4000, pools=(CLOUD,), over_quota=False)) for n in range(3)]
    assert brought(world) == {"cloud": 2}
    assert reason(world, jobs[0]).startswith("Needs 4 GPUs on one node, for which no node is there")


def test_no_more_is_guaranteed_than_all_template_nodes_have() -> None:
    world = a_world()
    known = world.cluster.teams[TeamName("vision")]
    refused = world.ask(
        PutTeams(teams=(replace(known, quotas={CLOUD: Quota(guaranteed_milli_gpu=13_000)}),))
    )
    assert "fixed+guarantee 13 of 12" in refused.text
    fixed = world.ask(
        PutTeams(teams=(replace(known, quotas={CLOUD: Quota(fixed_milli_gpu=1000)}),))
    )
    assert fixed.error is not None, "fixed quota lies on devices that are there"


def test_who_runs_in_its_guarantee_is_not_stopped_where_a_node_may_come() -> None:
    pools = [a_pool("here"), a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)]
    teams = [a_team(name, "cloud", guaranteed_milli_gpu=4000) for name in ("vision", "nlp")]
    world = World(a_node("c1", pool="cloud"), teams=teams, pools=pools)
    runs = world.run(a_job("a", 4000, pools=(CLOUD,)))
    world.wait(10_000_000)
    other = world.submit(a_job("b", 4000, pools=(CLOUD,), team=TeamName("nlp")))
    assert world.stop_of(runs) is None
    assert world.state(other) is State.QUEUED
    assert brought(world) == {"cloud": 1}


def test_who_runs_in_its_guarantee_keeps_it_where_a_lost_node_may_be_replaced() -> None:
    teams = [
        a_team("vision", "cloud", fixed_milli_gpu=4000),
        a_team("nlp", "cloud", guaranteed_milli_gpu=8000),
    ]
    nodes = [a_node(f"c{number}", pool="cloud") for number in (1, 2, 3)]
    pools = [a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)]
    world = World(*nodes, teams=teams, pools=pools)
    (block,) = world.cluster.blocks
    runs = [world.run(a_job(n, 4000, pools=(CLOUD,), team=TeamName("nlp"))) for n in ("a", "b")]
    there = tuple(node for node in nodes if node.node_id != block.node_id)
    world.step(NodesObserved(executor="fake", nodes=there))
    owner = world.submit(a_job("c", 4000, pools=(CLOUD,)))
    held = [world.get(one).current for one in runs]
    assert [one and one.hold_class for one in held] == [HoldClass.GUARANTEED] * 2
    assert brought(world) == {"cloud": 1}, "for the team whose fixed quota was lost"
    world.step(NodesObserved(executor="fake", nodes=(*there, a_node("c4", pool="cloud"))))
    assert [one.node_id for one in world.cluster.blocks] == ["c4"]
    assert world.state(owner) is State.STARTING


def test_a_limit_bounds_what_is_brought() -> None:
    world = a_world(limit_milli_gpu=4000)
    for number in range(3):
        world.submit(a_job(f"j{number}", 4000, pools=(CLOUD,)))
    assert brought(world) == {"cloud": 1}


def test_a_gang_has_all_of_its_nodes_brought_or_none() -> None:
    world = a_world()
    world.submit(a_job("three", 4000, workers=3, pools=(CLOUD,)))
    assert brought(world) == {"cloud": 3}
    other = a_world()
    other.submit(a_job("four", 4000, workers=4, pools=(CLOUD,)))
    assert brought(other) == {}


def test_an_elastic_job_brings_nodes_for_its_fewest_workers() -> None:
    world = a_world()
    job = a_job("grows", 4000, workers=3, pools=(CLOUD,), min_workers=1, max_workers=3)
    world.submit(job)
    assert brought(world) == {"cloud": 1}


def test_nodes_that_are_gone_leave_room_and_idle_ones_are_used_first() -> None:
    world = a_world()
    job = world.submit(a_job("a", 1000, pools=(CLOUD,)))
    nodes = [a_node(f"c{i}", pool="cloud") for i in (1, 2)]
    world.step(NodesObserved(executor="fake", nodes=(a_node("h1", 2, pool="here"), *nodes)))
    world.start(job)
    attempt = world.get(job).current
    assert attempt is not None
    (placement,) = attempt.placements
    # What follows goes to the node that is in use: an autoscaler takes the idle one.
    for name in ("b", "c", "d"):
        more = world.get(world.submit(a_job(name, 1000, pools=(CLOUD,)))).current
        assert more is not None
        assert {one.node_id for one in more.placements} == {placement.node_id}
    world.step(NodesObserved(executor="fake", nodes=(a_node("h1", 2, pool="here"), *nodes[:0])))
    world.submit(a_job("e", 4000, workers=3, pools=(CLOUD,)))
    assert brought(world) == {"cloud": 3}


def test_why_says_that_a_node_may_come_and_after_how_long() -> None:
    world = a_world()
    job = world.submit(a_job("waits", 4000, pools=(CLOUD,)))
    assert reason(world, job) == (
        "Needs 4 GPUs on one node, for which no node is there yet. Pool cloud may get 3 more nodes; one"
        " takes work about 4 min after it is asked for."
    )
    nodes = (a_node("h1", 2, pool="here"), *(a_node(f"c{i}", pool="cloud") for i in (1, 2)))
    world.step(NodesObserved(executor="fake", nodes=nodes))
    for name in ("b", "c"):
        last = world.submit(a_job(name, 4000, pools=(CLOUD,)))
    assert reason(world, last) == (
        "Needs 4 GPUs on one node; none is free. Pool cloud may get 1 more node; it takes work about"
        " 4 min after it is asked for."
    )
    third = (*nodes, a_node("c3", pool="cloud"))
    world.step(NodesObserved(executor="fake", nodes=third))
    full = world.submit(a_job("d", 4000, pools=(CLOUD,)))
    assert reason(world, full) == "Needs 4 GPUs on one node; none is free."


def test_why_says_what_the_clusters_autoscaler_says() -> None:
    world = a_world()
    job = world.submit(a_job("waits", 4000, pools=(CLOUD,)))
    known = world.cluster.pools[CLOUD]
    facts = PoolFacts(
        isolation=known.isolation,
        simulated=known.simulated,
        scale_up_text="It brings none: no A100.",
    )
    told = len(world.events)
    world.ask(NoteFacts(pools={CLOUD: facts}))
    assert reason(world, job).endswith("4 min after it is asked for. It brings none: no A100.")
    assert len(world.events) == told, "it is nobody's history"
    # Whoever says something else of the pool, and an admin who changes it, leave that as it is.
    world.ask(NoteFacts(pools={CLOUD: replace(facts, isolation="kernel", scale_up_text=None)}))
    world.ask(PutPools(pools=(known,)))
    assert reason(world, job).endswith("It brings none: no A100.")
    world.ask(NoteFacts(pools={CLOUD: replace(facts, scale_up_text="")}))
    assert reason(world, job).endswith("4 min after it is asked for.")


def test_looking_changes_nothing() -> None:
    world = a_world()
    world.submit(a_job("waits", 4000, pools=(CLOUD,)))
    before = world.cluster
    plan_scale_up(world.cluster, world.now)
    assert world.cluster == before
    world.step()
    assert world.outcome.changes.empty
