from dataclasses import replace

import pytest

from gpucommons.idle_culler.idle_limits import MINUTE_MS, Limits, duration
from gpucommons.idle_culler.policy import (
    Activity,
    Cull,
    Hibernate,
    Keep,
    Occupant,
    Release,
    Warn,
    decide,
)

START = 1_800_000_000_000
LIMITS = Limits()


def at(minute: float) -> int:
    return START + int(minute * MINUTE_MS)


def quiet(now: float, **changes: object) -> Activity:
    """Nothing has happened since minute 0; report and reading are fresh."""
    base = Activity(
        state="active",
        since_ms=START,
        reported_ms=at(now),
        occupants=(Occupant(kind="kernel", busy=False, last_active_ms=START),),
        gpu_active_ms=START,
        usage_ms=at(now),
    )
    return replace(base, **changes)  # type: ignore[arg-type] # the tests name real fields


def warned(now: float, **changes: object) -> Activity:
    return quiet(now, state="warned", warned_ms=at(50), returns_ms=at(60), **changes)


def test_idle_49_minutes_is_kept_with_a_running_timer() -> None:
    decision = decide(quiet(49), LIMITS, at(49))
    assert decision == Keep(reason="idle", text="idle 49 min", idle_since_ms=START, due_ms=at(50))


def test_idle_50_minutes_is_warned_with_the_time_of_return() -> None:
    decision = decide(quiet(50), LIMITS, at(50))
    assert decision == Warn(
        reason="idle", text="idle 50 min", idle_since_ms=START, returns_ms=at(60)
    )


def test_warned_and_idle_60_minutes_is_culled() -> None:
    assert decide(warned(60), LIMITS, at(60)) == Cull(reason="idle", text="idle 60 min")


def test_warned_but_not_yet_due_waits_for_the_announced_time() -> None:
    decision = decide(warned(59), LIMITS, at(59))
    assert isinstance(decision, Keep)
    assert (decision.reason, decision.returns_ms, decision.due_ms) == ("warned", at(60), at(60))


def test_what_was_chosen_for_an_idle_notebook_is_what_becomes_of_it() -> None:
    said = {"reason": "idle", "text": "idle 60 min"}
    assert decide(warned(60, on_idle="release"), LIMITS, at(60)) == Release(**said)
    assert decide(warned(60, on_idle="hibernate"), LIMITS, at(60)) == Hibernate(**said)


@pytest.mark.parametrize("state", ["hibernating", "parking"])
def test_a_server_that_is_saving_or_parking_its_kernels_is_left_alone(state: str) -> None:
    activity = replace(warned(60), state=state)
    decision = decide(activity, LIMITS, at(600))
    assert isinstance(decision, Keep)
    assert decision.reason == state


@pytest.mark.parametrize("kind", ["kernel", "terminal", "process"])
def test_what_is_busy_is_kept_however_silent_and_warned(kind: str) -> None:
    occupants = (Occupant(kind=kind, busy=True, last_active_ms=START),)  # type: ignore[arg-type]
    decision = decide(warned(600, occupants=occupants), LIMITS, at(600))
    assert decision == Keep(reason=f"{kind}-busy", text=f"{kind} busy")


def test_gpu_use_without_a_busy_kernel_is_activity() -> None:
    decision = decide(warned(60, gpu_active_ms=at(59)), LIMITS, at(60))
    assert isinstance(decision, Keep)
    assert decision.reason == "active"


def test_recent_input_restarts_the_hour() -> None:
    occupants = (Occupant(kind="kernel", busy=False, last_active_ms=at(55)),)
    decision = decide(warned(60, occupants=occupants), LIMITS, at(60))
    assert decision == Keep(reason="idle", text="idle 5 min", idle_since_ms=at(55), due_ms=at(105))


def test_a_warning_before_the_last_activity_counts_for_nothing() -> None:
    occupants = (Occupant(kind="kernel", busy=False, last_active_ms=at(55)),)
    decision = decide(warned(115, occupants=occupants), LIMITS, at(115))
    assert decision == Warn(
        reason="idle", text="idle 60 min", idle_since_ms=at(55), returns_ms=at(125)
    )


def test_a_culler_that_was_away_warns_first_and_waits_the_whole_lead() -> None:
    decision = decide(quiet(300), LIMITS, at(300))
    assert isinstance(decision, Warn)
    assert decision.returns_ms == at(310)
    late = quiet(309, state="warned", warned_ms=at(300), returns_ms=at(310))
    assert isinstance(decide(late, LIMITS, at(309)), Keep)
    due = quiet(310, state="warned", warned_ms=at(300), returns_ms=at(310))
    assert isinstance(decide(due, LIMITS, at(310)), Cull)


def test_keep_30_min_withdraws_the_warning_until_it_ends() -> None:
    kept = {"kept_until_ms": at(82), "state": "active"}
    early = decide(quiet(60, **kept), LIMITS, at(60))
    assert isinstance(early, Keep)
    assert (early.reason, early.due_ms) == ("kept-by-user", at(72))
    again = decide(quiet(72, **kept), LIMITS, at(72))
    assert isinstance(again, Warn)
    assert again.returns_ms == at(82)


def test_a_warning_older_than_the_keep_never_culls() -> None:
    activity = warned(82, kept_until_ms=at(82))
    assert isinstance(decide(activity, LIMITS, at(82)), Warn)


