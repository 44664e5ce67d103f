"""Whose work each policy may stop, side by side on one cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from builders import World, a_job, a_node, a_notebook, a_team, ids

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.eviction import policies
from gpucommons.scheduler.core.eviction.policies import EvictionPolicy, QuotaShortfall
from gpucommons.scheduler.core.model.types import HoldClass, TeamName, Workload

VISION, NLP = TeamName("vision"), TeamName("nlp")
INSIDE, BORROWED = HoldClass.GUARANTEED, HoldClass.OVER_QUOTA
MINUTE = 60_000


@pytest.fixture(scope="module")
def busy() -> World:
    """A notebook; jobs of two teams, inside their guarantees and borrowing; one began just now."""
    quotas = {"fixed_milli_gpu": 1000, "guaranteed_milli_gpu": 1000}
    world = World(a_node(gpus=8), teams=[a_team(VISION, **quotas), a_team(NLP, **quotas)])
    world.submit(a_notebook(milli_gpu=1000), redeem=True)
    for team in (VISION, NLP):
        world.run(a_job(f"{team} inside", team=team))
        world.run(a_job(f"{team} borrows", team=team))
    world.wait(MINUTE)
    world.run(a_job("nlp young", team=NLP))
    return world


def _first(cycle: CycleState, name: str) -> Workload:
    return next(one for one in cycle.workloads.values() if one.spec.name == name)


def _urgent(cycle: CycleState) -> Workload:
    job = _first(cycle, "nlp inside")
    return replace(job, spec=replace(job.spec, priority="high"))


Policy = Callable[[CycleState], EvictionPolicy]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            lambda _: policies.for_notebook(VISION),
            {"vision borrows", "nlp borrows", "nlp young"},
        ),
        (
            lambda _: policies.for_guarantee(VISION, QuotaShortfall()),
            {"vision borrows", "nlp borrows", "nlp young"},
        ),
        (lambda cycle: policies.for_share(cycle, VISION, {}), {"nlp borrows"}),
        (
            lambda cycle: policies.for_priority(cycle, _urgent(cycle), INSIDE, QuotaShortfall()),
            {"nlp inside", "nlp borrows"},
        ),
        (
            lambda cycle: policies.for_priority(cycle, _urgent(cycle), BORROWED, QuotaShortfall()),
            {"nlp borrows"},
        ),
        (
            lambda cycle: policies.for_move(cycle, VISION, INSIDE),
            {"vision inside", "vision borrows", "nlp inside", "nlp borrows"},
        ),
        (
            lambda cycle: policies.for_move(cycle, VISION, BORROWED),
            {"vision borrows", "nlp borrows"},
        ),
    ],
    ids=["notebook", "guarantee", "share", "priority", "priority-borrows", "move", "move-borrows"],
)
def test_a_policy_stops_nobody_else(busy: World, policy: Policy, expected: set[str]) -> None:
    cycle = CycleState.of(busy.cluster.apart(), busy.now, ids("unused"))
    may_stop = policy(cycle).may_stop
    stopped = {
        one.spec.name
        for one in cycle.workloads.values()
        if one.current is not None and may_stop(one, one.current.hold_class)
    }
    assert stopped == expected


def test_a_reservation_clears_any_job_and_no_notebook(busy: World) -> None:
    cycle = CycleState.of(busy.cluster.apart(), busy.now, ids("unused"))
    may_stop = policies.for_reservation(VISION).may_stop
    spared = {
        one.spec.name
        for one in cycle.workloads.values()
        if one.current is not None and not may_stop(one, one.current.hold_class)
    }
    assert spared == {""}
