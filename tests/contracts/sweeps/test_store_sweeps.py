"""Sweeps with their trials, as owners and the leader write them, in every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import IntentId, Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Conflict, LeaderLost
from gpucommons.scheduler.parents import ParentId, ParentKind
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.sweeps.sweep import (
    Budget,
    Halving,
    Improvement,
    Improvements,
    Kept,
    Parameter,
    Standing,
    Sweep,
    Trial,
    TrialState,
)


def a_sweep(number: int = 1, owner: str = "ada") -> Sweep:
    return Sweep(
        sweep_id=ParentId(f"s-{number}"),
        kind=ParentKind.SWEEP,
        name=f"digits-{number}",
        owner=UserName(owner),
        team=TeamName("vision"),
        made_ms=Millis(number),
        budget=Budget(trials=3, milli_gpu_s=1000),
        request="{}",
        space=(
            Parameter(name="optimizer", choices=("sgd", 1, 0.5, True)),
            Parameter(name="lr", low=0.1, high=1, log=True, when={"optimizer": ("sgd",)}),
        ),
        halving=Halving(first_step=1, last_step=9),
    )


def test_what_owners_and_the_leader_write_does_not_write_over_each_other(store: Store) -> None:
    epoch = store.take_lead("me")
    first, other = a_sweep(1), a_sweep(2, "eve")
    store.sweeps.put(first)
    store.sweeps.put(other)
    drawn = Trial(number=1, values={"optimizer": "sgd", "lr": 0.25, "deep": True})
    told = replace(drawn, state=TrialState.LIVE, job=WorkloadId("w"), at_rungs=(0.5, float("inf")))
    store.sweeps.stand(epoch, Kept(sweep=first), [drawn, Trial(number=2, values={})])
    store.sweeps.stand(epoch, Kept(sweep=first, standing=Standing(hindrance="h")), [told])

    assert store.sweeps.trials(first.sweep_id) == (told, Trial(number=2, values={}))
    assert store.sweeps.one(first.sweep_id) == Kept(sweep=first, standing=Standing(hindrance="h"))
    assert [one.sweep for one in store.sweeps.named("digits-2")] == [other]
    stopped = replace(first, stopped=True)
    store.sweeps.put(stopped, before=first)
    assert store.sweeps.one(first.sweep_id) == Kept(sweep=stopped, standing=Standing(hindrance="h"))


def test_a_change_of_what_was_changed_meanwhile_is_refused(store: Store) -> None:
    first = a_sweep()
    store.sweeps.put(first)
    stopped = replace(first, stopped=True)
    store.sweeps.put(stopped, before=first)
    more = replace(first, budget=Budget(trials=9), added=(IntentId("i-1"),))
    with pytest.raises(Conflict, match="digits-1 was changed or removed meanwhile"):
        store.sweeps.put(more, before=first)
    with pytest.raises(Conflict, match="digits-1 was changed or removed meanwhile"):
        store.sweeps.put(first)
    with pytest.raises(Conflict, match="digits-2 was changed or removed meanwhile"):
        store.sweeps.put(a_sweep(2), before=a_sweep(2))
    assert [one.sweep for one in store.sweeps.live()] == [stopped]
    store.sweeps.put(more, before=stopped)
    assert [one.sweep for one in store.sweeps.live()] == [more]


def test_what_is_over_is_not_looked_at_until_its_owner_writes_it_again(store: Store) -> None:
    epoch = store.take_lead("me")
    sweep, over = a_sweep(), Standing(ended_ms=Millis(9), ended_text="All of it was tried.")
    store.sweeps.put(sweep)
    grown = replace(sweep, budget=Budget(trials=4))
    store.sweeps.put(grown, before=sweep)
    # The leader had not seen that it was written.
    store.sweeps.stand(epoch, Kept(sweep=sweep, standing=over), [])
    assert store.sweeps.live() == (Kept(sweep=grown, standing=over),)
    store.sweeps.stand(epoch, Kept(sweep=grown, standing=over), [])
    assert store.sweeps.live() == ()
    store.sweeps.put(sweep, before=grown)
    assert store.sweeps.live() == (Kept(sweep=sweep, standing=over),)


def test_who_does_not_lead_writes_nothing_and_what_is_dropped_is_gone(store: Store) -> None:
    old = store.take_lead("me")
    store.sweeps.put(a_sweep())
    epoch = store.take_lead("another")
    trial = Trial(number=1, values={"a": 1})
    with pytest.raises(LeaderLost):
        store.sweeps.stand(old, Kept(sweep=a_sweep()), [trial])
    assert store.sweeps.trials(ParentId("s-1")) == ()
    store.sweeps.stand(epoch, Kept(sweep=a_sweep()), [trial])
    over = Kept(sweep=a_sweep(), standing=Standing(ended_ms=Millis(9)))
    store.sweeps.stand(epoch, over, [trial])
    with pytest.raises(LeaderLost):
        store.sweeps.prune(old, before_ms=Millis(10))
    store.sweeps.prune(epoch, before_ms=Millis(10))
    store.sweeps.stand(epoch, over, [trial])
    assert (store.sweeps.one(ParentId("s-1")), store.sweeps.live()) == (None, ())
    assert store.sweeps.trials(ParentId("s-1")) == ()


def test_what_somebody_has_submitted_lately_is_added_up_whether_it_goes_on_or_not(
    store: Store,
) -> None:
    owner = UserName("ada")
    for one in (a_sweep(1), a_sweep(2), replace(a_sweep(3), stopped=True), a_sweep(4, "eve")):
        store.sweeps.put(one)
    each = store.sweeps.size_bytes(owner, since_ms=Millis(2))
    assert each > 300
    assert 2 * each - 50 < store.sweeps.size_bytes(owner, since_ms=Millis(1)) < 2 * each + 50
    assert store.sweeps.size_bytes(owner, since_ms=Millis(3)) == 0


def test_those_that_somebody_sees_are_listed_by_page_newest_first(store: Store) -> None:
    for number in range(1, 6):
        store.sweeps.put(
            replace(a_sweep(number, "eve" if number == 3 else "ada"), made_ms=Millis(1))
        )
    sight = Sight(teams=frozenset(), owner=UserName("ada"))
    first = store.sweeps.page(sight, before=None, limit=2)
    rest = store.sweeps.page(sight, before=first[-1], limit=9)
    assert [one.sweep.name for one in (*first, *rest)] == [f"digits-{n}" for n in (5, 4, 2, 1)]
    team = Sight(teams=frozenset({TeamName("vision")}))
    assert len(store.sweeps.page(team, before=None, limit=9)) == 5
    assert store.sweeps.page(Sight(teams=frozenset()), before=None, limit=9) == ()


def test_what_ended_long_ago_is_forgotten_and_what_goes_on_is_not(store: Store) -> None:
    epoch = store.take_lead("me")
    old, new, live, written = (
        replace(a_sweep(number), snapshot=f"files-{number}") for number in range(1, 5)
    )
    for one, ended_ms in ((old, 9), (new, 20), (live, None), (written, 9)):
        store.sweeps.put(one)
        standing = Standing(ended_ms=None if ended_ms is None else Millis(ended_ms))
        store.sweeps.stand(epoch, Kept(sweep=one, standing=standing), [])
    store.sweeps.put(replace(written, budget=Budget(trials=4)), before=written)
    needed = store.sweeps.needed(ended_since_ms=Millis(10))
    assert needed == frozenset({"files-2", "files-3"})
    store.sweeps.prune(epoch, before_ms=Millis(10))
    left = store.sweeps.page(Sight(), before=None, limit=9)
    assert [one.sweep.name for one in left] == ["digits-4", "digits-3", "digits-2"]


def test_the_best_so_far_is_kept_with_where_a_sweep_stands_also_when_its_owner_writes(
    store: Store,
) -> None:
    epoch = store.take_lead("me")
    sweep = a_sweep()
    store.sweeps.put(sweep)
    first = Improvement(at_ms=Millis(5), trial=2, value=0.25)
    points = (first, Improvement(at_ms=Millis(9), trial=1, value=-1e-9))
    record = Improvements(points=points, thinned=True, begun_late=True)
    stands = Standing(improvements=record)
    store.sweeps.stand(epoch, Kept(sweep=sweep, standing=stands), [])
    grown = replace(sweep, budget=Budget(trials=9))
    store.sweeps.put(grown, before=sweep)

    assert store.sweeps.one(sweep.sweep_id) == Kept(sweep=grown, standing=stands)
    store.take_lead("another")
    with pytest.raises(LeaderLost):
        store.sweeps.stand(epoch, Kept(sweep=grown), [])
    assert [one.standing for one in store.sweeps.live()] == [stands]
