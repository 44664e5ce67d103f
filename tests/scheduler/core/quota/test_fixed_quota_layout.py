"""Fixed quota on devices: binary blocks, kept in place, refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.intents import Cancel, PutTeams, SetNodeState, SetQuotas
from gpucommons.scheduler.core.model.resources import NodeState, Quota, Team
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.types import NodeId, State, TeamName
from gpucommons.scheduler.core.quota.layout import expansion, largest_block


@pytest.mark.parametrize(
    ("quota", "largest", "blocks"),
    [
        (0, 4000, ()),
        (125, 4000, (125,)),
        (1875, 4000, (1000, 500, 250, 125)),
        (3000, 4000, (2000, 1000)),
        (10_000, 4000, (4000, 4000, 2000)),
    ],
)
def test_a_quota_is_cut_into_its_binary_expansion(
    quota: int, largest: int, blocks: tuple[int, ...]
) -> None:
    assert expansion(quota, largest) == blocks


@pytest.mark.parametrize(
    ("devices", "largest"), [((), 0), ((1,), 1000), ((4, 6), 4000), ((8,), 8000)]
)
def test_a_block_is_at_most_one_node(devices: tuple[int, ...], largest: int) -> None:
    assert largest_block(devices) == largest


def quotas(world: World, **teams: Quota) -> str | None:
    action = SetQuotas(quotas={(TeamName(name), TRAIN): quota for name, quota in teams.items()})
    return world.ask(action, "admin").error


def blocks(world: World, team: str) -> list[tuple[str, int, int]]:
    return [
        (block.device_ids[0], block.offset, block.milli_gpu)
        for block in world.cluster.blocks
        if block.team == team
    ]


def test_what_is_over_is_refused_with_the_numbers_and_nothing_changes() -> None:
    world = World(a_node(gpus=4), teams=[a_team("vision", fixed_milli_gpu=2000), a_team("nlp")])
    before = world.cluster
    too_much = Quota(fixed_milli_gpu=1000, guaranteed_milli_gpu=3000)
    verdict = world.ask(SetQuotas(quotas={(TeamName("nlp"), TRAIN): too_much}), "admin")
    assert verdict.error == "CannotLayOut"
    assert verdict.text == (
        "train: fixed+guarantee 6 of 4: over by 2, not saved."
        " Lower these by 2 in all: nlp (fixed 1, guaranteed 3), vision (fixed 2)."
    )
    assert (world.cluster.teams, world.cluster.blocks) == (before.teams, before.blocks)


def test_of_many_teams_that_are_over_the_largest_are_named() -> None:
    names = [f"t{i}" for i in range(8)]
    world = World(
        a_node(gpus=8), teams=[a_team("big"), *(a_team(n, fixed_milli_gpu=1000) for n in names)]
    )
    verdict = world.ask(
        SetQuotas(quotas={(TeamName("big"), TRAIN): Quota(fixed_milli_gpu=2000)}), "admin"
    )
    assert verdict.text.endswith(
        "big (fixed 2), t0 (fixed 1), t1 (fixed 1), t2 (fixed 1), t3 (fixed 1), t4 (fixed 1)"
        " and 3 more."
    )


def test_a_notebook_in_the_way_of_a_block_is_named_as_the_obstacle() -> None:
    world = World(a_node(gpus=2), teams=[a_team("vision", fixed_milli_gpu=500), a_team("nlp")])
    lease = world.submit(a_notebook(), redeem=True)
    assert quotas(world, vision=Quota()) is None
    assert world.state(lease) is State.GRANTED, "a lowered quota takes nothing away"
    verdict = world.ask(
        SetQuotas(quotas={(TeamName("nlp"), TRAIN): Quota(fixed_milli_gpu=2000)}), "admin"
    )
    assert verdict.error == "CannotLayOut"
    assert "nlp's block of 2 GPU finds no free aligned place" in verdict.text


def test_blocks_stay_where_they_are_when_others_come() -> None:
    world = World(a_node(gpus=4), teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp")])
    before = blocks(world, "vision")
    assert quotas(world, nlp=Quota(fixed_milli_gpu=2000)) is None
    assert blocks(world, "vision") == before


def test_a_raised_quota_grows_over_the_teams_own_notebooks() -> None:
    world = World(a_node(gpus=2), teams=[a_team("vision", fixed_milli_gpu=500), a_team("nlp")])
    lease = world.get(world.submit(a_notebook(), redeem=True))
    assert lease.current is not None
    assert quotas(world, vision=Quota(fixed_milli_gpu=1000)) is None
    (device,) = lease.current.placements[0].device_ids
    assert blocks(world, "vision") == [(device, 0, 1000)]


def test_a_lowered_quota_lets_go_as_notebooks_end() -> None:
    world = World(a_node(gpus=1), teams=[a_team("vision", fixed_milli_gpu=1000)])
    first = world.submit(a_notebook("ann"), redeem=True)
    second = world.submit(a_notebook("bob"), redeem=True)
    assert quotas(world, vision=Quota(fixed_milli_gpu=500)) is None
    assert world.try_submit(a_notebook("cyd", 250), redeem=True).error == "NoFreeSlice"
    for lease in (first, second):
        attempt = world.attempt_id(lease)
        world.ask(Cancel(workload_id=lease, why="stopped"))
        world.end(lease, None)
        assert attempt
    assert world.try_submit(a_notebook("cyd", 500), redeem=True).error is None


def test_blocks_avoid_running_in_guarantee_work_but_not_borrowers() -> None:
    world = World(
        a_node(gpus=2), teams=[a_team("vision", guaranteed_milli_gpu=1000), a_team("nlp")]
    )
    safe, borrower = world.run(a_job("safe")), world.run(a_job("b", team="nlp"))
    assert quotas(world, nlp=Quota(fixed_milli_gpu=1000)) is None
    (block,) = world.cluster.blocks
    held = world.get(safe).current
    assert held is not None
    assert set(block.device_ids).isdisjoint(held.placements[0].device_ids)
    assert world.state(borrower) is State.RUNNING
    ticket = world.submit(a_notebook("ann", 1000, team="nlp"))
    assert world.get(ticket).nomination is not None


def test_a_lost_node_moves_its_blocks_and_shrinks_guarantees() -> None:
    world = World(
        a_node(gpus=2),
        a_node("n2", gpus=2),
        teams=[a_team("vision", fixed_milli_gpu=1000, guaranteed_milli_gpu=3000)],
    )
    home = world.cluster.blocks[0].node_id
    other = a_node("n2" if home == "n1" else "n1", gpus=2)
    world.step(NodesObserved(executor="fake", nodes=(other,)))
    (block,) = world.cluster.blocks
    assert block.node_id == other.node_id
    classes = [world.get(world.submit(a_job(f"d-{i}"))).current for i in range(2)]
    assert [one.hold_class for one in classes if one] == ["guaranteed", "over-quota"]


def test_after_a_gpu_is_lost_the_largest_notebook_still_has_its_block() -> None:
    node = a_node(gpus=4)
    world = World(node, teams=[a_team("vision"), a_team("nlp", guaranteed_milli_gpu=2000)])
    obstacle = world.run(a_job("bert", 2000, team="nlp"))
    assert quotas(world, vision=Quota(fixed_milli_gpu=2000)) is None
    world.end(obstacle)
    (block,) = world.cluster.blocks
    gone = next(d for d in node.devices if d.device_id not in block.device_ids)
    left = tuple(device for device in node.devices if device is not gone)
    world.step(NodesObserved(executor="fake", nodes=(replace(node, devices=left),)))
    assert world.state(world.submit(a_notebook("ann", 2000))) is State.GRANTED


def test_when_a_node_is_lost_fixed_quota_comes_before_guarantees() -> None:
    world = World(
        a_node(gpus=1),
        a_node("n2", gpus=1),
        teams=[a_team("vision", fixed_milli_gpu=1000), a_team("nlp", guaranteed_milli_gpu=1000)],
    )
    job = world.run(a_job("bert", team="nlp"))
    held = world.get(job).current
    assert held is not None
    assert held.hold_class == "guaranteed"
    home = held.placements[0].node_id
    world.step(NodesObserved(executor="fake", nodes=(a_node(home, gpus=1),)))
    held = world.get(job).current
    assert held is not None
    assert held.hold_class == "over-quota"
    assert [block.node_id for block in world.cluster.blocks] == [home]
    ticket = world.submit(a_notebook("ann", 1000))
    assert world.get(ticket).nomination is not None


def test_with_a_node_lost_a_quota_may_still_be_lowered() -> None:
    world = World(a_node(gpus=2), a_node("n2", gpus=2), teams=[a_team(fixed_milli_gpu=4000)])
    world.ask(SetNodeState(node_id=NodeId("n2"), state=NodeState.FENCED))
    assert quotas(world, vision=Quota(fixed_milli_gpu=3000)) is None
    assert quotas(world, vision=Quota(fixed_milli_gpu=4000)) == "CannotLayOut"


@pytest.mark.parametrize("before", [0, 1000])
def test_a_quota_that_no_blocks_make_up_is_refused_from_below_and_from_above(before: int) -> None:
    world = World(teams=[a_team(fixed_milli_gpu=before)])
    odd = SetQuotas(quotas={(TeamName("vision"), TRAIN): Quota(fixed_milli_gpu=300)})
    verdict = world.ask(odd, "admin")
    assert verdict.error == "CannotLayOut"
    assert "of 0.3 GPU cannot be cut into blocks" in verdict.text
    assert verdict.text.endswith("Take ¼ or ⅜.")


def test_quotas_are_audited_old_to_new() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000)])
    quotas(world, vision=Quota(fixed_milli_gpu=2000, limit_milli_gpu=4000))
    (event,) = [one for one in world.events if one.kind == "quota-changed" and one.by == "admin"]
    assert event.data["old"]["fixed_milli_gpu"] == 1000
    assert event.data["new"]["fixed_milli_gpu"] == 2000
    assert event.text == "vision in pool train: fixed 1 → 2, limit none → 4."


# --- the team tree ---------------------------------------------------------------------------


def test_circular_parents_are_refused() -> None:
    world = World()
    teams = (
        Team(name=TeamName("a"), parent=TeamName("b")),
        Team(name=TeamName("b"), parent=TeamName("a")),
    )
    verdict = world.ask(PutTeams(teams=teams), "admin")
    assert verdict.error == "Misconfigured"
    assert verdict.text == "Parents form a circle: a → b → a. Change one of them."
    assert not world.cluster.teams


def test_quotas_live_on_leaf_teams_only() -> None:
    world = World()
    teams = (
        Team(name=TeamName("dep"), quotas={TRAIN: Quota(fixed_milli_gpu=1000)}),
        Team(name=TeamName("vision"), parent=TeamName("dep")),
    )
    verdict = world.ask(PutTeams(teams=teams), "admin")
    assert verdict.error == "Misconfigured"
    assert "quotas belong to those" in verdict.text


def test_unknown_parents_pools_and_teams_are_refused() -> None:
    world = World(teams=[a_team()])
    orphan = Team(name=TeamName("x"), parent=TeamName("nobody"))
    assert world.ask(PutTeams(teams=(orphan,))).error == "UnknownTeam"
    assert world.ask(PutTeams(teams=(a_team("y", "nowhere"),))).error == "UnknownPool"
    assert world.ask(PutTeams(teams=(), removed=(TeamName("z"),))).error == "UnknownTeam"


def test_a_team_with_live_work_is_not_removed() -> None:
    world = World(teams=[a_team()])
    job = world.run(a_job())
    assert world.ask(PutTeams(teams=(), removed=(TeamName("vision"),))).error == "Conflict"
    world.end(job)
    assert world.ask(PutTeams(teams=(), removed=(TeamName("vision"),))).error is None
    assert world.outcome.changes.removed_teams == ("vision",)


def test_a_pool_without_gpus_runs_cpu_work_only() -> None:
    world = World(a_node("c", gpus=0), pools=[a_pool()], teams=[a_team()])
    job = world.get(world.submit(a_job("d", 0)))
    assert job.state is State.STARTING
    gpu = world.get(world.submit(a_job("g", 1000)))
    assert gpu.reason is not None
    assert gpu.reason.code == "misconfigured"
