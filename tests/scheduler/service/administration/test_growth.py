"""What admins are told of nodes that pools get by demand."""

from __future__ import annotations

from dataclasses import replace

from builders import World, a_node, a_pool, a_team

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.resources import Growth, NodeState
from gpucommons.scheduler.core.model.types import Millis, PoolName
from gpucommons.scheduler.forecast.estimating import AskedNode
from gpucommons.scheduler.service.administration.growth import growth_views

CLOUD = PoolName("cloud")
GROWTH = Growth(max_nodes=4, gpus=4, cpu_milli=64_000, memory_mib=262_144, boot_ms=240_000)
POOL = a_pool("cloud", gpu_kind="A100-40", growth=GROWTH)


def test_nodes_that_are_there_start_or_are_asked_for_are_told_apart() -> None:
    boots = replace(a_node("c2", pool="cloud"), devices=())
    lost = replace(a_node("c3", pool="cloud"), state=NodeState.LOST)
    world = World(
        a_node("c1", pool="cloud"), boots, a_node("h1", pool="here"),
        teams=[a_team(pool="cloud")], pools=[a_pool("here"), POOL],
    )  # fmt: skip
    cluster = replace(world.cluster, nodes={**world.cluster.nodes, lost.node_id: lost})
    asked = (AskedNode(since_ms=Millis(1_000), or_earlier=True), AskedNode(since_ms=Millis(2_000)))
    [view] = growth_views(cluster, {CLOUD: asked}, {})

    assert (view.pool, view.max_nodes, view.nodes, view.booting) == ("cloud", 4, 1, ["c2"])
    assert view.asked == [
        models.AskedNodeView(since_ms=1_000, or_earlier=True, due_ms=241_000),
        models.AskedNodeView(since_ms=2_000, due_ms=242_000),
    ]
    assert (view.said, view.refused) == ("", "")


def test_a_cordoned_node_is_there_and_takes_no_work() -> None:
    closed = replace(a_node("c2", pool="cloud"), state=NodeState.CORDONED)
    world = World(a_node("c1", pool="cloud"), teams=[a_team(pool="cloud")], pools=[POOL])
    cluster = replace(world.cluster, nodes={**world.cluster.nodes, closed.node_id: closed})
    [view] = growth_views(cluster, {}, {})
    assert (view.nodes, view.cordoned, view.max_nodes) == (1, 1, 4)


def test_what_an_autoscaler_says_and_what_is_refused_stand_with_their_pool() -> None:
    said = replace(POOL, scale_up_text="The cluster's autoscaler works on it.")
    other = a_pool("spot", gpu_kind="A100-40", growth=GROWTH)
    world = World(teams=[a_team(pool="cloud")], pools=[said, other])

    cloud, spot = growth_views(world.cluster, {}, {PoolName("spot"): "No quota for pods."})
    assert (cloud.said, cloud.refused, cloud.asked) == (said.scale_up_text, "", [])
    assert (spot.said, spot.refused) == ("", "No quota for pods.")


def test_before_the_first_look_nobody_says_that_no_node_is_asked_for() -> None:
    world = World(teams=[a_team(pool="cloud")], pools=[POOL])
    [view] = growth_views(world.cluster, None, {})
    assert view.asked is None
