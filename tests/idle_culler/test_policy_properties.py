"""Whatever happens, in whatever order, and however often the culler itself is away."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpucommons.idle_culler.idle_limits import MINUTE_MS, Limits
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
moments = st.none() | st.integers(START - 10**9, START + 10**9)
occupants = st.lists(
    st.builds(
        Occupant,
        kind=st.sampled_from(["kernel", "terminal", "process"]),
        busy=st.booleans(),
        last_active_ms=moments,
    ),
    max_size=4,
).map(tuple)
activities = st.builds(
    Activity,
    state=st.sampled_from(["granted", "active", "warned"]),
    since_ms=st.integers(START - 10**9, START),
    seen_ms=moments,
    reported_ms=moments,
    occupants=occupants,
    gpu_active_ms=moments,
    usage_ms=moments,
    warned_ms=moments,
    returns_ms=moments,
    kept_until_ms=st.integers(0, START + 10**9),
    reclaimed=st.booleans(),
    on_idle=st.sampled_from(["hibernate", "release", "cull"]),
)
limits = st.builds(
    Limits,
    idle_after_ms=st.integers(2, 10**7),
    warn_after_ms=st.just(1),
    stale_after_ms=st.integers(1, 10**6),
    unverified_after_ms=st.none() | st.integers(10**7, 10**9),
)


@given(activities, limits, st.integers(START, START + 10**9))
def test_taking_back_needs_silence_sight_and_a_warning(
    activity: Activity, limits: Limits, now_ms: int
) -> None:
    decision = decide(activity, limits, now_ms)
    if not isinstance(decision, Cull | Hibernate | Release):
        return
    assert activity.state != "granted"
    assert activity.warned_ms is not None
    assert now_ms - activity.warned_ms >= limits.lead_ms
    assert activity.returns_ms is not None
    assert now_ms >= activity.returns_ms
    assert activity.reclaimed or now_ms >= activity.kept_until_ms
    newest = max(
        [activity.gpu_active_ms or 0, *(o.last_active_ms or 0 for o in activity.occupants)]
    )
    assert newest <= activity.warned_ms
    if decision.reason == "unverified":
        assert limits.unverified_after_ms is not None
        assert now_ms - newest >= limits.unverified_after_ms
    else:
        assert activity.reported_ms is not None
        assert now_ms - activity.reported_ms <= limits.stale_after_ms
        assert not any(occupant.busy for occupant in activity.occupants)


@given(activities, limits, st.integers(START, START + 10**9))
def test_what_is_freshly_reported_busy_is_kept(
    activity: Activity, limits: Limits, now_ms: int
) -> None:
    busy = replace(activity, reported_ms=now_ms, occupants=(Occupant(kind="kernel", busy=True),))
    assert isinstance(decide(busy, limits, now_ms), Keep)


@given(activities, limits, st.integers(START, START + 10**9))
def test_a_warning_always_leaves_the_whole_lead(
    activity: Activity, limits: Limits, now_ms: int
) -> None:
    decision = decide(activity, limits, now_ms)
    if isinstance(decision, Warn):
        assert decision.returns_ms >= now_ms + limits.lead_ms
        assert decision.idle_since_ms <= now_ms


@dataclass
class World:
    """A notebook and the scheduler's record of it, minute by minute."""

    activity: Activity
    active_until: int = 0
    warned_at: int | None = None

    def see(self, minute: int, *, active: bool) -> None:
        now_ms = START + minute * MINUTE_MS
        last = START + self.active_until * MINUTE_MS
        if active:
            self.active_until, last = minute, now_ms
        self.activity = replace(
            self.activity,
            reported_ms=now_ms,
            usage_ms=now_ms,
            occupants=(Occupant(kind="kernel", busy=active, last_active_ms=last),),
        )

    def obey(self, decision: object, now_ms: int) -> None:
        if isinstance(decision, Warn):
            self.warned_at = now_ms
            self.activity = replace(
                self.activity, state="warned", warned_ms=now_ms, returns_ms=decision.returns_ms
            )
        elif isinstance(decision, Keep) and decision.returns_ms is None:
            self.activity = replace(self.activity, state="active", warned_ms=None, returns_ms=None)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(["busy", "idle", "away"]), st.integers(1, 90)), max_size=12)
)
def test_no_story_ends_in_a_false_cull_and_idleness_always_ends(
    story: list[tuple[str, int]],
) -> None:
    world = World(
        activity=Activity(state="active", since_ms=START, gpu_active_ms=START, usage_ms=START)
    )
    minute = 0
    for what, length in [*story, ("idle", 130)]:
        for _ in range(length):
            minute += 1
            world.see(minute, active=what == "busy")
            if what == "away":
                continue
            now_ms = START + minute * MINUTE_MS
            decision = decide(world.activity, LIMITS, now_ms)
            if isinstance(decision, Cull):
                assert minute - world.active_until >= 60
                assert world.warned_at is not None
                assert now_ms - world.warned_at >= LIMITS.lead_ms
                return
            world.obey(decision, now_ms)
    raise AssertionError("idle for 130 minutes and still there")
