"""Choices and messages outlive their store; what was added once is there once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from gpucommons.scheduler.core.model.types import Millis, UserName
from gpucommons.scheduler.errors import ChosenMeanwhile, LeaderLost
from gpucommons.scheduler.notifications.preferences import (
    About,
    Channel,
    Choice,
    Fate,
    Notification,
    Reading,
    Telling,
    notification,
)
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store

ADA, BOB = UserName("ada"), UserName("bob")
MINE = Choice(owner=ADA, mail=frozenset({About.WEEK, About.IDLE}), address="a@x", key_number=2)


def a_message(number: int, at_ms: int = 5, **changes: Any) -> Notification:
    told = Telling(
        owner=changes.pop("owner", ADA),
        about=About.FINISH,
        source=f"event {number}",
        at_ms=Millis(at_ms),
        subject="s",
        text="t",
        facts={"number": number, "name": "n"},
    )
    return replace(notification(told, Channel.MAIL, Millis(at_ms)), **changes)


def test_choices_and_messages_are_there_after_a_restart(url: str, store: Store) -> None:
    epoch = store.take_lead("me")
    assert store.notifications.choice(ADA) is None
    assert store.notifications.reading() is None
    store.notifications.choose(Choice(owner=BOB), before=Choice(owner=BOB))
    store.notifications.choose(Choice(owner=ADA), before=Choice(owner=ADA))
    store.notifications.choose(MINE, before=Choice(owner=ADA))
    reading = Reading(event=7, week_ms=Millis(3))
    store.notifications.read(epoch, Reading(event=6), [])
    store.notifications.read(epoch, reading, [a_message(1)])
    if url != "memory:":
        store.close()
        store = open_store(url)
    assert store.notifications.choice(ADA) == MINE
    assert store.notifications.choices() == (MINE, Choice(owner=BOB))
    assert store.notifications.reading() == reading
    assert store.notifications.newest(ADA, limit=5) == (a_message(1),)
    store.close()


def test_a_choice_that_was_changed_meanwhile_is_not_overwritten_and_no_message_is_made(
    store: Store,
) -> None:
    nothing, other = Choice(owner=ADA), replace(MINE, address="b@x")
    store.notifications.choose(MINE, before=nothing, messages=[a_message(1)])
    for seen in (nothing, other):
        with pytest.raises(ChosenMeanwhile):
            store.notifications.choose(other, before=seen, messages=[a_message(2)])
    assert store.notifications.choice(ADA) == MINE
    assert store.notifications.newest(ADA, limit=9) == (a_message(1),)


def test_of_many_who_choose_at_once_one_is_taken(store: Store) -> None:
    def chosen(number: int) -> bool:
        mine = replace(MINE, address=f"{number}@x")
        try:
            store.notifications.choose(mine, before=Choice(owner=ADA), messages=[a_message(number)])
        except ChosenMeanwhile:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        taken = [number for number, ok in enumerate(threads.map(chosen, range(16))) if ok]
    (one,) = taken
    assert store.notifications.choice(ADA) == replace(MINE, address=f"{one}@x")
    assert store.notifications.newest(ADA, limit=99) == (a_message(one),)


def test_a_message_is_added_once_and_due_until_it_is_settled(store: Store) -> None:
    epoch = store.take_lead("me")
    first, second = a_message(1, 5), a_message(2, 4)
    store.notifications.add([first, second])
    sent = replace(first, fate=Fate.SENT, next_ms=None, tries=1)
    store.notifications.settle(epoch, [sent])
    store.notifications.add([first])
    store.notifications.read(epoch, Reading(event=1), [first, a_message(3, 9, owner=BOB)])
    store.notifications.settle(epoch, [a_message(77)])
    assert store.notifications.due(Millis(3), limit=9) == ()
    assert store.notifications.due(Millis(9), limit=1) == (second,)
    assert store.notifications.due(Millis(9), limit=9) == (second, a_message(3, 9, owner=BOB))
    beside = store.notifications.due(Millis(9), limit=9, besides=[(BOB, Channel.MAIL)])
    assert beside == (second,)
    assert dict(store.notifications.made(Millis(5))) == {
        (ADA, Channel.MAIL): 1,
        (BOB, Channel.MAIL): 1,
    }
    assert store.notifications.newest(ADA, limit=9) == (sent, second)
    assert store.notifications.newest(ADA, limit=1) == (sent,)
    assert dict(store.notifications.waiting()) == {
        (ADA, Channel.MAIL): 1,
        (BOB, Channel.MAIL): 1,
    }
    assert store.notifications.drop(epoch, before_ms=Millis(5)) == 1
    assert store.notifications.newest(ADA, limit=9) == (sent,)


def test_messages_of_one_user_are_forgotten_and_of_others_not(store: Store) -> None:
    store.notifications.add([a_message(1), a_message(2), a_message(3, owner=BOB)])
    assert store.notifications.forget(ADA) == 2
    assert store.notifications.newest(ADA, limit=9) == ()
    assert [one.telling.owner for one in store.notifications.newest(BOB, limit=9)] == [BOB]
    assert store.notifications.forget(ADA) == 0


def test_only_the_leader_reads_and_settles(store: Store) -> None:
    old = store.take_lead("me")
    store.take_lead("other")
    for write in (
        lambda: store.notifications.read(old, Reading(event=9), [a_message(1)]),
        lambda: store.notifications.settle(old, [a_message(1)]),
        lambda: store.notifications.drop(old, before_ms=Millis(9)),
    ):
        with pytest.raises(LeaderLost):
            write()
    assert store.notifications.reading() is None
    assert store.notifications.newest(ADA, limit=9) == ()
