"""Notebooks that hold GPUs, the most idle-held GPU·hours first, and what *Reclaim* may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler.languages.texts import gettext, gettext_noop, ngettext
from gpucommons.scheduler.models import ActivityList, ActivityView, IdleView, LeaseView
from gpucommons.scheduler.models.notebooks.activity import RECENT_MS
from gpucommons.scheduler.pages.present import words

#: What keeps a notebook busy.
_AT_WORK = {
    "kernel": gettext_noop("kernel"),
    "terminal": gettext_noop("terminal"),
    "process": gettext_noop("process"),
}
_HOUR_MS = 3_600_000
_SECOND_MS = 1000
_MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleRow:
    """One notebook that holds a GPU."""

    lease_id: str
    owner: str
    server: str
    team: str
    share: str
    where: str
    idle_gpu_h: str
    #: ``idle about 41 min``, ``in use``, ``not reported yet: …``.
    state: str
    #: For the style: ``idle``, ``busy``, ``unverified``, ``active``.
    mark: str
    gpu_percent: str
    last_active_ms: int | None
    busy: bool
    busy_with: str
    more_time: str
    returns_ms: int | None
    #: "Its server is stopped. Kernels that can be saved are kept …"; empty = not known.
    then: str
    #: What its user gets to know, and may do, where it is asked for now.
    asks: str


def idle_rows(activities: ActivityList) -> tuple[IdleRow, ...]:
    """All holders; idle ones first, by GPU·hours held without use."""
    now_ms = activities.now_ms
    ordered = sorted(
        activities.activities, key=lambda item: (-_idle_milli_gpu_h(item, now_ms), item.lease.user)
    )
    return tuple(_row(item, now_ms) for item in ordered)


def idle_count(rows: Sequence[IdleRow]) -> int:
    """How many are idle right now: the number beside the tab."""
    return sum(row.mark == "idle" for row in rows)


def reclaimed_text(lease: LeaseView, *, forced: bool, now_ms: int) -> str:
    """What a reclaim has done, for the admin who asked."""
    who = words.person(lease.user)
    said = {"who": who, "share": format_milli_gpu(lease.milli_gpu)}
    if forced:
        return gettext(
            "%(who)s's %(share)s GPU is being returned now: the notebook is stopped."
            " Your reason is kept for %(who)s.",
            **said,
        )
    if lease.state in ("released", "ended"):
        return gettext("%(who)s's %(share)s GPU is being returned now.", **said)
    idle = lease.idle or IdleView()
    said |= {"at": words.clock(idle.warned_ms or now_ms), "left": _left(lease, now_ms)}
    if _may_keep(lease):
        return gettext(
            "Announced at %(at)s: %(who)s's %(share)s GPU is returned in %(left)s unless they keep"
            " it or start to work.",
            **said,
        )
    return gettext(
        "Announced at %(at)s: %(who)s's %(share)s GPU is returned in %(left)s unless they start to"
        " work.",
        **said,
    )


def _left(lease: LeaseView, now_ms: int) -> str:
    """How long its user has: the whole warning, or what is left of the one that stands."""
    idle = lease.idle or IdleView()
    left_ms = _after_ms(idle) - _warned_after_ms(idle)
    if idle.returns_ms is not None:
        left_ms = min(left_ms, max(0, idle.returns_ms - now_ms))
    return words.left(left_ms)


def _may_keep(lease: LeaseView) -> bool:
    return lease.idle is not None and lease.idle.keeps_left > 0


def _asks(lease: LeaseView, now_ms: int) -> str:
    left = _left(lease, now_ms)
    if _may_keep(lease):
        return gettext(
            "It is announced to them now: the GPU is returned in %(left)s unless they keep it or"
            " start to work.",
            left=left,
        )
    return gettext(
        "It is announced to them now: the GPU is returned in %(left)s unless they start to work.",
        left=left,
    )


def _idle_milli_gpu_h(item: ActivityView, now_ms: int) -> int:
    since_ms = item.idle_since_ms()
    if since_ms is None:
        return 0
    return item.lease.milli_gpu * max(0, now_ms - since_ms) // _HOUR_MS


def _row(item: ActivityView, now_ms: int) -> IdleRow:
    lease, idle = item.lease, item.lease.idle
    busy = [kernel for kernel in item.kernels if kernel.busy]
    mark, state = _state(item, bool(busy), now_ms)
    return IdleRow(
        lease_id=lease.id,
        owner=words.person(lease.user),
        server=lease.server_name,
        team=lease.team,
        share=format_milli_gpu(lease.milli_gpu),
        where=lease.slice.node if lease.slice else lease.pool,
        idle_gpu_h=words.gpu_hours(_idle_milli_gpu_h(item, now_ms)),
        state=state,
        mark=mark,
        gpu_percent=_percent(item, now_ms),
        last_active_ms=_last_active_ms(item, busy=bool(busy)),
        busy=bool(busy),
        busy_with=", ".join(sorted({gettext(_AT_WORK.get(one.kind, one.kind)) for one in busy})),
        more_time="" if idle is None else _more_time(idle, now_ms),
        returns_ms=_returns_ms(idle) if mark == "idle" or (idle and idle.returns_ms) else None,
        then="" if idle is None else idle.on_idle_text,
        asks=_asks(lease, now_ms),
    )


def _last_active_ms(item: ActivityView, *, busy: bool) -> int | None:
    """What was seen; where nothing was, since when that is so. None where nobody looked.

    Of an idle one it is what its idleness counts from: two columns must not say two things.
    """
    if not busy and item.reported_ms is not None and (since_ms := item.idle_since_ms()) is not None:
        return since_ms
    seen = [kernel.last_active_ms for kernel in item.kernels]
    seen += [item.gpu_active_ms, item.reported_ms if busy else None]
    if seen.count(None) == len(seen) and item.reported_ms is not None:
        seen = [item.lease.started_ms]
    return max((at for at in seen if at is not None), default=None)


def _returns_ms(idle: IdleView | None) -> int | None:
    """As announced; before that, by the rule, if nothing happens until then."""
    if idle is None or idle.returns_ms is not None or idle.idle_since_ms is None:
        return None if idle is None else idle.returns_ms
    return max(idle.idle_since_ms + _after_ms(idle), idle.kept_until_ms or 0)


def _after_ms(idle: IdleView) -> int:
    seconds = idle.idle_after_s
    return idle.idle_after_min * _MINUTE_MS if seconds is None else seconds * _SECOND_MS


def _warned_after_ms(idle: IdleView) -> int:
    seconds = idle.warn_after_s
    return idle.warn_after_min * _MINUTE_MS if seconds is None else seconds * _SECOND_MS


def _percent(item: ActivityView, now_ms: int) -> str:
    if item.compute_percent_p95 is None:
        return gettext("no data")
    if item.usage_ms is not None and now_ms - item.usage_ms > RECENT_MS:
        return gettext("unknown since %(span)s ago", span=words.about(now_ms - item.usage_ms))
    return f"{item.compute_percent_p95} %"


def _more_time(idle: IdleView, now_ms: int) -> str:
    """What *Keep 30 min* gave its user, and how often it may still be pressed."""
    left, until_ms = idle.keeps_left, idle.kept_until_ms
    again = (
        ngettext("may ask once more", "may ask %(num)s more times", left)
        if left
        else gettext("may not ask again")
    )
    if until_ms is not None and until_ms > now_ms and not idle.reclaimed:
        asked = gettext("asked: %(span)s left", span=words.duration(until_ms - now_ms))
        return f"{asked}, {again}"
    return again


def _state(item: ActivityView, busy: bool, now_ms: int) -> tuple[str, str]:
    idle = item.lease.idle or IdleView()
    since = item.idle_since_ms()
    if item.reported_ms is None and since is not None:
        # What was last stored: the scheduler began anew a moment ago.
        was = words.about(now_ms - since)
        return "unverified", gettext(
            "not reported yet; at its last report idle since %(span)s ago", span=was
        )
    if item.reported_ms is None:
        return "unverified", gettext("not reported yet: counts as in use")
    if busy:
        return _busy(item.reported_ms, is_now=item.is_in_use(now_ms), now_ms=now_ms)
    if since is None and not item.is_in_use(now_ms):
        return "unverified", gettext("not known")
    if since is None:
        return "active", gettext("in use")
    spent = gettext("idle %(span)s", span=words.about(now_ms - since))
    reclaimed = gettext("reclaimed")
    return "idle", f"{spent}, {reclaimed}" if idle.reclaimed else spent


def _busy(reported_ms: int, *, is_now: bool, now_ms: int) -> tuple[str, str]:
    """What was busy at a report that is old by now may have ended since."""
    if is_now:
        return "busy", gettext("busy")
    was = words.about(now_ms - reported_ms)
    return "unverified", gettext("unknown since %(span)s ago; busy at its last report", span=was)
