"""Who saves when: those who are stopped at once share a disk, and nobody waits for what comes too late."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpucommons.scheduler.executors.local.attempt.saving_turns import (
    Turn,
    give_back,
    take_turn,
    turn_for,
)

GRACE_MS = 30_000
NOW_MS = 1_000_000


def test_ten_victims_of_a_gigabyte_get_the_turns_that_half_of_the_grace_has(tmp_path: Path) -> None:
    turns = [
        take_turn(tmp_path / "turns", now_ms=NOW_MS, need_ms=4_000, by_ms=NOW_MS + GRACE_MS // 2)
        for _ in range(10)
    ]
    assert [turn and turn.from_ms - NOW_MS for turn in turns] == [0, 4_000, 8_000] + [None] * 7


def test_what_took_less_makes_room_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    first = take_turn(path, now_ms=NOW_MS, need_ms=10_000, by_ms=NOW_MS + 15_000)
    assert first is not None
    give_back(path, first, now_ms=NOW_MS + 1_000)
    second = take_turn(path, now_ms=NOW_MS + 1_000, need_ms=10_000, by_ms=NOW_MS + 15_000)
    assert second == Turn(from_ms=NOW_MS + 1_000, to_ms=NOW_MS + 11_000)


def test_a_turn_that_others_stand_behind_is_not_moved(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    first = take_turn(path, now_ms=NOW_MS, need_ms=4_000, by_ms=NOW_MS + 15_000)
    second = take_turn(path, now_ms=NOW_MS, need_ms=4_000, by_ms=NOW_MS + 15_000)
    assert first is not None
    assert second is not None
    give_back(path, first, now_ms=NOW_MS + 1_000)
    third = take_turn(path, now_ms=NOW_MS + 1_000, need_ms=4_000, by_ms=NOW_MS + 15_000)
    assert third == Turn(from_ms=second.to_ms, to_ms=second.to_ms + 4_000)


def test_bookkeeping_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    path.write_text("nonsense")
    assert take_turn(path, now_ms=NOW_MS, need_ms=1, by_ms=NOW_MS + 10) is None
    assert take_turn(path, now_ms=NOW_MS, need_ms=1, by_ms=NOW_MS + 10) is not None


@given(
    st.lists(
        st.tuples(
            st.integers(1, 20_000),  # how long it takes by its memory
            st.integers(1, 60_000),  # its grace
            st.integers(0, 5_000),  # when it is stopped after the one before
        ),
        max_size=20,
    )
)
def test_on_a_disk_of_whatever_speed_every_turn_is_over_within_half_of_its_grace(
    victims: list[tuple[int, int, int]],
) -> None:
    now_ms = busy_ms = NOW_MS
    turns: list[Turn] = []
    for need_ms, grace_ms, after_ms in victims:
        now_ms += after_ms
        turn = turn_for(busy_ms, now_ms=now_ms, need_ms=need_ms, by_ms=now_ms + grace_ms // 2)
        if turn is None:
            continue
        assert now_ms <= turn.from_ms
        assert turn.to_ms <= now_ms + grace_ms // 2
        assert not turns or turns[-1].to_ms <= turn.from_ms
        busy_ms = turn.to_ms
        turns.append(turn)
