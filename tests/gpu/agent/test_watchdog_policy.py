"""Who is warned and who is stopped, look by look, in no time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucommons.gpu.agent.limits.watchdog_policy import (
    GRACE_MS,
    PATIENCE_LOOKS,
    WARNING_MS,
    Cases,
    Decision,
    Portion,
    Room,
    Step,
    Usage,
    judge,
    tolerance_mib,
)
from gpucommons.gpu.devices.devices import DeviceId
from gpucommons.gpu.slices.slices import SliceId

CARD = DeviceId("GPU-0")
LIMIT = 20_000


def process(pid: int, mib: int, *, start: int = 1, server: bool = False) -> Usage:
    return Usage(pid=pid, start=start, memory_mib=mib, is_server=server)


def portion(
    *processes: Usage, name: str = "a", limit: int = LIMIT, unknown: bool = False
) -> Portion:
    return Portion(
        slice_id=SliceId(name),
        device_id=CARD,
        limit_mib=limit,
        processes=None if unknown else processes,
    )


class Clock:
    """One look a second."""

    def __init__(self, free_mib: int | None = 80_000) -> None:
        self.now_ms = 0
        self.free_mib = free_mib
        self.cases: Cases = {}

    def look(self, *portions: Portion) -> tuple[Decision, ...]:
        self.now_ms += 1000
        self.cases, decisions = judge(
            self.cases, portions, {CARD: Room(free_mib=self.free_mib)}, now_ms=self.now_ms
        )
        return decisions

    def looks(self, seconds: int, *portions: Portion) -> list[Decision]:
        return [one for _ in range(seconds) for one in self.look(*portions)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def steps(decisions: Sequence[Decision]) -> list[Step]:
    return [decision.step for decision in decisions]


def test_who_keeps_to_the_share_hears_nothing(clock: Clock) -> None:
    assert clock.looks(100, portion(process(7, LIMIT))) == []


def test_a_little_over_is_no_offence(clock: Clock) -> None:
    assert tolerance_mib(LIMIT) == 400
    assert tolerance_mib(2048) == 256
    assert clock.looks(100, portion(process(7, LIMIT + 400))) == []


def test_a_peak_shorter_than_three_looks_is_none(clock: Clock) -> None:
    for _ in range(20):
        assert clock.looks(PATIENCE_LOOKS - 1, portion(process(7, LIMIT + 900))) == []
        assert clock.looks(20, portion(process(7, LIMIT))) == []


def test_peaks_that_are_never_long_enough_for_a_warning_add_up_to_one(clock: Clock) -> None:
    heard = []
    for _ in range(40):
        heard += clock.looks(PATIENCE_LOOKS - 1, portion(process(7, LIMIT + 900)))
        heard += clock.look(portion(process(7, LIMIT)))
        if Step.TERMINATE in steps(heard):
            break
    assert Step.TERMINATE in steps(heard)
    assert clock.now_ms <= 60_000
    # Of so many peaks its user hears now and then.
    assert steps(heard).count(Step.WARN) == 2


def test_who_ends_each_warning_in_time_and_goes_over_again_is_stopped(clock: Clock) -> None:
    over, within = portion(process(7, LIMIT + 3000)), portion(process(7, LIMIT))
    assert steps(clock.looks(20, over)) == [Step.WARN]
    assert steps(clock.looks(10, within)) == [Step.CLEAR]
    (warning,) = clock.looks(PATIENCE_LOOKS, over)
    # It has what the first peak has left over.
    assert warning.next_ms is not None
    assert warning.next_ms - clock.now_ms < WARNING_MS // 2
    assert steps(clock.looks(17, over)) == [Step.TERMINATE]


def test_who_kept_to_the_share_for_long_has_a_whole_warning_time_again(clock: Clock) -> None:
    clock.looks(25, portion(process(7, LIMIT + 3000)))
    clock.looks(120, portion(process(7, LIMIT)))
    (warning,) = clock.looks(PATIENCE_LOOKS, portion(process(7, LIMIT + 3000)))
    assert warning.next_ms == clock.now_ms + WARNING_MS


def test_over_the_share_is_a_warning_then_term_then_kill(clock: Clock) -> None:
    over = portion(process(7, LIMIT + 3000))
    (warning,) = clock.looks(PATIENCE_LOOKS, over)
    assert (warning.step, warning.used_mib, warning.limit_mib) == (Step.WARN, 23_000, LIMIT)
    assert warning.next_ms == clock.now_ms + WARNING_MS
    (term,) = clock.looks(WARNING_MS // 1000, over)
    assert (term.step, term.pid, term.start, term.urgent) == (Step.TERMINATE, 7, 1, False)
    (kill,) = clock.looks(GRACE_MS // 1000, over)
    assert (kill.step, kill.pid) == (Step.KILL, 7)
    # It can do no more than that; nothing is repeated every second.
    assert clock.looks(100, over) == []


def test_who_frees_memory_in_time_is_left_alone(clock: Clock) -> None:
    clock.looks(20, portion(process(7, LIMIT + 3000)))
    assert steps(clock.look(portion(process(7, LIMIT)))) == [Step.CLEAR]
    assert clock.looks(100, portion(process(7, LIMIT))) == []


def test_the_process_that_grew_goes_and_not_the_largest(clock: Clock) -> None:
    clock.look(portion(process(7, 15_000), process(8, 1000)))
    over = portion(process(7, 15_000), process(8, 9000))
    assert clock.looks(60, over)[1].pid == 8


def test_a_notebook_server_comes_last(clock: Clock) -> None:
    over = portion(process(5, 21_000, server=True), process(8, 1000))
    assert clock.looks(35, over)[1].pid == 8
    alone = portion(process(5, 21_000, server=True))
    assert clock.looks(5, alone)[0].pid == 5


def test_a_successor_with_the_same_pid_is_another_process(clock: Clock) -> None:
    over = portion(process(7, LIMIT + 3000))
    assert steps(clock.looks(33, over)) == [Step.WARN, Step.TERMINATE]
    reborn = portion(process(7, LIMIT + 3000, start=2))
    (again,) = clock.looks(GRACE_MS // 1000, reborn)
    # Nobody is killed for what the process before it was told.
    assert (again.step, again.start) == (Step.TERMINATE, 2)


def test_neighbours_that_would_miss_theirs_need_no_warning(clock: Clock) -> None:
    clock.free_mib = 18_000
    hungry = portion(process(7, LIMIT + 3000))
    neighbour = portion(process(9, 500), name="b")
    (now,) = clock.look(hungry, neighbour)
    assert (now.step, now.pid, now.urgent, now.slice_id) == (Step.TERMINATE, 7, True, "a")


def test_a_neighbour_within_its_share_is_never_touched(clock: Clock) -> None:
    clock.free_mib = 0
    decisions = clock.looks(60, portion(process(7, LIMIT)), portion(process(9, 500), name="b"))
    assert decisions == []


def test_what_cannot_be_read_decides_nothing(clock: Clock) -> None:
    over = portion(process(7, LIMIT + 3000))
    clock.looks(10, over)
    assert clock.looks(100, portion(unknown=True)) == []
    # And it is not forgotten: the warning time is long over.
    assert steps(clock.look(over)) == [Step.TERMINATE]


def test_a_card_of_somebody_else_has_a_share_of_nothing(clock: Clock) -> None:
    decisions = clock.looks(40, portion(process(7, 600), limit=0))
    assert steps(decisions) == [Step.WARN, Step.TERMINATE]


def test_a_slice_that_closed_is_forgotten(clock: Clock) -> None:
    clock.looks(10, portion(process(7, LIMIT + 3000)))
    clock.look()
    assert clock.cases == {}


@given(
    mib=st.lists(st.integers(0, 60_000), min_size=1, max_size=80),
    free_mib=st.one_of(st.none(), st.integers(0, 80_000)),
)
def test_nobody_is_stopped_in_a_look_that_shows_them_within_their_share(
    mib: list[int], free_mib: int | None
) -> None:
    clock = Clock(free_mib)
    for used in mib:
        decisions = clock.look(portion(process(7, used)), portion(process(9, 100), name="b"))
        for decision in decisions:
            assert decision.slice_id == "a"
            if decision.step is not Step.CLEAR:
                assert used > LIMIT + tolerance_mib(LIMIT)
