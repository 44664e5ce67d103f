"""What to do about one notebook's GPU, decided purely: keep it, warn its user, take it back.

The rules lean to one side on purpose. Whatever is busy keeps its GPU for as long as it is busy,
however silent; what nobody can see is *unverified*, which is not idle; and nothing is ever taken
without a warning that stood for the whole lead time, also when the culler itself was away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpucommons.idle_culler.idle_limits import MINUTE_MS, Limits, duration
from gpucommons.scheduler.on_idle import OnIdle

#: Quiet for less than this is still "active" on screen: nobody wants a timer between two cells.
SETTLE_MS = 2 * MINUTE_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupant:
    """A kernel, terminal or child process of the notebook server."""

    kind: Literal["kernel", "terminal", "process"]
    busy: bool
    #: Last input, output or busy moment; None = never.
    last_active_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """All that is known of one lease. An open browser tab is not part of it, on purpose."""

    #: Lease state: ``granted``, ``active``, ``warned``, ``parking`` or ``hibernating``.
    state: str
    #: Since when silence counts where the GPU was never seen active.
    since_ms: int
    #: When the culler itself last saw it active; None = it looks for the first time.
    seen_ms: int | None = None
    #: The newest report of the server's extension; None = never one.
    reported_ms: int | None = None
    occupants: tuple[Occupant, ...] = ()
    #: When the slice last computed or grew its memory; None = never seen.
    gpu_active_ms: int | None = None
    #: When usage was last read; None = no telemetry.
    usage_ms: int | None = None
    #: Since when the scheduler was last told that it is idle; None = it was told of activity.
    told_ms: int | None = None
    #: When the user was last warned, and the time of return announced then.
    warned_ms: int | None = None
    returns_ms: int | None = None
    #: The user's *Keep 30 min*.
    kept_until_ms: int = 0
    #: The return announced is an admin's wish; a later *Keep* takes it away.
    reclaimed: bool = False
    #: What its user or pool chose, where its server can do that now.
    on_idle: OnIdle = "cull"


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """The notebook keeps its GPU."""

    #: Stable, for metrics: ``kernel-busy``, ``idle``, ``warned``, ``unverified``, …
    reason: str
    text: str
    idle_since_ms: int | None = None
    #: Set while a warning stands.
    returns_ms: int | None = None
    #: When the decision may change though nothing happens.
    due_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Warn:
    """Tell the user when the GPU will be returned."""

    reason: str
    text: str
    idle_since_ms: int
    returns_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """Restart the server without its device."""

    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Hibernate:
    """Have the server save its kernels and stop."""

    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Park:
    """Have the server move its GPU memory to the host."""

    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cull:
    """Stop the server."""

    reason: str
    text: str


Decision = Keep | Warn | Release | Hibernate | Park | Cull


def decide(activity: Activity, limits: Limits, now_ms: int) -> Decision:
    """The one rule book; see the module's sentence for its spirit."""
    if activity.state == "granted":
        return Keep(reason="starting", text="its server is starting")
    if activity.state == "parking":
        return Keep(reason="parking", text="its GPU memory goes to the host")
    if activity.state == "hibernating":
        return Keep(
            reason="hibernating", text="its server is stopping, its kernels are being saved"
        )
    if not _missing(activity.reported_ms, limits, now_ms):
        for occupant in activity.occupants:
            if occupant.busy:
                return Keep(reason=f"{occupant.kind}-busy", text=f"{occupant.kind} busy")
    return _decide_quiet(activity, limits, now_ms)


def last_active_ms(activity: Activity) -> int:
    """The newest moment at which anything was seen to happen."""
    gpu_ms = activity.gpu_active_ms
    return max(
        gpu_ms if gpu_ms is not None else activity.since_ms,
        activity.seen_ms or 0,
        *(occupant.last_active_ms or 0 for occupant in activity.occupants),
    )


def _missing(moment_ms: int | None, limits: Limits, now_ms: int) -> bool:
    return moment_ms is None or now_ms - moment_ms > limits.stale_after_ms


def _unseen_since_ms(activity: Activity, limits: Limits, now_ms: int) -> int | None:
    """Since when idleness cannot be told; None where both reports and readings are fresh."""
    lost = [
        moment if moment is not None else activity.since_ms
        for moment in (activity.reported_ms, activity.usage_ms)
        if _missing(moment, limits, now_ms)
    ]
    return min(lost) if lost else None


def _decide_quiet(activity: Activity, limits: Limits, now_ms: int) -> Decision:
    """Nothing is busy, or nothing is known."""
    since = last_active_ms(activity)
    unseen = _unseen_since_ms(activity, limits, now_ms)
    if unseen is None:
        return _after(
            activity, limits, now_ms, Quiet(since_ms=since, limit_ms=limits.idle_after_ms)
        )
    missing = _name_missing(activity, limits, now_ms)
    if limits.unverified_after_ms is None:
        text = Quiet(since_ms=since, limit_ms=0, missing=missing).doubt()
        asked = _reclaim_stands(activity)
        return Keep(
            reason="unverified",
            text=text,
            idle_since_ms=since if asked else _still_told_ms(activity, limits, now_ms),
            returns_ms=activity.returns_ms if asked else None,
        )
    quiet = Quiet(since_ms=max(since, unseen), limit_ms=limits.unverified_after_ms, missing=missing)
    return _after(activity, limits, now_ms, quiet)


