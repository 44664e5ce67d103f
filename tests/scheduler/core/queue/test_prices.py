"""Jobs wait while each of their pools costs more than they, or their team, pay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from builders import T0, World, a_job, a_node, a_notebook, a_pool, a_team

from gpucommons.scheduler.core.model.demand import affordable
from gpucommons.scheduler.core.model.intents import PutConfig, PutPools
from gpucommons.scheduler.core.model.price_and_budget import Price
from gpucommons.scheduler.core.model.reason import ReasonClass
from gpucommons.scheduler.core.model.resources import Policy, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import CheckpointReported
from gpucommons.scheduler.core.model.types import (
    Checkpoint,
    Millis,
    PoolName,
    Spec,
    State,
    WorkloadId,
)
from gpucommons.scheduler.core.placement import narrowed_pools

HOUR = 3_600_000
CHEAP, DEAR = PoolName("cheap"), PoolName("dear")
MICRO = 1_000_000


def prices(*found: tuple[int, int]) -> tuple[Price, ...]:
    return tuple(Price(from_ms=Millis(at), micro_per_gpu_h=micro) for at, micro in found)


def a_priced_pool(name: PoolName, *found: tuple[int, int]) -> Pool:
    return a_pool(name, prices=prices(*found), currency="EUR")


def team(name: str = "vision", policy: Policy | None = None) -> Team:
    quotas = {pool: Quota(guaranteed_milli_gpu=1000) for pool in (CHEAP, DEAR)}
    return replace(a_team(name), quotas=quotas, policy=policy or Policy())


@pytest.fixture
def world() -> World:
    """One GPU for 1 and one for 3 per hour; from an hour on that one costs 1.50."""
    return World(
        a_node("n1", 1, pool=CHEAP),
        a_node("n2", 1, pool=DEAR),
        pools=[
            a_priced_pool(CHEAP, (0, MICRO)),
            a_priced_pool(DEAR, (0, 3 * MICRO), (T0 + HOUR, 3 * MICRO // 2)),
        ],
        teams=[team()],
    )


def pool_of(world: World, job: WorkloadId) -> PoolName | None:
    attempt = world.get(job).current
    return None if attempt is None else world.cluster.nodes[attempt.placements[0].node_id].pool


def a_saver(name: str, most: int | None = 2 * MICRO, **changes: object) -> Spec:
    return a_job(name, **{"pools": (DEAR, CHEAP), "max_price_micro": most, **changes})


def test_a_job_takes_the_pool_that_it_pays_for_and_waits_while_each_costs_more(
    world: World,
) -> None:
    first = world.submit(a_saver("first"))
    assert pool_of(world, first) == CHEAP
    second = world.submit(a_saver("second", most=MICRO // 2))
    reason = world.get(second).reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        ReasonClass.PRICE,
        "A GPU of cheap costs 1.00 EUR per hour now, and it pays at most 0.50 EUR (max_price).",
    )
    # It keeps nobody from what it does not take.
    assert pool_of(world, world.submit(a_job("third", pools=(DEAR,)))) == DEAR


def test_it_starts_when_the_price_falls_without_any_event(world: World) -> None:
    world.submit(a_job("other", pools=(CHEAP,)))
    job = world.submit(a_saver("job"))
    assert pool_of(world, job) is None
    assert world.get(job).spec.pools == (CHEAP,)
    assert world.outcome.wake_ms is not None
    assert world.outcome.wake_ms <= T0 + HOUR
    world.wait(T0 + HOUR - 1 - world.now)
    assert pool_of(world, job) is None
    world.wait(1)
    assert pool_of(world, job) == DEAR


def test_what_runs_goes_on_when_its_price_rises(world: World) -> None:
    job = world.run(a_saver("job"))
    dearer = replace(world.cluster.pools[CHEAP], prices=prices((0, 9 * MICRO)))
    world.ask(PutPools(pools=(dearer, world.cluster.pools[DEAR])), "admin")
    world.wait(HOUR)
    assert world.state(job) is State.RUNNING
    current = world.get(job).current
    assert current is not None
    assert current.stop is None


def test_a_teams_policy_holds_for_all_its_jobs_and_no_longer_than_it_stands(
    world: World,
) -> None:
    strict = team(policy=Policy(max_price_micro=MICRO // 2))
    world.ask(PutConfig(teams=(strict,)), "admin")
    job = world.submit(a_saver("job", most=None))
    reason = world.get(job).reason
    assert reason is not None
    assert reason.code is ReasonClass.PRICE
    assert "the policy of vision lets it pay at most 0.50 EUR" in reason.text
    world.ask(PutConfig(teams=(team(policy=Policy(max_price_micro=MICRO)),)), "admin")
    assert pool_of(world, job) == CHEAP
    narrowed = world.submit(a_saver("narrowed", most=None))
    assert world.get(narrowed).spec.pools == (CHEAP,)
    world.ask(PutConfig(teams=(team(),)), "admin")
    assert pool_of(world, narrowed) == DEAR


def test_one_that_pays_little_stands_in_nobodys_way_in_the_same_line(world: World) -> None:
    world.submit(a_saver("poor", most=1, pools=(CHEAP,)))
    assert pool_of(world, world.submit(a_job("rich", pools=(CHEAP,)))) == CHEAP


def test_no_price_notebooks_and_work_without_gpus_are_kept_from_nothing(world: World) -> None:
    world.ask(PutPools(pools=(a_pool(CHEAP), world.cluster.pools[DEAR])), "admin")
    assert pool_of(world, world.submit(a_saver("unpriced", most=0))) == CHEAP
    assert pool_of(world, world.submit(a_saver("cpu", most=0, milli_gpu=0))) is not None
    strict = team(policy=Policy(max_price_micro=0))
    world.ask(PutConfig(teams=(strict,)), "admin")
    lease = world.submit(a_notebook(pools=(DEAR,)))
    reason = world.get(lease).reason
    assert reason is None or reason.code is not ReasonClass.PRICE


@pytest.mark.parametrize(("later", "grows"), [(2 * MICRO, True), (3 * MICRO, False)])
def test_an_elastic_job_grows_on_what_it_pays_for_alone(later: int, *, grows: bool) -> None:
    world = World(
        a_node("n1", 2, pool=CHEAP),
        pools=[a_priced_pool(CHEAP, (0, MICRO), (T0 + 1000, later))],
        teams=[a_team(pool=CHEAP)],
    )
    other = world.run(a_job("other", pools=(CHEAP,)))
    job = world.run(a_saver("job", pools=(CHEAP,), min_workers=1, max_workers=2))
    world.end(other)
    for _ in range(20):
        world.wait(60_000)
        attempt_id = world.attempt_id(job)
        saved = Checkpoint(
            attempt_id=attempt_id, step=7, path="x", size_bytes=1, sha256="0" * 64, at_ms=world.now
        )
        world.step(CheckpointReported(attempt_id=attempt_id, checkpoint=saved))
    current = world.get(job).current
    assert current is not None
    assert (current.stop is not None) is grows


def test_a_limit_of_the_hub_is_said_to_be_its_own(world: World) -> None:
    world.ask(PutConfig(policy=Policy(max_price_micro=MICRO // 2)), "admin")
    reason = world.get(world.submit(a_saver("job", most=None))).reason
    assert reason is not None
    assert "the policy of the hub lets it pay at most 0.50 EUR" in reason.text
    assert "an admin can raise max_price" in (reason.unblock or "")


def test_many_who_wait_alike_are_asked_once_what_their_team_pays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask(PutConfig(teams=(team(policy=Policy(max_price_micro=4 * MICRO)),)), "admin")
    world.run(a_job("first", pools=(CHEAP,)))
    for number in range(20):
        world.submit(a_job(f"job-{number}", pools=(CHEAP,)))
    asked: list[Spec] = []

    def counted(spec: Spec, *others: Any) -> tuple[PoolName, ...]:
        asked.append(spec)
        return affordable(spec, *others)

    monkeypatch.setattr(narrowed_pools, "affordable", counted)
    world.wait(1)
    assert len(asked) == 1