def test_an_admins_reclaim_is_carried_out_at_its_announced_time() -> None:
    activity = quiet(36, state="warned", warned_ms=at(35), returns_ms=at(45))
    decision = decide(activity, LIMITS, at(36))
    assert isinstance(decision, Keep)
    assert (decision.reason, decision.returns_ms) == ("warned", at(45))
    later = quiet(45, state="warned", warned_ms=at(35), returns_ms=at(45))
    assert decide(later, LIMITS, at(45)) == Cull(reason="idle", text="idle 45 min")


def reclaimed(now: float, **changes: object) -> Activity:
    """Kept at minute 22 until 52; at minute 30 an admin asks for it."""
    asked = {"state": "warned", "warned_ms": at(30), "returns_ms": at(40), "reclaimed": True}
    return quiet(now, kept_until_ms=at(52), **(asked | changes))


def test_an_admins_reclaim_overrides_what_was_kept_before_it() -> None:
    decision = decide(reclaimed(31), LIMITS, at(31))
    assert isinstance(decision, Keep)
    assert (decision.reason, decision.returns_ms) == ("warned", at(40))
    text = "idle 40 min, and an admin asked for its GPU"
    assert decide(reclaimed(40), LIMITS, at(40)) == Cull(reason="idle", text=text)


@pytest.mark.parametrize("limits", [LIMITS, Limits(unverified_after_ms=None)])
@pytest.mark.parametrize(
    "unseen",
    [
        {"reported_ms": None, "occupants": ()},
        {"reported_ms": None, "occupants": (), "usage_ms": None, "gpu_active_ms": None},
        {"usage_ms": at(31)},
    ],
)
def test_an_admins_reclaim_outlasts_a_time_without_telemetry(
    limits: Limits, unseen: dict[str, object]
) -> None:
    decision = decide(reclaimed(45, **unseen), limits, at(45))
    assert isinstance(decision, Keep)
    assert (decision.reason, decision.returns_ms) == ("unverified", at(40))
    assert isinstance(decide(reclaimed(46), limits, at(46)), Cull)


def test_who_works_again_has_answered_an_admins_reclaim() -> None:
    decision = decide(reclaimed(41, gpu_active_ms=at(38)), LIMITS, at(41))
    assert isinstance(decision, Keep)
    assert decision.returns_ms is None


def test_a_restarted_scheduler_without_reports_ends_no_warned_notebook() -> None:
    activity = warned(60, reported_ms=None, occupants=())
    assert decide(activity, LIMITS, at(60)).reason == "unverified"


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ({"reported_ms": None}, "no activity report"),
        ({"usage_ms": None}, "no GPU reading"),
        ({"reported_ms": at(90), "usage_ms": at(96.9)}, "neither report nor GPU reading"),
    ],
)
def test_what_cannot_be_seen_is_unverified_not_idle(missing: dict[str, int], text: str) -> None:
    decision = decide(warned(100, **missing), LIMITS, at(100))
    assert isinstance(decision, Keep)
    assert decision.reason == "unverified"
    assert decision.text == f"{text}: not idle, but unverified"


def test_a_stale_busy_report_is_unverified() -> None:
    occupants = (Occupant(kind="kernel", busy=True),)
    decision = decide(quiet(100, reported_ms=at(96), occupants=occupants), LIMITS, at(100))
    assert decision.reason == "unverified"


def test_unverified_ends_after_the_admins_maximum_and_a_warning() -> None:
    day = 24 * 60
    lost = {"reported_ms": at(0)}
    assert isinstance(decide(quiet(day - 11, **lost), LIMITS, at(day - 11)), Keep)
    warning = decide(quiet(day - 10, **lost), LIMITS, at(day - 10))
    assert isinstance(warning, Warn)
    assert warning.reason == "unverified"
    due = quiet(day, **lost, state="warned", warned_ms=at(day - 10), returns_ms=at(day))
    assert decide(due, LIMITS, at(day)) == Cull(
        reason="unverified", text="no activity report for 1440 min"
    )


def test_without_a_maximum_unverified_is_held_for_ever() -> None:
    limits = Limits(unverified_after_ms=None)
    activity = warned(10**6, reported_ms=None)
    assert isinstance(decide(activity, limits, at(10**6)), Keep)


def test_gpu_use_verifies_what_sends_no_report() -> None:
    activity = quiet(24 * 60, reported_ms=None, gpu_active_ms=at(24 * 60 - 1))
    decision = decide(activity, LIMITS, at(24 * 60))
    assert isinstance(decision, Keep)


def test_a_gpu_never_seen_active_counts_from_where_silence_is_known() -> None:
    activity = quiet(100, gpu_active_ms=None, since_ms=at(70))
    decision = decide(activity, LIMITS, at(100))
    assert decision == Keep(reason="idle", text="idle 30 min", idle_since_ms=at(70), due_ms=at(120))


def test_a_starting_server_is_kept() -> None:
    assert decide(quiet(600, state="granted"), LIMITS, at(600)).reason == "starting"


@pytest.mark.parametrize(
    "fields",
    [
        {"warn_after_ms": 60 * MINUTE_MS},
        {"warn_after_ms": 0},
        {"unverified_after_ms": 10 * MINUTE_MS},
        {"stale_after_ms": 0},
    ],
)
def test_impossible_limits_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="warning"):
        Limits(**fields)  # type: ignore[arg-type] # the tests name real fields


def test_durations_read_well() -> None:
    assert [duration(n) for n in (12_000, 3_600_000, 172_800_000)] == ["12 s", "60 min", "48 h"]
