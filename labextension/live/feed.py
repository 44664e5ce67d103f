"""What the scheduler knows and this user may see, kept fresh for the tabs that are open.

One long-poll for events per server. Whatever they touch is read again and told when it changed;
while nobody looks, nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.live.fanout import Fanout, Message, Tab
from gpucommons.labextension.live.shown_jobs import SendsCalls, ShownJobs
from gpucommons.labextension.requests import AWAY, TIME_LIMITS_S
from gpucommons.labextension.server_context import ServerContext
from gpucommons.scheduler import models
from gpucommons.scheduler.client import calls
from gpucommons.scheduler.errors import NotFound, SchedulerError, Unavailable
from gpucommons.scheduler.threads.repeating import Troubles

log = logging.getLogger("gpucommons.labextension")

#: How long the scheduler may hold the question for events…
QUIET_WAIT_S = 20.0
#: …and while something runs or waits: progress and forecasts are no events.
LIVE_WAIT_S = 2.0
#: Of a team with many live jobs the whole list is read less often: that much more for each so many.
MANY_LIVE = 50
NEWS_REST_S = 0.5
#: An outage that is over shall not stay on the screen for longer.
LAST_PAUSE_S = 3.0
_CHANGES_BY_ITSELF = frozenset(
    {"queued", "nominated", "starting", "running", "preempting", "pausing"}
)
ODD = "The scheduler gave an answer that this notebook server cannot read. Tell an admin."
ALONE = "No GPU Commons scheduler here: this server was not started by its hub."


class Feed:
    """Keeps what every tab shows, and sends what changed."""

    def __init__(  # noqa: PLR0913 - who, for whom and with which clock
        self,
        scheduler: SendsCalls | None,
        fanout: Fanout,
        context: ServerContext,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        steady_s: Callable[[], float] = time.monotonic,
        on_jobs: Callable[[Sequence[models.JobView]], None] = lambda _jobs: None,
        keeps: models.Keeps = "nothing",
    ) -> None:
        """``keeps`` is what a stop keeps of kernels: ``kernels``, ``variables`` or ``nothing``."""
        self._keeps = keeps
        #: Called with each view of this server's lease.
        self.when_lease: Callable[[models.LeaseView | None], None] = lambda _lease: None
        self._on_jobs = on_jobs
        self._scheduler = scheduler
        self._fanout = fanout
        self._context = context
        self._jobs = ShownJobs(context.owner)
        self._sleep = sleep
        self._steady_s = steady_s
        self._read_at_s = 0.0
        #: Events came since everything was read.
        self._has_news = False
        self._whoami: dict[str, Any] | None = None
        self._known: dict[str, Message] = {}
        self._lease: models.LeaseView | None = None
        self._active_ms = 0
        self._cursor: int | None = None
        self._state = "none" if scheduler is None else "unreachable"
        self._trouble = ALONE if scheduler is None else "Asking the scheduler…"

    # --- what a tab gets ---------------------------------------------------------------------

    def hello(self) -> Message:
        """First message of every tab, and again when the scheduler comes or goes."""
        lease = self._known.get("lease", {}).get("lease")
        hello = {
            "type": "hello",
            "whoami": self._whoami,
            "lease": lease,
            "shared_account": self._context.shared_account,
            "keeps": self._keeps,
            "scheduler": self._state,
            "now_ms": wall_clock_ms(),
            "time_limits_s": list(TIME_LIMITS_S),
        }
        return hello if self._state == "ok" else {**hello, "message": self._trouble}

    @property
    def keeps(self) -> models.Keeps:
        """What a stop keeps of kernels, as far as it is known."""
        return self._keeps

    def say_keeps(self, keeps: models.Keeps) -> None:
        """What a stop keeps of kernels, where that is known only now."""
        self._keeps = keeps
        self._fanout.send(self.hello())

    def greet(self, tab: Tab) -> None:
        """Everything that is known already."""
        tab.put(self.hello())
        for message in self._known.values():
            tab.put(message)

    @property
    def lease(self) -> models.LeaseView | None:
        """This server's lease as the scheduler last told it."""
        return self._lease

    def take_lease(self, lease: models.LeaseView | None) -> None:
        """A newer view of this server's lease, from whoever got it."""
        self._lease = lease
        self.when_lease(lease)
        told = None if lease is None else _json(_not_idle(lease, since_ms=self._active_ms))
        self._tell("lease", {"lease": told})

    def take_activity(self, at_ms: int) -> None:
        """When something here was last at work: the culler looks at it later; 0 = ask only it."""
        self._active_ms = at_ms
        if self._lease is not None:
            self.take_lease(self._lease)

    async def refresh_soon(self) -> None:
        """Something was done through this server: show it without waiting for its event."""
        if self._scheduler is not None and self._state == "ok":
            await self._read_again(self._scheduler)

    # --- keeping it fresh --------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        if self._scheduler is None:
            return
        pause_s, troubles = 1.0, Troubles("a look at the scheduler")
        while True:
            await self._fanout.wait_until_occupied()
            try:
                await self._step(self._scheduler)
                pause_s = 1.0
                troubles.over()
            except Exception as error:  # noqa: BLE001 - an odd answer must not end what tabs show
                if isinstance(error, SchedulerError) and not isinstance(error, Unavailable):
                    self._say_state("unreachable", str(error))
                else:
                    # Which address and why is of use to who reads the server's log, not in the panel.
                    troubles.note(error)
                    self._say_state("unreachable", AWAY if isinstance(error, Unavailable) else ODD)
                self._cursor = None
                await self._sleep(pause_s)
                pause_s = min(LAST_PAUSE_S, pause_s * 2)

    async def _step(self, scheduler: SendsCalls) -> None:
        if self._cursor is None:
            whoami = await scheduler.send(calls.whoami())
            self._whoami = _json(whoami)
            self._cursor = (await scheduler.send(calls.events(newest=1))).last
            await self._read_again(scheduler)
            self._say_state("ok", "")
            return
        wait_s = min(QUIET_WAIT_S, max(0.0, self._due_s() - self._steady_s()))
        news = await scheduler.send(calls.events(after=self._cursor, wait_s=wait_s))
        self._cursor = news.last
        self._has_news = self._has_news or bool(news.events)
        if news.events:
            # As one message: a busy team's five hundred would be more than a tab's mailbox holds.
            self._fanout.send({"type": "events", "events": [_json(one) for one in news.events]})
        if self._steady_s() >= self._due_s():
            await self._read_again(scheduler)

    def _due_s(self) -> float:
        """When everything is to be read again: what one look costs goes by what there is to see."""
        live = self._count_live()
        if self._has_news:
            return self._read_at_s + NEWS_REST_S * (live // MANY_LIVE)
        if live:
            return self._read_at_s + min(QUIET_WAIT_S, LIVE_WAIT_S * max(1, live // MANY_LIVE))
        return math.inf

    async def _read_again(self, scheduler: SendsCalls) -> None:
        self._has_news = False
        try:
            jobs, teams, lease = await asyncio.gather(
                self._jobs.look(scheduler),
                scheduler.send(calls.teams()),
                self._read_lease(scheduler),
            )
        except Exception:
            self._has_news = True
            raise
        self._read_at_s = self._steady_s()
        self._on_jobs(jobs.final)
        self._tell("jobs", {"jobs": [_json(job) for job in (*jobs.live, *jobs.final)]})
        self._tell("teams", {"teams": [_json(team) for team in teams.teams]})
        self.take_lease(lease)

    async def _read_lease(self, scheduler: SendsCalls) -> models.LeaseView | None:
        try:
            return await scheduler.send(calls.my_lease(self._context.server_name))
        except NotFound:
            return None

    def _count_live(self) -> int:
        jobs = self._known.get("jobs", {}).get("jobs", [])
        return sum(job["state"] in _CHANGES_BY_ITSELF for job in jobs)

    def _tell(self, kind: str, content: Message) -> None:
        """Send what changed, keep it for tabs to come."""
        message = {"type": kind, **content}
        if self._known.get(kind) != message:
            self._known[kind] = message
            self._fanout.send(message)

    def _say_state(self, state: str, trouble: str) -> None:
        if (state, trouble) != (self._state, self._trouble):
            if state != self._state:
                log.info("scheduler %s %s", state, trouble)
            self._state, self._trouble = state, trouble
            self._fanout.send(self.hello())


def _not_idle(lease: models.LeaseView, *, since_ms: int) -> models.LeaseView:
    """The lease without an idleness that has ended since: nobody idles beside a running cell."""
    idle = lease.idle
    if idle is None or idle.idle_since_ms is None or idle.idle_since_ms >= since_ms:
        return lease
    active = {"idle_since_ms": None, "warned_ms": None, "returns_ms": None, "reclaimed": False}
    state = "active" if lease.state == "warned" else lease.state
    return lease.model_copy(update={"state": state, "idle": idle.model_copy(update=active)})


def _json(view: BaseModel) -> dict[str, Any]:
    return view.model_dump(mode="json")
