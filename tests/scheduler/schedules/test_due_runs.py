"""What is due of a schedule, and what stays on record of its times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.scheduler.core.model.types import Millis, TeamName, UserName, WorkloadId
from gpucommons.scheduler.errors import Misconfigured
from gpucommons.scheduler.schedules import cron_times
from gpucommons.scheduler.schedules.due_runs import (
    Start,
    decide,
    hindered,
    is_by_hand,
    next_by_hand,
    next_look_ms,
    record,
    started,
)
from gpucommons.scheduler.schedules.schedule import (
    Concurrency,
    Outcome,
    Schedule,
    Scheduled,
    ScheduleId,
    Standing,
)

HOUR, DAY = 3_600_000, 86_400_000


def at(text: str) -> Millis:
    return Millis(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


BEGIN = at("2026-11-24T00:00")
JOB = WorkloadId("w-1")
NIGHTLY = Schedule(
    schedule_id=ScheduleId("s-1"),
    name="nightly",
    owner=UserName("ada"),
    team=TeamName("vision"),
    cron="0 2 * * *",
    time_zone="UTC",
    concurrency=Concurrency.FORBID,
    since_ms=BEGIN,
    request="{}",
)
FRESH = Scheduled(schedule=NIGHTLY)
TWO = at("2026-11-24T02:00")


def outcomes(standing: Standing) -> list[tuple[str, int, int]]:
    return [(run.outcome.value, run.due_ms, run.count) for run in standing.runs]


def test_nothing_is_due_before_its_time_and_one_run_at_it() -> None:
    assert next_look_ms(FRESH) == TWO
    assert decide(FRESH, (), Millis(TWO - 1)).start is None
    found = decide(FRESH, (), TWO)
    assert (found.start, found.standing) == (Start(due_ms=TWO), Standing())
    after = started(found.standing, Start(due_ms=TWO), TWO, job=JOB, name="nightly-1")
    assert next_look_ms(replace(FRESH, standing=after)) == TWO + DAY


def test_of_several_times_that_passed_only_the_last_is_started_and_all_are_on_record() -> None:
    back = Millis(TWO + 2 * DAY + HOUR)
    found = decide(FRESH, (), back)
    assert found.start == Start(due_ms=Millis(TWO + 2 * DAY))
    (missed,) = found.standing.runs
    assert (missed.outcome, missed.due_ms, missed.until_ms, missed.count) == (
        Outcome.MISSED,
        TWO,
        TWO + DAY,
        2,
    )
    assert missed.text == "The scheduler did not run at that time"


def test_a_year_of_minutes_is_one_entry() -> None:
    often = replace(FRESH, schedule=replace(NIGHTLY, cron="* * * * *"))
    now = Millis(BEGIN + 365 * DAY + 30_500)
    found = decide(often, (), now)
    assert found.start == Start(due_ms=Millis(now - 30_500))
    assert [run.count for run in found.standing.runs] == [1000]
    assert found.standing.runs[0].until_ms == now - 30_501


def test_times_of_the_first_pass_through_an_hour_are_over_in_the_second() -> None:
    # 02:10 came twice that night in Berlin; this is the second time.
    second = at("2026-10-25T01:10")
    assert next(cron_times.after("15 2 * * *", "Europe/Berlin", second)) == at("2026-10-26T01:15")


def test_what_is_later_than_its_deadline_is_missed_with_what_stood_in_the_way() -> None:
    strict = replace(FRESH, schedule=replace(NIGHTLY, starting_deadline_s=600))
    assert decide(strict, (), Millis(TWO + 600_000)).start is not None
    hindered = replace(strict, standing=Standing(hindrance="JupyterHub does not answer"))
    found = decide(hindered, (), Millis(TWO + 600_001))
    assert found.start is None
    (missed,) = found.standing.runs
    assert missed.text == "JupyterHub does not answer, and 10 min later it was too late"
    assert decide(replace(strict, standing=found.standing), (), Millis(TWO + HOUR)).start is None


@pytest.mark.parametrize(
    ("after_ms", "says"),
    [
        (1_500, "The scheduler came to it only 2 s later, and 1 s were allowed"),
        (15_001, "The scheduler did not run at that time, and 1 s later it was too late"),
    ],
)
def test_a_scheduler_that_looks_a_little_late_is_not_said_to_have_been_away(
    after_ms: int, says: str
) -> None:
    strict = replace(FRESH, schedule=replace(NIGHTLY, starting_deadline_s=1))
    (missed,) = decide(strict, (), Millis(TWO + after_ms)).standing.runs
    assert (missed.outcome, missed.text) == (Outcome.MISSED, says)


def test_the_full_stop_of_what_stood_in_the_way_does_not_stand_within_a_sentence() -> None:
    strict = replace(NIGHTLY, starting_deadline_s=20)
    away = hindered(Standing(), "JupyterHub does not answer.", TWO)
    found = decide(Scheduled(schedule=strict, standing=away), (), Millis(TWO + 25_000))
    (missed,) = found.standing.runs
    assert missed.text == "JupyterHub does not answer, and 20 s later it was too late"


def test_what_stood_in_the_way_of_one_time_is_no_reason_for_those_while_nobody_looked() -> None:
    away = hindered(Standing(), "JupyterHub does not answer.", TWO)
    found = decide(replace(FRESH, standing=away), (), Millis(TWO + 3 * DAY + HOUR))
    assert [(run.text, run.due_ms, run.count, run.until_ms) for run in found.standing.runs] == [
        ("JupyterHub does not answer", TWO, 1, None),
        ("The scheduler did not run at that time", TWO + DAY, 2, TWO + 2 * DAY),
    ]
    assert found.start == Start(due_ms=Millis(TWO + 3 * DAY))


def test_a_hub_that_starts_later_than_the_scheduler_is_not_blamed_for_its_stop() -> None:
    back = hindered(Standing(), "JupyterHub does not answer (ConnectError).", Millis(TWO + HOUR))
    back = hindered(back, "JupyterHub does not answer.", Millis(TWO + HOUR + 5000))
    (missed,) = decide(replace(FRESH, standing=back), (), Millis(TWO + DAY)).standing.runs
    assert missed.text == (
        "The scheduler did not run at that time, and then: JupyterHub does not answer"
    )


@pytest.mark.parametrize(
    ("concurrency", "start", "runs"),
    [
        (Concurrency.FORBID, None, [("skipped", TWO, 1)]),
        (Concurrency.ALLOW, Start(due_ms=TWO), []),
        (Concurrency.REPLACE, Start(due_ms=TWO, replaces=(JOB,)), []),
    ],
)
def test_a_run_that_still_goes_on_keeps_the_next_one_out_or_not(
    concurrency: Concurrency, start: Start | None, runs: list[tuple[str, int, int]]
) -> None:
    found = decide(replace(FRESH, schedule=replace(NIGHTLY, concurrency=concurrency)), {JOB}, TWO)
    assert (found.start, outcomes(found.standing)) == (start, runs)


def test_a_suspended_schedule_has_nothing_due_and_nothing_missed() -> None:
    suspended = replace(FRESH, schedule=replace(NIGHTLY, suspended=True))
    assert decide(suspended, (), Millis(TWO + 9 * DAY)) == decide(suspended, (), BEGIN)
    assert next_look_ms(suspended) is None


def test_a_run_that_is_asked_for_starts_beside_all_rules_and_takes_no_time_from_the_schedule() -> (
    None
):
    asked_ms = next_by_hand(Millis(TWO - 500))
    suspended = replace(NIGHTLY, suspended=True, asked_ms=asked_ms)
    for schedule in (suspended, replace(suspended, suspended=False)):
        scheduled = replace(FRESH, schedule=schedule)
        assert next_look_ms(scheduled) == asked_ms
        found = decide(scheduled, {JOB}, TWO)
        assert found.start == Start(due_ms=asked_ms)
        after = started(found.standing, found.start, TWO, job=WorkloadId("w-2"), name="nightly-2")
        assert [(run.by_hand, run.due_ms) for run in after.runs] == [(True, asked_ms)]
        then = replace(scheduled, standing=after)
        # The time of the schedule that has come meanwhile is still due, and by its own rules.
        assert decide(then, (), TWO).start == (None if schedule.suspended else Start(due_ms=TWO))
    held = replace(FRESH, schedule=replace(suspended, held=True))
    assert (decide(held, (), TWO).start, next_look_ms(held)) == (None, None)


def test_no_time_of_cron_is_taken_for_one_that_was_asked_for() -> None:
    for now in (TWO, TWO + 1, TWO + 59_999, TWO - 1):
        assert is_by_hand(next_by_hand(Millis(now)))
    assert not any(is_by_hand(one) for one in _all_until(NIGHTLY, Millis(TWO + 9 * DAY)))


def test_a_night_in_which_clocks_are_changed_has_one_run() -> None:
    spring = cron_times.after("30 2 * * *", "Europe/Berlin", at("2026-03-28T12:00"))
    assert [next(spring), next(spring)] == [at("2026-03-29T01:00"), at("2026-03-30T00:30")]
    autumn = cron_times.after("30 2 * * *", "Europe/Berlin", at("2026-10-24T12:00"))
    assert [next(autumn), next(autumn)] == [at("2026-10-25T00:30"), at("2026-10-26T01:30")]


@pytest.mark.parametrize(
    ("cron", "zone", "says"),
    [
        ("0 0 30 2 *", "UTC", "never comes: none of its months has that day"),
        ("0 0 31 4,6 *", "UTC", "never comes"),
        ("0 0 32 2 *", "UTC", "is not understood"),
        ("0 2 * *", "UTC", "has not five fields"),
        ("* * * * * *", "UTC", "has not five fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 2 * * *", "Mars/Base", "Write a name such as Europe/Berlin"),
        ("0 2 * * *", "../../etc/passwd", "There is no time zone"),
    ],
)
def test_what_is_no_time_is_refused_with_a_sentence(cron: str, zone: str, says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        cron_times.check(cron, zone, BEGIN)


@settings(max_examples=40, deadline=None)  # each asks cron for some thousand times
@given(
    cron=st.sampled_from(["*/7 * * * *", "0 * * * *", "30 2 * * *", "15 4 * * 1-5"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
    concurrency=st.sampled_from(Concurrency),
    deadline=st.sampled_from([None, 60, 7200]),
    steps=st.lists(
        st.tuples(
            # How long nobody looked, or by how much the clock was put back; whether an earlier run goes on,
            # and what the start comes to.
            st.integers(1, 3 * DAY) | st.integers(-2 * HOUR, -1),
            st.booleans(),
            st.sampled_from(["stored", "refused", "unavailable"]),
        ),
        max_size=8,
    ),
)
def test_no_time_is_unrecorded_and_none_is_started_twice(
    *,
    cron: str,
    zone: str,
    concurrency: Concurrency,
    deadline: int | None,
    steps: list[tuple[int, bool, str]],
) -> None:
    schedule = replace(
        NIGHTLY, cron=cron, time_zone=zone, concurrency=concurrency, starting_deadline_s=deadline
    )
    looks = _looks(steps)
    standing, now, starts = Standing(), looks[-1][0], []
    for at_ms, goes_on, comes_to in looks:
        scheduled = Scheduled(schedule=schedule, standing=standing)
        found = decide(scheduled, {JOB} if goes_on else (), at_ms)
        standing = found.standing
        if found.start is not None:
            due = found.start
            if comes_to == "stored":
                standing = started(standing, due, at_ms, job=JOB, name="nightly-1")
                starts.append(due.due_ms)
            elif comes_to == "refused":
                standing = record(standing, Outcome.REFUSED, due, at_ms, "no")
            else:
                standing = replace(standing, hindrance="later")
    assert len(starts) == len(set(starts))
    passed_by = [one for one in _all_until(schedule, now) if one <= standing.seen_ms]
    if len(standing.runs) < 100 and not any(run.count == 1000 for run in standing.runs):
        assert sum(run.count for run in standing.runs) == len(passed_by)
        spans = [(run.due_ms, run.until_ms or run.due_ms) for run in standing.runs]
        assert all(before[1] < after[0] for before, after in pairwise(spans))
    # What is not on record yet is at most the last time, which waits for what stands in its way.
    pending = [one for one in _all_until(schedule, now) if one > standing.seen_ms]
    assert len(pending) <= 1
    assert not pending or standing.hindrance


def _looks(steps: list[tuple[int, bool, str]]) -> list[tuple[Millis, bool, str]]:
    """When somebody looks, and what is there then; last of all at the latest moment that there was."""
    looks, now = [], BEGIN
    for passed, goes_on, comes_to in steps:
        now = Millis(max(BEGIN, now + passed))
        looks.append((now, goes_on, comes_to))
    latest = max((at_ms for at_ms, *_ in looks), default=BEGIN)
    return [*looks, (latest, False, "unavailable")]


def _all_until(schedule: Schedule, now: Millis) -> list[Millis]:
    found = []
    for one in cron_times.after(schedule.cron, schedule.time_zone, BEGIN):
        if one > now:
            break
        found.append(one)
    return found
