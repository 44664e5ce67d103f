"""A guarantee includes a part of the node's processor and memory, and covers no work beyond it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import TRAIN, World, a_device, a_job, a_node, a_team

from gpucommons.scheduler.core.model.demand import every_size
from gpucommons.scheduler.core.model.resources import Node
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    NodeId,
    Role,
    Spec,
    State,
    TeamName,
    WorkloadId,
)
from gpucommons.scheduler.core.whatif.counterfactuals import ways
from gpucommons.scheduler.core.whatif.quotes import quote

#: Two CPUs and 4 GiB go with each GPU.
SMALL = {"cpu_milli": 8000, "memory_mib": 16_384}
VISION, NLP = TeamName("vision"), TeamName("nlp")


def a_world(*nodes: Node, vision: int = 1000, nlp: int = 500) -> World:
    teams = [a_team("vision", guaranteed_milli_gpu=vision), a_team("nlp", guaranteed_milli_gpu=nlp)]
    return World(*(nodes or (a_node(gpus=4, **SMALL),)), teams=teams)


def asking(
    milli_gpu: int, cpu_milli: int, memory_mib: int = 64, *, workers: int = 1, **more: Any
) -> Spec:
    role = Role(
        count=workers,
        milli_gpu=milli_gpu,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        command=("true",),
    )
    return a_job(roles=(role,), **more)


def class_of(world: World, job: WorkloadId) -> HoldClass | None:
    attempt = world.get(job).current
    return None if attempt is None else attempt.hold_class


@pytest.mark.parametrize(("cpu_milli", "memory_mib"), [(7500, 64), (100, 16_000)])
def test_one_small_job_cannot_void_anothers_guarantee(cpu_milli: int, memory_mib: int) -> None:
    world = a_world()
    greedy = world.run(asking(125, cpu_milli, memory_mib))
    assert class_of(world, greedy) is HoldClass.OVER_QUOTA
    claim = world.submit(asking(500, 1000, 1024, team=NLP, over_quota=False))
    assert world.stop_of(greedy) is not None
    world.wait(world.cluster.pools[TRAIN].notice_ms)
    world.end(greedy, None)
    assert class_of(world, claim) is HoldClass.GUARANTEED


def test_four_small_jobs_with_all_processors_give_way_to_a_guarantee() -> None:
    world = a_world()
    greedy = [world.run(asking(125, 2000, 6000, name=f"g-{i}")) for i in range(2)]
    greedy += [world.run(asking(125, 2000, 64, name=f"h-{i}")) for i in range(2)]
    claim = world.submit(asking(500, 1000, 64, team=NLP))
    assert world.get(claim).nomination is not None
    (victim,) = [job for job in greedy if world.stop_of(job) is not None]
    world.end(victim, None)
    assert class_of(world, claim) is HoldClass.GUARANTEED


def test_work_beyond_its_part_that_may_not_borrow_waits_and_says_what_it_lacks() -> None:
    world = a_world()
    job = world.submit(asking(500, 1500, over_quota=False))
    reason = world.get(job).reason
    assert world.state(job) is State.QUEUED
    assert reason is not None
    assert "1.5 cores" in reason.text
    assert (
        reason.unblock == "Would be inside the guarantee with at most 1 core and 2 GiB per worker."
    )


def test_the_quote_says_why_a_guarantee_does_not_cover_it() -> None:
    world = a_world()
    quoted = quote(world.cluster, asking(1000, 8000), world.now, every_size)
    assert quoted.hold_class is HoldClass.OVER_QUOTA
    assert quoted.text == (
        "Borrowed. It asks for 8 cores, and no more than 2 cores and 4 GiB go with 1 GPU of a"
        " guarantee, so other teams can stop it, and it waits again. It would start now."
    )


def test_a_team_with_all_guarantees_of_a_pool_may_use_its_nodes_as_it_likes() -> None:
    world = a_world(nlp=0)
    assert class_of(world, world.submit(asking(125, 7000))) is HoldClass.GUARANTEED


def test_of_uneven_nodes_only_those_count_whose_part_is_enough() -> None:
    lean, rich = a_node("a", 4, **SMALL), a_node("b", 4, cpu_milli=32_000)
    world = a_world(lean, rich, vision=4000)
    # Packing alone would put the second beside the first or on the leaner node.
    for _ in range(4):
        job = world.run(asking(1000, 8000))
        attempt = world.get(job).current
        assert attempt is not None
        assert attempt.hold_class is HoldClass.GUARANTEED
        assert [one.node_id for one in attempt.placements] == [NodeId("b")]


def test_on_uneven_nodes_a_guarantee_is_won_back_where_its_part_is_enough() -> None:
    lean, rich = a_node("a", 2, cpu_milli=4000), a_node("b", 2, cpu_milli=32_000)
    world = a_world(lean, rich, vision=2000, nlp=1000)
    borrowers = [world.run(asking(1000, 100, name=f"b-{i}", team=NLP)) for i in range(4)]
    claim = world.submit(asking(2000, 20_000))
    stopped = [job for job in borrowers if world.stop_of(job) is not None]
    places = world.get(claim).nomination
    assert places is not None
    assert {one.node_id for one in places.placements} == {NodeId("b")}
    assert all(world.get(job).current.placements[0].node_id == "b" for job in stopped)  # type: ignore[union-attr]


def test_a_borrower_beyond_its_part_is_not_upgraded() -> None:
    world = a_world()
    first = world.run(asking(1000, 100))
    small, large = world.run(asking(500, 1000)), world.run(asking(500, 1001))
    assert {class_of(world, one) for one in (small, large)} == {HoldClass.OVER_QUOTA}
    world.end(first)
    assert class_of(world, small) is HoldClass.GUARANTEED
    assert class_of(world, large) is HoldClass.OVER_QUOTA


def test_a_chief_without_a_gpu_counts_for_the_workers_beside_it() -> None:
    chief = Role(name="chief", cpu_milli=500, memory_mib=64, command=("true",))

    def gang(cpu_milli: int) -> Spec:
        worker = Role(
            count=2, milli_gpu=1000, cpu_milli=cpu_milli, memory_mib=64, command=("true",)
        )
        return a_job(roles=(worker, chief))

    for cpu_milli, hold_class in ((1750, HoldClass.GUARANTEED), (1800, HoldClass.OVER_QUOTA)):
        world = a_world(vision=2000)
        assert class_of(world, world.submit(gang(cpu_milli))) is hold_class


def test_work_that_needs_no_gpu_is_as_before() -> None:
    world = a_world()
    assert class_of(world, world.submit(a_job("prep", 0, cpu_milli=8000))) is HoldClass.CPU


def test_what_lacks_is_named_where_a_gpu_is_free() -> None:
    world = a_world(vision=0, nlp=500)
    world.run(asking(125, 7000))
    job = world.submit(asking(125, 2000, name="next"))
    reason = world.get(job).reason
    assert reason is not None
    assert reason.text == (
        "Needs ⅛ GPU on one node with 2 cores and 0.0625 GiB; where GPUs are free, not enough cores are."
    )
    assert reason.unblock == "Would start now with at most 1 core and 0.0625 GiB."


def node_of_promise(world: World, job: WorkloadId) -> NodeId | None:
    promise = world.get(job).nomination
    return None if promise is None else promise.placements[0].node_id


@pytest.mark.parametrize("second", [False, True])
def test_a_cheaper_job_on_a_lean_node_does_not_hide_one_that_can_make_room(second: bool) -> None:
    lean, rich = a_node("lean", 2, cpu_milli=4000), a_node("rich", 1, cpu_milli=8000)
    world = a_world(lean, rich, vision=1000 + 1000 * second, nlp=500)
    first = world.run(asking(1000, 8000, name="first", over_quota=False))
    newer = [world.run(asking(1000, 2000, name="newer", over_quota=False))] if second else []
    world.wait(world.cluster.pools[TRAIN].min_run_ms)
    claim = world.submit(asking(1000, 3000, name="urgent", priority="high", over_quota=False))
    assert node_of_promise(world, claim) == "rich"
    assert world.stop_of(first) is not None
    assert not any(world.stop_of(job) for job in newer)


def test_no_place_is_reserved_where_a_job_may_never_be_inside_its_guarantee() -> None:
    lean, rich = a_node("lean", 2, cpu_milli=4000), a_node("rich", 1, cpu_milli=8000)
    world = a_world(lean, rich, vision=1000, nlp=2000)
    world.run(asking(750, 4000, name="large", team=NLP))
    filler = world.run(asking(250, 100, name="filler"))
    world.run(asking(1000, 100, name="whole", team=NLP))
    world.run(asking(125, 100, name="small", team=NLP))
    world.end(filler)
    claim = world.submit(asking(1000, 3000, priority="high", over_quota=False))
    assert world.state(claim) is State.QUEUED
    later = world.get(world.run(asking(125, 100, name="later", team=NLP))).current
    assert later is not None
    assert later.hold_class is HoldClass.GUARANTEED
    assert [one.node_id for one in later.placements] == ["lean"]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_jobs_move_where_it_helps_also_if_a_move_on_a_lean_node_were_cheaper(
    names: tuple[str, str],
) -> None:
    lean, rich = a_node(names[0], 2, cpu_milli=4000), a_node(names[1], 2, cpu_milli=32_000)
    world = a_world(lean, rich, vision=2000, nlp=2000)
    jobs = [world.run(asking(500, 4000, name=f"half-{i}", team=NLP)) for i in range(4)]
    # What is smaller moves more easily: these would be the first to move.
    jobs += [world.run(asking(375, 100, name=f"less-{i}", team=NLP)) for i in range(4)]
    seen = set()
    for job in jobs:
        attempt = world.get(job).current
        assert attempt is not None
        device = attempt.placements[0].device_ids
        if device in seen:
            world.end(job)
        seen.add(device)
    world.wait(world.cluster.pools[TRAIN].min_run_ms)
    claim = world.submit(asking(1000, 3000, over_quota=False))
    world.wait(world.cluster.pools[TRAIN].min_run_ms)
    assert node_of_promise(world, claim) == names[1]


def test_what_a_job_could_ask_for_is_the_part_of_the_node_nearest_to_what_it_asks() -> None:
    processors = a_node("a", 2, cpu_milli=16_000, memory_mib=16_384)
    memory = a_node("b", 2, cpu_milli=8000, memory_mib=32_768)
    world = a_world(processors, memory, vision=1000, nlp=500)
    job = world.submit(asking(1000, 5000, 16_384, over_quota=False))
    reason = world.get(job).reason
    assert reason is not None
    assert (
        reason.unblock
        == "Would be inside the guarantee with at most 4 cores and 16 GiB per worker."
    )
    (text,) = [
        way.text
        for way in ways(world.cluster, job, world.now, every_size)
        if "per worker" in way.text
    ]
    assert text == "Would start now with 4 cores and 16 GiB per worker."


def test_a_gang_whose_first_plan_is_out_of_proportion_is_promised_another() -> None:
    world = a_world(a_node("a", 1, cpu_milli=8000), a_node("b", 2, cpu_milli=8000), vision=2000)
    borrowers = [world.run(asking(1000, 100, name=f"b-{i}", team=NLP)) for i in range(3)]
    worker = Role(milli_gpu=1000, cpu_milli=3000, memory_mib=64, command=("true",))
    chief = Role(name="chief", cpu_milli=2000, memory_mib=64, command=("true",))
    claim = world.submit(a_job(roles=(worker, chief), over_quota=False))
    # The newest borrower is the cheapest to stop, but beside its GPU both ask for too much.
    assert node_of_promise(world, claim) == "a"
    assert [world.stop_of(job) is not None for job in borrowers] == [True, False, False]


def test_a_node_is_not_too_lean_for_a_worker_that_asks_for_gpus_of_another_kind() -> None:
    other = tuple(a_device(f"b-g{i}", i, kind="H200") for i in range(2))
    lean, rich = a_node("a", 2, cpu_milli=4000), a_node("b", 2, cpu_milli=32_000, devices=other)
    world = a_world(lean, rich, vision=3000, nlp=500)
    for number in range(4):
        world.run(asking(1000, 100, name=f"b-{number}", team=NLP))
    small = Role(milli_gpu=1000, cpu_milli=500, gpu_kind="A100-40", command=("true",))
    large = replace(small, name="large", milli_gpu=2000, cpu_milli=20_000, gpu_kind="H200")
    claim = world.submit(a_job(roles=(large, small), over_quota=False))
    promise = world.get(claim).nomination
    assert promise is not None
    assert [one.node_id for one in promise.placements] == ["b", "a"]
