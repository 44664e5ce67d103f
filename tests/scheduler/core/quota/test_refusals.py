"""What is refused, with which sentence, and that nothing changes by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import TRAIN, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.intents import (
    Action,
    Cancel,
    Keep,
    Pause,
    PutConfig,
    PutPolicy,
    PutPools,
    Resume,
    SetNodeState,
    SetQuotas,
    Started,
    Submit,
)
from gpucommons.scheduler.core.model.resources import NodeState, Policy, Quota, Team
from gpucommons.scheduler.core.model.types import NodeId, PoolName, State, TeamName, WorkloadId
from gpucommons.scheduler.core.quota import quota


@pytest.fixture
def world() -> World:
    return World(a_node(gpus=4), teams=[a_team(fixed_milli_gpu=1000)])


NEW, NOBODY = WorkloadId("new"), WorkloadId("nobody")


@pytest.mark.parametrize(
    ("action", "error", "words"),
    [
        (Submit(workload_id=NEW, spec=a_job(team=TeamName("x"))), "UnknownTeam", "no team x"),
        (Submit(workload_id=NEW, spec=a_job(pools=(PoolName("x"),))), "UnknownPool", "no pool x"),
        (Submit(workload_id=NEW, spec=a_job(pools=())), "Misconfigured", "names no pool"),
        (Cancel(workload_id=NOBODY), "UnknownWorkload", "no live job or notebook nobody"),
        (Pause(workload_id=NOBODY), "UnknownWorkload", "nobody"),
        (
            SetNodeState(node_id=NodeId("x"), state=NodeState.FENCED),
            "UnknownNode",
            "Nodes are: n1",
        ),
        (
            SetQuotas(quotas={(TeamName("x"), TRAIN): Quota()}),
            "UnknownTeam",
            "Teams are: vision",
        ),
        (
            PutConfig(
                pools=(a_pool(grace_ms=7), a_pool("new")),
                teams=(a_team("other", pool="x"),),
                policy=Policy(max_workers=1),
            ),
            "UnknownPool",
            "Pools are: new, train",
        ),
        (
            SetQuotas(quotas={(TeamName("vision"), PoolName("x")): Quota()}),
            "UnknownPool",
            "Pools are: train",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_thing_is_named_with_what_there_is(
    world: World, action: Action, error: str, words: str
) -> None:
    before = world.cluster
    verdict = world.ask(action)
    assert (verdict.error, words in verdict.text) == (error, True), verdict
    assert world.cluster == before


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda job, lease: Pause(workload_id=lease), "notebook cannot be paused"),
        (lambda job, lease: Keep(workload_id=job, for_ms=1), "is a job, not a notebook"),
        (lambda job, lease: Keep(workload_id=lease, for_ms=1), "nothing to keep"),
        (lambda job, lease: Resume(workload_id=job), "not paused"),
    ],
)
def test_what_does_not_suit_a_state_is_refused(
    world: World, ask: Callable[[Any, Any], Action], words: str
) -> None:
    job, lease = world.run(a_job()), world.submit(a_notebook(), redeem=True)
    verdict = world.ask(ask(job, lease))
    assert verdict.error == "InvalidTransition"
    assert words in verdict.text


def test_a_cancelled_job_can_neither_be_paused_nor_cancelled_twice(world: World) -> None:
    job = world.run(a_job())
    world.ask(Cancel(workload_id=job))
    assert world.ask(Pause(workload_id=job)).error == "InvalidTransition"
    assert world.ask(Cancel(workload_id=job)).error is None
    assert world.state(job) is State.CANCELLING


def test_a_waiting_job_is_paused_and_cancelled_at_once(world: World) -> None:
    job = world.submit(a_job("big", 8000))
    assert world.ask(Pause(workload_id=job)).error is None
    assert world.state(job) is State.PAUSED
    assert world.ask(Pause(workload_id=job)).error is None
    assert world.ask(Cancel(workload_id=job)).error is None
    assert world.state(job) is State.CANCELLED


def test_a_second_gpu_for_a_running_server_is_refused(world: World) -> None:
    lease = world.submit(a_notebook("ann", 500), redeem=True)
    world.ask(Started(workload_id=lease))
    verdict = world.try_submit(a_notebook("ann", 250))
    assert verdict.error == "InvalidTransition"
    assert "already has a GPU slice" in verdict.text
    assert world.try_submit(a_notebook("ann", 500), redeem=True).workload_id == lease


def test_a_restart_gets_a_slice_only_when_the_old_one_is_seen_empty(world: World) -> None:
    lease = world.submit(a_notebook("ann", 1000), redeem=True)
    world.ask(Started(workload_id=lease))
    early = world.try_submit(a_notebook("ann", 500), redeem=True)
    assert early.error == "SliceClearing"
    world.end(lease, None)
    assert world.state(lease) is State.ENDED
    other = world.submit(a_notebook("ann", 500), redeem=True)
    assert world.state(other) is State.GRANTED


def test_a_notebook_is_kept_as_often_as_allowed(world: World) -> None:
    lease = world.submit(a_notebook(), redeem=True)
    world.ask(Started(workload_id=lease))
    keep = Keep(workload_id=lease, for_ms=1_800_000)
    assert [world.ask(keep).error for _ in range(3)] == [None, None, "InvalidTransition"]
    idleness = world.get(lease).idleness
    assert idleness is not None
    assert idleness.kept_until_ms == world.now + 1_800_000


def test_a_notebook_of_no_block_size_is_told_the_sizes(world: World) -> None:
    lease = world.get(world.submit(a_notebook(milli_gpu=300)))
    assert lease.reason is not None
    assert lease.reason.text == "A notebook cannot have 0.3 GPU: sizes are ⅛, ¼, ½, 1, 2, 4, …"


def test_a_missing_kind_of_gpu_is_named(world: World) -> None:
    spec = a_job()
    roles = (type(spec.roles[0])(milli_gpu=1000, gpu_kind="H100", command=("true",)),)
    job = world.get(world.submit(a_job(roles=roles)))
    assert job.reason is not None
    assert job.reason.text == "There is no H100 in pool train; there is: A100-40."


def test_policies_are_named_by_their_rule(world: World) -> None:
    world.ask(PutPolicy(policy=Policy(priorities=frozenset({"low"}))))
    job = world.get(world.submit(a_job()))
    assert job.reason is not None
    assert job.reason.text == "Policy `priorities`: normal is not allowed, only low."
    world.ask(PutPolicy(policy=Policy(max_workers=1)))
    gang = world.get(world.submit(a_job(workers=2)))
    assert gang.reason is not None
    assert gang.reason.text == "Policy `max_workers`: asks for 2 workers, at most 1."


def test_parents_are_the_sums_of_their_teams() -> None:
    leaf = a_team("vision", fixed_milli_gpu=1000, guaranteed_milli_gpu=2000, limit_milli_gpu=4000)
    other = a_team("speech", guaranteed_milli_gpu=1000, limit_milli_gpu=2000)
    parent = TeamName("research")
    teams = {
        parent: Team(name=parent),
        leaf.name: Team(name=leaf.name, parent=parent, quotas=leaf.quotas),
        other.name: Team(name=other.name, parent=parent, quotas=other.quotas),
    }
    quota.check_tree(teams)
    assert quota.summed_quota(teams, parent, TRAIN) == Quota(
        fixed_milli_gpu=1000,
        guaranteed_milli_gpu=3000,
        limit_milli_gpu=6000,
        over_quota_weight=2,
    )
    uses = {
        (leaf.name, TRAIN): quota.Use(500, 1000, 250),
        (other.name, TRAIN): quota.Use(0, 1000, 0),
    }
    assert quota.summed_use(uses, teams, parent, TRAIN) == quota.Use(500, 2000, 250)


def test_a_pools_executor_stays_while_somebody_holds_a_place_there(world: World) -> None:
    other = PutPools(pools=(a_pool("new"), a_pool(executor="kubernetes")))
    jobs = [world.run(a_job(f"d-{index}", 500)) for index in range(4)]
    verdict = world.ask(other)
    assert verdict.error == "Conflict"
    assert verdict.text == (
        "The executor of train cannot change from fake to kubernetes: vision/d-0, vision/d-1,"
        " vision/d-2 and 1 more hold places there. End them first."
    )
    assert world.cluster.pools == {TRAIN: a_pool()}
    for job in jobs:
        world.end(job)
    assert world.ask(other).error is None
    assert world.cluster.pools[TRAIN].executor == "kubernetes"
