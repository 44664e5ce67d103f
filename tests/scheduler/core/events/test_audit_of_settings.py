"""What admins change is told field by field, old → new, with who did it."""

from __future__ import annotations

from dataclasses import replace

from builders import World, a_pool, a_team

from gpucommons.gpu.slices.slices import MpsDaemon
from gpucommons.scheduler.core.model.intents import PutConfig, PutPolicy, PutPools, PutTeams
from gpucommons.scheduler.core.model.resources import Policy
from gpucommons.scheduler.core.model.state import Event
from gpucommons.scheduler.core.model.types import TeamName, UserName


def told(world: World, action: PutTeams | PutPools | PutPolicy | PutConfig) -> list[Event]:
    """What one change is told as."""
    before = len(world.events)
    verdict = world.ask(action, "root")
    assert verdict.error is None, verdict.text
    found = world.events[before:]
    assert {event.by for event in found} <= {"root"}
    return found


def users(*names: str) -> frozenset[UserName]:
    return frozenset(map(UserName, names))


def test_who_joins_and_leaves_a_team_is_named() -> None:
    before = replace(a_team(), members=users("ann", "bob"), leads=users("ann"))
    world = World(teams=[before])
    after = replace(before, members=users("ann", "cem"), leads=users("cem"))
    (event,) = told(world, PutTeams(teams=(after,)))
    assert (event.kind, event.team) == ("team-changed", "vision")
    assert event.text == "vision: members −bob +cem, leads −ann +cem."
    assert event.data == {
        "old": {"members": ["ann", "bob"], "leads": ["ann"]},
        "new": {"members": ["ann", "cem"], "leads": ["cem"]},
    }


def test_a_crowd_is_counted_and_stands_in_the_data() -> None:
    world = World(teams=[a_team()])
    many = users(*(f"user-{number:02}" for number in range(25)))
    (event,) = told(world, PutTeams(teams=(replace(a_team(), members=many),)))
    assert event.text.endswith("+user-19 and 5 more.")
    assert len(event.data["new"]["members"]) == 25


def test_rules_of_a_team_are_told() -> None:
    world = World(teams=[a_team()])
    rules = Policy(
        max_run_ms=7_200_000,
        max_milli_gpu_per_job=500,
        max_price_micro=1_500_000,
        retrain_in_guarantee=True,
    )
    (event,) = told(world, PutTeams(teams=(replace(a_team(), policy=rules),)))
    assert event.text == (
        "vision: max run none → 7200 s, max GPUs per job none → ½, max price none → 1.5,"
        " retrain in guarantee no → yes."
    )


def test_a_quota_that_is_dropped_is_told_also_with_its_team() -> None:
    world = World(teams=[a_team(fixed_milli_gpu=1000), a_team("nlp", guaranteed_milli_gpu=1000)])
    dropped = told(world, PutTeams(teams=(replace(a_team(), quotas={}),)))
    assert [event.text for event in dropped] == ["vision in pool train: fixed 1 → 0."]
    removed = told(world, PutTeams(teams=(), removed=(TeamName("nlp"),)))
    assert [event.text for event in removed] == [
        "nlp was removed.",
        "nlp in pool train: guaranteed 1 → 0.",
    ]


def test_who_is_in_a_new_team_is_told() -> None:
    new = replace(a_team("nlp"), members=users("bob"), quotas={})
    (event,) = told(World(teams=[a_team()]), PutTeams(teams=(new,)))
    assert event.text == "nlp was created: members +bob."


def test_what_is_set_of_a_pool_is_told() -> None:
    pool = a_pool()
    world = World(pools=[pool])
    changed = replace(
        pool,
        notice_ms=90_000,
        headroom_milli_gpu=500,
        notebook_sizes=(500, 1000),
        mps=MpsDaemon(pipe="/run/mps"),
    )
    (event,) = told(world, PutPools(pools=(changed,)))
    assert event.kind == "pool-changed"
    assert event.text == (
        f"The pool train: notice {pool.notice_ms // 1000} s → 90 s, headroom 0 → ½,"
        " notebook sizes ¼ ½ 1 → ½ 1, mps none → pipe /run/mps version 2."
    )
    assert event.data["new"]["notice_ms"] == 90_000


def test_a_configuration_tells_each_of_its_changes_and_nothing_twice() -> None:
    pool, team = a_pool(), a_team(fixed_milli_gpu=1000)
    world = World(pools=[pool], teams=[team])
    config = PutConfig(
        pools=(replace(pool, min_run_ms=600_000),),
        teams=(replace(team, members=users("ann")),),
        policy=Policy(show_names=True),
    )
    kinds = [event.kind for event in told(world, config)]
    assert kinds == ["pool-changed", "team-changed", "policy-changed"]
    assert told(world, config) == []
    assert world.events[-1].text == "The hub-wide policy: show names no → yes."
