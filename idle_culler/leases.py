"""Candidates that matter: notebooks that hold a GPU, as the scheduler knows them.

The scheduler is asked for exactly those (never the hub for everybody), and once more for each one
right before its server is stopped: a cell started in the last second keeps its GPU.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from pydantic import BaseModel

from gpucommons.idle_culler.hub import StopsServers
from gpucommons.idle_culler.idle_limits import Rules
from gpucommons.idle_culler.loop import Act, Sleeps
from gpucommons.idle_culler.metrics import Metrics
from gpucommons.idle_culler.policy import (
    Activity,
    Cull,
    Decision,
    Hibernate,
    Keep,
    Occupant,
    Park,
    Release,
    Warn,
    decide,
    last_active_ms,
)
from gpucommons.scheduler.client import calls, parking_calls
from gpucommons.scheduler.errors import UnknownWorkload
from gpucommons.scheduler.models import (
    ActivityView,
    EndReport,
    HibernateRequest,
    IdleReport,
    IdleView,
    ParkRequest,
)
from gpucommons.scheduler.on_idle import OnIdle

R = TypeVar("R", bound=BaseModel)

log = logging.getLogger("gpucommons.culler")


class SendsCalls(Protocol):
    """The scheduler's asyncio client, or a fake of it."""

    async def send(self, call: calls.Call[R]) -> R:
        """Send a call."""
        ...


@dataclass(kw_only=True)
class Leases:
    """A source of the loop: decides about every lease and acts on the decisions."""

    scheduler: SendsCalls
    hub: StopsServers
    rules: Rules
    metrics: Metrics
    clock: Sleeps
    dry_run: bool = False
    #: Who holds a GPU, so that other sources leave them alone; None = not known right now.
    held: frozenset[tuple[str, str]] | None = None
    #: When each lease was last seen active. Reports live in the scheduler's memory only: after its
    #: restart "never seen" must not make an active notebook idle since its start.
    _seen_ms: dict[str, int] = field(default_factory=dict)
    _said: dict[str, str] = field(default_factory=dict)
    _now_ms: int = 0
    _now_at: float = 0.0
    _due_ms: int | None = None

    @property
    def due_in_s(self) -> float | None:
        """See :class:`Source`."""
        return None if self._due_ms is None else (self._due_ms - self._now()) / 1000

    async def acts(self) -> AsyncGenerator[Act]:
        """Warnings and timers first: they are quick, and late warnings delay everything else."""
        self.held = self._due_ms = None
        answer = await self.scheduler.send(calls.activities())
        self._now_ms, self._now_at = answer.now_ms, self.clock.monotonic()
        self._remember_only(answer.activities)
        decided = [(view, self._decide(view)) for view in answer.activities]
        self._tell(decided)
        if self.dry_run:
            return
        for view, decision in decided:
            if view.lease.state in {"hibernating", "parking"}:
                continue  # its server is at it: nothing is decided on a report any more
            if isinstance(decision, Keep | Warn) and _idle_report(decision) != _reported(view):
                yield partial(self._report, view, decision)
        for view, decision in decided:
            if isinstance(decision, Cull | Hibernate | Park | Release):
                yield partial(self._take_back, view)

    def _now(self) -> int:
        """The scheduler's clock, carried on by ours."""
        return self._now_ms + int((self.clock.monotonic() - self._now_at) * 1000)

    def _decide(self, view: ActivityView) -> Decision:
        lease_id, now_ms = view.lease.id, self._now()
        activity = activity_of(view, seen_ms=self._seen_ms.get(lease_id), now_ms=now_ms)
        limits = self.rules.of(pool=view.lease.pool, team=view.lease.team)
        decision = decide(activity, limits, now_ms)
        busy = isinstance(decision, Keep) and decision.reason.endswith("-busy")
        seen_ms = now_ms if busy else last_active_ms(activity)
        self._seen_ms[lease_id] = max(self._seen_ms.get(lease_id, 0), seen_ms)
        return decision

    def _remember_only(self, views: list[ActivityView]) -> None:
        live = {view.lease.id for view in views}
        self.held = frozenset((view.lease.user, view.lease.server_name) for view in views)
        self._seen_ms = {key: seen for key, seen in self._seen_ms.items() if key in live}
        self._said = {key: said for key, said in self._said.items() if key in live}

    def _tell(self, decided: list[tuple[ActivityView, Decision]]) -> None:
        """Log what changed, count everything, find out when to look again."""
        due = []
        for view, decision in decided:
            said = f"{type(decision).__name__} {decision.reason}"
            if self._said.get(view.lease.id) != said:
                self._said[view.lease.id] = said
                _log_decision(view, decision, dry_run=self.dry_run)
            if isinstance(decision, Keep):
                self.metrics.kept.labels(decision.reason).inc()
                due.append(decision.due_ms)
            elif isinstance(decision, Warn):
                due.append(decision.returns_ms)
        self._due_ms = min((moment for moment in due if moment is not None), default=None)
        self.metrics.unverified.set(sum(d.reason == "unverified" for _, d in decided))

    async def _report(self, view: ActivityView, decision: Keep | Warn) -> None:
        try:
            await self.scheduler.send(calls.report_idle(view.lease.id, _idle_report(decision)))
        except UnknownWorkload:
            return
        if isinstance(decision, Warn):
            self.metrics.warned.labels(decision.reason).inc()

    async def _take_back(self, listed: ActivityView) -> None:
        """Look again, then stop or release; what woke up in between is spared."""
        lease = listed.lease
        try:
            view = await self.scheduler.send(calls.activity(lease.id))
        except UnknownWorkload:
            return
        decision = self._decide(view)
        if isinstance(decision, Release):
            await self.scheduler.send(calls.drop(lease.id))
            self.metrics.released.labels(decision.reason).inc()
            log.info("%s released: %s", _label(view), decision.text)
        elif isinstance(decision, Hibernate):
            request = HibernateRequest(text=decision.text)
            await self.scheduler.send(calls.hibernate(lease.id, request))
            self.metrics.hibernated.labels(decision.reason).inc()
            log.info("%s hibernates: %s", _label(view), decision.text)
        elif isinstance(decision, Park):
            await self.scheduler.send(parking_calls.park(lease.id, ParkRequest(text=decision.text)))
            self.metrics.parked.labels(decision.reason).inc()
            log.info("%s is parked: %s", _label(view), decision.text)
        elif isinstance(decision, Cull):
            await self._cull(view, decision)
        else:
            self.metrics.spared.inc()
            _log_decision(view, decision, dry_run=False)

    async def _cull(self, view: ActivityView, decision: Cull) -> None:
        lease, checked_ms = view.lease, self._now()
        await self.hub.stop(lease.user, lease.server_name)
        try:
            last = await self.scheduler.send(calls.activity(lease.id))
            end = EndReport(why="culled", text=decision.text)
            await self.scheduler.send(calls.end_lease(lease.id, end))
        except UnknownWorkload:
            last = view
        self.metrics.culled.labels(decision.reason).inc()
        if _woke_up(last, checked_ms):
            self.metrics.false_culls.inc()
            log.error("%s was culled while it became active", _label(view))
        else:
            log.info("%s culled: %s", _label(view), decision.text)


