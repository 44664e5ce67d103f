from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from builders import T0, World, a_job, a_node, a_notebook, a_team, ids

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model import eviction_cause
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import WorkloadId
from gpucommons.scheduler.core.stopping import grace, notice

ENTRIES = {fact: Entry[str, int](str(fact), fact) for fact in Fact}
#: It rests on nothing that may change.
ALWAYS: Entry[str, int] = Entry("always")


@pytest.fixture
def cycle() -> CycleState:
    """A full node: a borrower, a notebook, and a job that waits."""
    world = World(a_node(gpus=2), teams=[a_team(fixed_milli_gpu=1000)])
    world.run(a_job(name="borrows"))
    world.submit(a_notebook(milli_gpu=1000))
    world.submit(a_job(name="waits"))
    cycle = CycleState.of(world.cluster.apart(), T0, ids("x"))
    cycle.refresh()
    for entry in (*ENTRIES.values(), ALWAYS):
        cycle.memo.keep(entry, "asked", 1)
    return cycle


def named(cycle: CycleState, name: str) -> WorkloadId:
    return next(i for i, one in cycle.workloads.items() if one.spec.name == name)


def dropped(cycle: CycleState) -> set[Fact]:
    return {fact for fact, entry in ENTRIES.items() if cycle.memo.get(entry, "asked") is None}


def _tell_the_borrower(cycle: CycleState) -> None:
    borrower = cycle.workloads[named(cycle, "borrows")]
    cause = eviction_cause.of_guarantee(borrower.spec.team)
    notice.announce(cycle, borrower, cause, named(cycle, "waits"))


def _tell_the_notebook(cycle: CycleState) -> None:
    lease = next(one for one in cycle.workloads.values() if is_lease(one))
    grace.stop_without_notice(cycle, lease, why="culled", text="")


def _leave_again(cycle: CycleState) -> None:
    waits = cycle.workloads[named(cycle, "waits")]
    cycle.put(replace(waits, withdrawn_ms=(T0,)))


def _move_blocks(cycle: CycleState) -> None:
    cycle.rules.blocks = ()
    cycle.capacity.set_blocks(())


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda cycle: None, set()),
        (lambda cycle: cycle.put(cycle.workloads[named(cycle, "waits")]), {Fact.WORKLOADS}),
        (_leave_again, {Fact.WORKLOADS, Fact.WITHDRAWALS}),
        (_tell_the_borrower, {Fact.WORKLOADS, Fact.CAPACITY}),
        (_tell_the_notebook, {Fact.WORKLOADS, Fact.CAPACITY, Fact.ENDING_NOTEBOOKS}),
        (_move_blocks, {Fact.BLOCKS, Fact.FREED, Fact.CAPACITY}),
        (CycleState.refresh, {Fact.REFRESHED}),
    ],
)
def test_a_changed_fact_drops_what_rests_on_it_and_nothing_else(
    cycle: CycleState, change: Callable[[CycleState], object], facts: set[Fact]
) -> None:
    change(cycle)
    assert dropped(cycle) == facts
    assert cycle.memo.get(ALWAYS, "asked") == 1


def test_what_rests_on_several_facts_goes_with_any_of_them(cycle: CycleState) -> None:
    both: Entry[str, int] = Entry("both", Fact.RELEASED, Fact.WORKLOADS)
    assert cycle.memo.remember(both, "asked", lambda: 1) == 1
    assert cycle.memo.remember(both, "asked", lambda: 2) == 1
    cycle.put(cycle.workloads[named(cycle, "waits")])
    assert cycle.memo.remember(both, "asked", lambda: 3) == 3


def test_answers_of_one_kind_are_not_those_of_another(cycle: CycleState) -> None:
    other: Entry[str, int] = Entry("always")
    assert cycle.memo.get(other, "asked") is None
    assert cycle.memo.get(ALWAYS, "asked otherwise") is None
