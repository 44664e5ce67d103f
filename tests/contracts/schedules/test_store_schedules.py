"""Schedules outlive their store; owners and the leader write them without undoing each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Conflict, LeaderLost
from gpucommons.scheduler.principal import Sight
from gpucommons.scheduler.schedules.due_runs import Start, record
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Outcome,
    Promoted,
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
)
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

NIGHTLY = Schedule(
    schedule_id=ScheduleId("s-1"),
    name="nightly",
    owner=UserName("ada"),
    team=TeamName("vision"),
    cron="0 2 * * *",
    time_zone="Europe/Berlin",
    concurrency=Concurrency.FORBID,
    since_ms=Millis(0),
    request="{}",
)
OTHERS = replace(NIGHTLY, schedule_id=ScheduleId("s-2"), owner=UserName("bob"))
MISSED = record(
    Standing(), Outcome.MISSED, Start(due_ms=Millis(500)), Millis(600), "The scheduler did not run"
)


def test_schedules_are_there_after_a_restart(url: str, store: Store) -> None:
    epoch = store.take_lead("me")
    store.schedules.put(NIGHTLY, next_ms=Millis(500))
    store.schedules.put(OTHERS, next_ms=Millis(400))
    assert store.schedules.stand(epoch, Scheduled(schedule=NIGHTLY), MISSED, next_ms=Millis(900))
    if url != "memory:":
        store.close()
        store = open_store(url)
    mine = Scheduled(schedule=NIGHTLY, standing=MISSED)
    assert store.schedules.all() == (mine, Scheduled(schedule=OTHERS))
    assert store.schedules.all(UserName("ada")) == (mine,)
    assert store.schedules.due(Millis(899)) == (Scheduled(schedule=OTHERS),)
    assert store.schedules.due(Millis(900)) == (Scheduled(schedule=OTHERS), mine)
    store.schedules.drop(NIGHTLY.schedule_id)
    assert store.schedules.all(UserName("ada")) == ()
    store.close()


def test_jobs_that_are_promoted_by_the_rule_or_by_hand_are_known_and_the_later_one_counts(
    store: Store,
) -> None:
    epoch = store.take_lead("me")
    early, late = (
        Promoted(job=WorkloadId(name), job_name=name, value=0.5, at_ms=Millis(at), why="")
        for name, at in (("early", 1), ("late", 2))
    )
    store.schedules.put(NIGHTLY, next_ms=None)
    assert store.schedules.promoted() == frozenset()
    assert store.schedules.stand(
        epoch, Scheduled(schedule=NIGHTLY), Standing(promoted=early), next_ms=None
    )
    assert store.schedules.promoted() == {"early"}
    store.schedules.put(replace(OTHERS, chosen=late), next_ms=None)
    assert store.schedules.promoted() == {"early", "late"}
    store.schedules.put(replace(NIGHTLY, chosen=late), next_ms=None, before=NIGHTLY)
    assert store.schedules.promoted() == {"late"}


def test_a_page_holds_what_somebody_sees_behind_the_last_one(store: Store) -> None:
    for number, (owner, team) in enumerate([("ada", "vision"), ("bob", "nlp"), ("cid", "vision")]):
        for name in ("a", "b"):
            made = replace(
                NIGHTLY,
                schedule_id=ScheduleId(f"{number}{name}"),
                owner=UserName(owner),
                team=TeamName(team),
                name=name,
            )
            store.schedules.put(made, next_ms=None)

    def page(sight: Sight, after: tuple[str, str] = ("", "")) -> list[str]:
        found = store.schedules.page(sight, after=after, limit=3)
        return [f"{one.schedule.owner}/{one.schedule.name}" for one in found]

    everything, vision = Sight(), Sight(teams=frozenset({TeamName("vision")}))
    assert page(everything) == ["ada/a", "ada/b", "bob/a"]
    assert page(everything, ("bob", "a")) == ["bob/b", "cid/a", "cid/b"]
    assert page(vision) == ["ada/a", "ada/b", "cid/a"]
    assert page(replace(vision, owner=UserName("bob")), ("ada", "b")) == ["bob/a", "bob/b", "cid/a"]
    assert page(Sight(teams=frozenset())) == []
    store.close()


def test_a_page_may_be_of_one_name(store: Store) -> None:
    weekly = replace(NIGHTLY, schedule_id=ScheduleId("s-3"), name="weekly")
    for one in (NIGHTLY, OTHERS, weekly):
        store.schedules.put(one, next_ms=Millis(0))
    all_of_vision = Sight(teams=frozenset({TeamName("vision")}), owner=None)
    found = store.schedules.page(all_of_vision, after=("", ""), limit=9, name="nightly")
    assert [one.schedule for one in found] == [NIGHTLY, OTHERS]


def test_a_name_is_one_owners_once(store: Store) -> None:
    store.schedules.put(NIGHTLY, next_ms=None)
    store.schedules.put(OTHERS, next_ms=None)
    with pytest.raises(Conflict, match="ada has a schedule nightly already"):
        store.schedules.put(replace(NIGHTLY, schedule_id=ScheduleId("s-3")), next_ms=None)
    assert len(store.schedules.all()) == 2


def test_what_an_owner_changes_while_the_leader_decides_stays(store: Store) -> None:
    epoch = store.take_lead("me")
    store.schedules.put(NIGHTLY, next_ms=Millis(500))
    (read,) = store.schedules.due(Millis(500))
    changed = replace(NIGHTLY, cron="0 4 * * *")
    store.schedules.put(changed, next_ms=Millis(2000), before=NIGHTLY)
    assert not store.schedules.stand(epoch, read, MISSED, next_ms=Millis(900))
    assert store.schedules.due(Millis(1999)) == ()
    assert store.schedules.due(Millis(2000)) == (Scheduled(schedule=changed, standing=MISSED),)
    # And one that was dropped does not come back.
    store.schedules.drop(NIGHTLY.schedule_id)
    assert not store.schedules.stand(epoch, read, MISSED, next_ms=Millis(900))
    assert store.schedules.all() == ()


def test_a_change_of_what_others_changed_meanwhile_is_refused(store: Store) -> None:
    store.schedules.put(NIGHTLY, next_ms=None)
    held = replace(NIGHTLY, suspended=True, held=True)
    store.schedules.put(held, next_ms=None, before=NIGHTLY)
    resumed = replace(NIGHTLY, cron="0 5 * * *")
    for before in (NIGHTLY, None):
        with pytest.raises(Conflict, match="nightly was changed or removed meanwhile"):
            store.schedules.put(resumed, next_ms=None, before=before)
    assert [one.schedule for one in store.schedules.all()] == [held]
    store.schedules.drop(held.schedule_id)
    with pytest.raises(Conflict, match="meanwhile"):
        store.schedules.put(resumed, next_ms=None, before=held)
    assert store.schedules.all() == ()


def test_who_does_not_lead_any_more_writes_no_standing(store: Store) -> None:
    epoch = store.take_lead("me")
    store.schedules.put(NIGHTLY, next_ms=Millis(500))
    store.take_lead("another")
    with pytest.raises(LeaderLost):
        store.schedules.stand(epoch, Scheduled(schedule=NIGHTLY), MISSED, next_ms=None)
    assert store.schedules.all() == (Scheduled(schedule=NIGHTLY),)
