"""Places to copy are few, and nobody keeps one from others for longer than a turn."""

from __future__ import annotations

from gpucommons.scheduler.executors.local.copy_turns import CopyTurns

TURN_S = 600.0


def some(count: int, name: str = "user") -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def test_each_user_has_one_place_and_the_longest_in_line_comes_first() -> None:
    turns = CopyTurns(places=2, turn_s=TURN_S)
    assert turns.begin(["ann", "bob", "cyd"], 0) == ["ann", "bob"]
    assert turns.begin(["ann", "bob", "cyd"], 1) == []
    turns.ended("bob")
    assert turns.begin(["aaa", "ann", "bob", "cyd"], 2) == ["cyd"]


def test_who_holds_a_place_for_a_turn_keeps_it_as_long_as_nobody_waits() -> None:
    turns = CopyTurns(places=2, turn_s=TURN_S)
    turns.begin(["ann"], 0)
    assert turns.give_up(10 * TURN_S) == []


def test_eight_who_never_end_keep_nobody_waiting_for_longer_than_a_turn() -> None:
    turns, colluding = CopyTurns(places=8, turn_s=TURN_S), some(8)
    assert turns.begin([*colluding, "ann"], 0) == colluding
    assert turns.give_up(TURN_S - 1) == []
    (gone,) = turns.give_up(TURN_S)
    assert turns.give_up(TURN_S) == [], "one place is enough for one who waits"
    turns.ended(gone)
    assert turns.begin([*colluding, "ann"], TURN_S) == ["ann"]


def test_who_gave_a_place_up_has_at_most_half_of_them_until_all_is_copied() -> None:
    turns, colluding, others = CopyTurns(places=8, turn_s=TURN_S), some(8), some(8, "other")
    turns.begin([*colluding, *others], 0)
    assert sorted(turns.give_up(TURN_S)) == colluding
    for one in colluding:
        turns.ended(one)
    assert turns.begin([*colluding, *others], TURN_S) == others
    for one in others:
        turns.ended(one)

    assert len(turns.begin(colluding, TURN_S + 1)) == 4
    assert turns.begin([*colluding, "ann"], TURN_S + 1) == ["ann"]
    turns.ended("user-0")
    turns.ended("ann")
    assert "user-0" in turns.begin(["user-0", "user-7"], TURN_S + 2), "it had all copied"