def activity_of(view: ActivityView, *, seen_ms: int | None, now_ms: int) -> Activity:
    """What the policy decides on.

    ``seen_ms`` is when this culler last saw the lease active; None at its first look.
    """
    lease, idle = view.lease, view.lease.idle or IdleView()
    known = (idle.idle_since_ms, seen_ms, now_ms)
    return Activity(
        state=lease.state,
        since_ms=next(moment for moment in known if moment is not None),
        seen_ms=seen_ms,
        reported_ms=view.reported_ms,
        occupants=tuple(
            Occupant(
                kind=entry.kind,
                busy=entry.busy,
                last_active_ms=_not_after(entry.last_active_ms, now_ms),
            )
            for entry in view.kernels
        ),
        gpu_active_ms=_not_after(view.gpu_active_ms, now_ms),
        usage_ms=view.usage_ms,
        told_ms=idle.idle_since_ms,
        warned_ms=idle.warned_ms,
        returns_ms=idle.returns_ms,
        kept_until_ms=idle.kept_until_ms or 0,
        reclaimed=idle.reclaimed,
        on_idle=_on_idle(idle),
    )


def _on_idle(idle: IdleView) -> OnIdle:
    """What was chosen, where its server can do it: it keeps what it can all the same, if it stops."""
    if idle.on_idle == "release":
        return "release"
    if idle.on_idle == "park" and idle.parks and not idle.not_parked:
        return "park"
    may_save = idle.on_idle == "hibernate" or "hibernate" in idle.on_idle_allowed
    saves = idle.on_idle in {"park", "hibernate"} and idle.keeps == "kernels"
    return "hibernate" if saves and may_save else "cull"


def _not_after(moment_ms: int | None, now_ms: int) -> int | None:
    """What is dated to come, by a clock that is ahead, has happened by now."""
    return None if moment_ms is None else min(moment_ms, now_ms)


def _idle_report(decision: Keep | Warn) -> IdleReport:
    return IdleReport(idle_since_ms=decision.idle_since_ms, returns_ms=decision.returns_ms)


def _reported(view: ActivityView) -> IdleReport:
    """What the scheduler was last told."""
    idle = view.lease.idle or IdleView()
    return IdleReport(idle_since_ms=idle.idle_since_ms, returns_ms=idle.returns_ms)


def _woke_up(view: ActivityView, after_ms: int) -> bool:
    """Something happened after that moment: a newer report of a busy kernel, or GPU use."""
    busy = any(entry.busy for entry in view.kernels)
    reported = view.reported_ms is not None and view.reported_ms > after_ms
    gpu = view.gpu_active_ms is not None and view.gpu_active_ms > after_ms
    return (busy and reported) or gpu


def _label(view: ActivityView) -> str:
    lease = view.lease
    return f"{lease.user}/{lease.server_name}" if lease.server_name else lease.user


def _log_decision(view: ActivityView, decision: Decision, *, dry_run: bool) -> None:
    verbs = {
        Keep: "kept",
        Warn: "warned",
        Release: "to release",
        Hibernate: "to hibernate",
        Park: "to park",
    }
    verb = verbs.get(type(decision), "to cull")
    if dry_run and not isinstance(decision, Keep):
        verb = f"dry run, not {verb}"
    level = logging.WARNING if decision.reason == "unverified" else logging.INFO
    log.log(level, "%s %s: %s", _label(view), verb, decision.text)