def _still_told_ms(activity: Activity, limits: Limits, now_ms: int) -> int | None:
    """Idle since when, as last told, where a scheduler that began anew has not heard yet.

    It has nothing to say against what it was told before. That holds until a warning were due: by
    then it is not a moment's silence, and nobody is warned of what cannot be seen.
    """
    told_ms = activity.told_ms
    if told_ms is None or None not in (activity.reported_ms, activity.usage_ms):
        return None
    due_ms = max(told_ms + limits.idle_after_ms, activity.kept_until_ms)
    stands = last_active_ms(activity) <= told_ms and now_ms < due_ms - limits.lead_ms
    return told_ms if stands else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quiet:
    """A stretch of silence and how long it may last."""

    since_ms: int
    limit_ms: int
    #: What could not be seen; "" = everything was, it is truly idle.
    missing: str = ""

    @property
    def reason(self) -> str:
        """Stable, for metrics."""
        return "unverified" if self.missing else "idle"

    def doubt(self) -> str:
        """For people: why this is not idleness."""
        return f"{self.missing}: not idle, but unverified"

    def describe(self, length_ms: int) -> str:
        """For people: "idle 60 min"."""
        if self.missing:
            return f"{self.missing} for {duration(length_ms)}"
        return f"idle {duration(length_ms)}"


def _after(activity: Activity, limits: Limits, now_ms: int, quiet: Quiet) -> Decision:
    if _warning_stands(activity, quiet):
        return _when_warned(activity, limits, now_ms, quiet)
    due_ms = max(quiet.since_ms + quiet.limit_ms, activity.kept_until_ms)
    warn_ms = due_ms - limits.lead_ms
    text = quiet.describe(now_ms - quiet.since_ms)
    if now_ms >= warn_ms:
        returns_ms = max(due_ms, now_ms + limits.lead_ms)
        return Warn(
            reason=quiet.reason, text=text, idle_since_ms=quiet.since_ms, returns_ms=returns_ms
        )
    if quiet.missing:
        told_ms = _still_told_ms(activity, limits, now_ms)
        return Keep(reason=quiet.reason, text=quiet.doubt(), idle_since_ms=told_ms, due_ms=warn_ms)
    if now_ms - quiet.since_ms < min(SETTLE_MS, limits.warn_after_ms // 2):
        return Keep(reason="active", text="active a moment ago", due_ms=warn_ms)
    if now_ms < activity.kept_until_ms:
        return Keep(
            reason="kept-by-user",
            text=f"{text}, kept by its user",
            idle_since_ms=quiet.since_ms,
            due_ms=warn_ms,
        )
    return Keep(reason=quiet.reason, text=text, idle_since_ms=quiet.since_ms, due_ms=warn_ms)


def _warning_stands(activity: Activity, quiet: Quiet) -> bool:
    """Nothing happened since the warning, and the user did not ask for more time since."""
    return _reclaim_stands(activity) or (
        activity.warned_ms is not None
        and activity.returns_ms is not None
        and activity.warned_ms >= quiet.since_ms
        and activity.returns_ms >= activity.kept_until_ms
    )


def _reclaim_stands(activity: Activity) -> bool:
    """An admin asked, and nothing was seen since: that nobody can look for a while is no answer."""
    warned_ms = activity.warned_ms
    if not activity.reclaimed or warned_ms is None or activity.returns_ms is None:
        return False
    return last_active_ms(activity) <= warned_ms


def _when_warned(activity: Activity, limits: Limits, now_ms: int, quiet: Quiet) -> Decision:
    """Cull at the announced time, never earlier. An admin's reclaim announces an earlier one.

    A reclaim also overrides what was kept before it: a later *Keep* has taken its warning away.
    """
    assert activity.warned_ms is not None  # noqa: S101 - what _warning_stands has seen
    assert activity.returns_ms is not None  # noqa: S101 - what _warning_stands has seen
    kept_ms = 0 if activity.reclaimed else activity.kept_until_ms
    due_ms = max(kept_ms, activity.returns_ms, activity.warned_ms + limits.lead_ms)
    if quiet.missing:
        # The warning may be one of idleness, given when everything could still be seen.
        due_ms = max(due_ms, quiet.since_ms + quiet.limit_ms)
    text = quiet.describe(now_ms - quiet.since_ms)
    if now_ms < due_ms:
        return Keep(
            reason="unverified" if quiet.missing else "warned",
            text=quiet.doubt() if quiet.missing else f"{text}, warned",
            idle_since_ms=min(quiet.since_ms, activity.warned_ms),
            returns_ms=activity.returns_ms,
            due_ms=due_ms,
        )
    if activity.reclaimed:
        text = f"{text}, and an admin asked for its GPU"
    if activity.on_idle == "hibernate":
        return Hibernate(reason=quiet.reason, text=text)
    if activity.on_idle == "park":
        return Park(reason=quiet.reason, text=text)
    if activity.on_idle == "release":
        return Release(reason=quiet.reason, text=text)
    return Cull(reason=quiet.reason, text=text)


def _name_missing(activity: Activity, limits: Limits, now_ms: int) -> str:
    report = _missing(activity.reported_ms, limits, now_ms)
    usage = _missing(activity.usage_ms, limits, now_ms)
    if report and usage:
        return "neither report nor GPU reading"
    return "no activity report" if report else "no GPU reading"
