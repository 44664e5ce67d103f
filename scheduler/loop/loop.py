"""The one thread that decides: intents and observations in, one commit, then acts.

Of several replicas one leads; the others' threads follow what it commits, so that they answer
requests from the same state and can go on from it at any moment.

The order is what makes a crash harmless at any point. What is asked is durable before it is
decided; what is decided is durable before it is done; what is done is idempotent and repeated until
its effect is on record. Only the leader writes; one that lost the lead follows, or ends where nobody
told it whether it leads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpucommons.gpu.slices.usage import UsageMinute
from gpucommons.scheduler.core.advance import advance, recalled
from gpucommons.scheduler.core.model.state import Cluster, Observation, Outcome, ProgressReported
from gpucommons.scheduler.core.model.types import AttemptId, Millis, WorkloadId
from gpucommons.scheduler.errors import LeaderLost, Unavailable
from gpucommons.scheduler.executors.base import Executor
from gpucommons.scheduler.leadership.base import Leadership
from gpucommons.scheduler.loop.acting import Acting, ServerActs, current_attempts
from gpucommons.scheduler.loop.after_restore import Clocks, reconcile
from gpucommons.scheduler.loop.core_step import Advance, Step
from gpucommons.scheduler.loop.inbox import Inbox, points_of
from gpucommons.scheduler.loop.minute_records import MinuteRecords
from gpucommons.scheduler.loop.monotonic_clock import OnwardClock
from gpucommons.scheduler.loop.retention import Retention
from gpucommons.scheduler.store.base import Epoch, LogPoint, Mirror, Store
from gpucommons.scheduler.threads.alarm import Alarm
from gpucommons.scheduler.threads.pulse import Pulse

_LOG = logging.getLogger(__name__)

#: Most intents that one cycle takes.
MAX_INTENTS = 1_000
#: Executors are asked so often while something runs, and while nothing does.
BUSY_S, IDLE_S = 1.0, 5.0
#: After a failure: a full disk or a database that restarts.
RETRY_S = 1.0
#: Progress reports of many jobs share a cycle.
PROGRESS_S = 0.25
#: A follower looks by itself so often, and not more often than that whatever it hears.
FOLLOW_S, _BREATH_S = 1.0, 0.05
#: For each second of a turn so many of rest, in which what is asked and seen gathers: a burst of
#: thousands would otherwise be decided one by one, each time with all of them in sight.
_REST, _LONGEST_REST_S = 3.0, 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """All that the loop works with."""

    store: Store
    executors: Mapping[str, Executor]
    now: Callable[[], Millis]
    new_ids: Iterator[str]
    token_of: Callable[[AttemptId], str]
    #: As jobs' processes reach the API.
    api_url: str
    #: Starts and stops notebook servers; called repeatedly while due, from the loop's thread.
    on_server_act: ServerActs = lambda _act, _workload: None
    #: Usage minutes that start later than a time, of all nodes; None while they are being asked, for
    #: which nobody waits: it wakes the loop.
    usage: Callable[[Millis], Sequence[UsageMinute] | None] = lambda _after_ms: ()
    #: How long history is kept; None = for ever.
    retention_ms: int | None = None
    #: Name of this scheduler, for the one that finds it leading.
    holder: str = "scheduler"
    #: None = the one scheduler of its store: it always leads.
    leadership: Leadership | None = None
    advance: Advance = advance
    #: A clock that nobody sets, to see whether the thread still turns.
    steady_s: Callable[[], float] = time.monotonic


class Loop:
    """Decides as long as it leads. :meth:`start` runs it in a thread, :meth:`cycle` by hand."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._acting = Acting(
            executors=around.executors,
            token_of=around.token_of,
            api_url=around.api_url,
            on_server_act=around.on_server_act,
        )
        self._minute_records = MinuteRecords(around.store, self._measured)
        self._ledger = self._minute_records.ledger
        self._retention = Retention(store=around.store, retention_ms=around.retention_ms)
        self._clock = OnwardClock(around.now, around.steady_s)
        self._epoch, self._cluster = Epoch(0), Cluster()
        self._leading = self._stale = False
        self._mirror: Mirror | None = None
        #: Held while what is committed and what is shown may differ.
        self._showing = threading.RLock()
        self._deaf: Callable[[], None] = lambda: None
        self._inbox = Inbox()
        #: Tell somebody each time which points were written, from the loop's thread.
        self.follow_curves = self._inbox.followers.append
        self._alarm = Alarm()
        self._callbacks: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._lost: LeaderLost | None = None
        #: Set while nothing is done in the name of a lead.
        self._at_rest = threading.Event()
        self._at_rest.set()
        #: Whether the thread turns, and whether that comes to anything.
        self.pulse = Pulse(around.steady_s)

    # --- for everyone else, from any thread --------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """What the last cycle committed."""
        return self._cluster

    @property
    def leading(self) -> bool:
        """Whether this scheduler decides and acts, and not another replica."""
        leadership = self._around.leadership
        return self._leading and (leadership is None or leadership.leads())

    @property
    def may_act(self) -> bool:
        """Whether no other replica acts by now: also while the lead is being taken."""
        leadership = self._around.leadership
        return self._lost is None and (leadership is None or leadership.leads())

    def now(self) -> Millis:
        """The time by which is decided; what is asked is stamped with it, too."""
        return self._clock(self._cluster.now_ms)

    def catch_up(self) -> None:
        """Have :attr:`cluster` show at least what is committed at this moment."""
        with self._showing:
            if not self._leading and self._mirror is not None:
                self._cluster = self._mirror.refresh()

    @property
    def epoch(self) -> Epoch:
        """Under which other records of the leader are written."""
        return self._epoch

    @property
    def lost(self) -> LeaderLost | None:
        """Set when another scheduler has taken over and this loop has ended."""
        return self._lost

    def wake(self) -> None:
        """There is something to decide."""
        self._alarm.within(0)

    def observe(self, observation: Observation) -> None:
        """Something happened; it is on record when :attr:`cluster` shows it.

        Raises
        ------
        Unavailable
            On a replica that does not lead: only the leader can put it on record.
        """
        if self._around.leadership is not None and not self._leading:
            raise Unavailable("Another replica leads; try again in a moment.")
        self._inbox.put(observation)
        self._alarm.within(PROGRESS_S if isinstance(observation, ProgressReported) else 0)

    def keep_points(self, workload_id: WorkloadId, points: Sequence[LogPoint]) -> None:
        """Points of a job's curve were read: the next cycle writes them."""
        self._inbox.put_points(workload_id, points)
        self._alarm.within(PROGRESS_S)

    def keeps_points(self, workload_id: WorkloadId) -> bool:
        """Points of a job's curve were read that the store has not got yet."""
        return self._inbox.has_points(workload_id)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each commit, from the loop's thread; returns what ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    # --- running -----------------------------------------------------------------------------

    def start(self) -> None:
        """Take the lead, adopt what runs, and decide from now on in a thread.

        Of several replicas each begins as a follower.
        """
        if self._around.leadership is None:
            self.open()
        else:
            self._follow()
            self._deaf = self._around.store.listen(self._heard)
        self.pulse.begin()
        self._thread = threading.Thread(target=self._run, name="scheduler-loop", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Take the lead and reconcile the store with what runs.

        Raises
        ------
        Unavailable
            When another scheduler holds the store.
        """
        around = self._around
        self._at_rest.clear()
        self._epoch = around.store.take_lead(around.holder)
        with self._showing:
            self._cluster = around.store.load()
        clocks = Clocks(now=self.now, steady_s=around.steady_s, wait=self._stopping.wait)
        for gone in reconcile(around.store, self._acting, self._cluster, clocks):
            self._inbox.put(gone)
        self._ledger.resume(self._cluster, self.now())
        self._leading, self._stale, self._mirror = True, False, None

    def at_rest(self, patience_s: float) -> bool:
        """Whether, within that time, nothing is done any more in the name of a lead that is over."""
        return self._at_rest.wait(patience_s)

    def stop(self) -> None:
        """End the thread after its current cycle; what runs keeps running."""
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()
        self._leading = False
        self._deaf()
        self._acting.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            began_s = self._around.steady_s()
            try:
                self._alarm.within(self._turn())
                took_s = self._turned(well=True) - began_s
                self._stopping.wait(min(_LONGEST_REST_S, _REST * took_s))
                self._alarm.wait()
            except LeaderLost as error:
                self._step_down(error)
            except Exception:  # noqa: BLE001 - a full disk, a database that restarts: never an end
                _LOG.exception("This cycle failed; the next one starts from the store.")
                self._stale = True
                self._turned(well=False)
                # Not by the alarm: what failed would fail again at every wake.
                self._stopping.wait(RETRY_S)
            self.pulse.rested()
        self._tell()

    def _turned(self, *, well: bool) -> float:
        if self._around.leadership is not None:
            self._around.leadership.works(well)
        return self.pulse.turned(well=well)

    # --- leading and following ---------------------------------------------------------------

    def _turn(self) -> float:
        """Decide or follow, whichever is ours now; returns after how many seconds to look again."""
        leadership = self._around.leadership
        if leadership is None:
            return self.cycle()
        if leadership.leads():
            if not self._leading:
                self.open()
                _LOG.info("%s leads from epoch %d on", self._around.holder, self._epoch)
            return self.cycle()
        if self._leading:
            raise LeaderLost("The lease ran out: this replica follows from now on.")
        self._follow()
        return FOLLOW_S

    def _follow(self) -> None:
        before = self._cluster
        with self._showing:
            self._mirror = self._mirror or self._around.store.mirror()
            self._cluster = self._mirror.refresh()
        if self._cluster is not before:
            self._tell()
        # Commits come many times a second; requests that wait for one are not kept long.
        self._stopping.wait(_BREATH_S)

    def _step_down(self, error: LeaderLost) -> None:
        leadership = self._around.leadership
        if leadership is None:
            _LOG.critical("%s", error)
            self._lost = error
            self._stopping.set()
            return
        _LOG.warning("%s", error)
        leadership.resign()
        self._leading = False
        self._acting.rest()
        self._at_rest.set()
        self._inbox.clear()
        self._alarm.within(0)

    def _heard(self, kind: str) -> None:
        """Another replica was asked something, or has committed."""
        if self._leading == (kind == "asked"):
            self.wake()

    def _still_lead(self, outcome: Outcome) -> None:
        """Nothing is done in the name of a lead that is over.

        Raises
        ------
        LeaderLost
            What was decided is left to whoever leads now.
        """
        leadership = self._around.leadership
        if leadership is None or not outcome.actions:
            return
        if outcome.changes.empty:
            # Else its commit has asked.
            self._around.store.check_lead(self._epoch)
        if not leadership.leads():
            raise LeaderLost("The lease ran out before anything was done.")

    # --- one cycle ---------------------------------------------------------------------------

    def cycle(self) -> float:
        """See, decide, commit, act. Returns after how many seconds the next one is due.

        Raises
        ------
        LeaderLost
            When another scheduler has taken over: nothing was written.
        """
        if self._stale:
            self._catch_up()
        around, before, now_ms = self._around, self._cluster, self.now()
        ends, told = self._acting.see(before, now_ms), self._inbox.peek()
        seen = (*told, *ends)
        asked = around.store.asked(MAX_INTENTS)
        known = recalled(before, asked.intents, around.store.workload)
        step = Step(advance=around.advance, cluster=known, now_ms=now_ms, new_ids=around.new_ids)
        outcome = step.take_what_is_sound(asked.intents, seen, refused=asked.unreadable)
        self._commit(outcome, seen)
        self._inbox.drop(len(told))
        self._acting.forget_ended(seen, before, outcome.cluster)
        self._still_lead(outcome)
        self._acting.perform(outcome.actions, outcome.cluster, now_ms)
        self._minute_records.write_due(self._epoch, self._cluster, now_ms)
        self._retention.prune_due(self._epoch, self._cluster, now_ms)
        return self._next_s(outcome, full=asked.count >= MAX_INTENTS)

    def _catch_up(self) -> None:
        """After a failure nobody knows whether its commit was written: the store does."""
        # It may be about to be written still. This waits for it, as it needs what that holds.
        self._around.store.check_lead(self._epoch)
        self._cluster = self._around.store.load()
        self._acting.look_again()
        self._stale = False

    def _commit(self, outcome: Outcome, seen: Sequence[Observation]) -> None:
        store, changes = self._around.store, outcome.changes
        self._inbox.write_points(store, self._epoch, points_of(self._cluster, seen))
        if changes.empty:
            self._cluster = outcome.cluster
            return
        closing = self._ledger.closing(self._cluster, changes.workloads, changes.now_ms)
        if closing.rows:
            # Before the commit: afterwards a final workload is not looked at again.
            store.add_ledger(self._epoch, closing.rows, closing.lost)
        with self._showing:
            store.commit(self._epoch, changes)
            self._cluster = outcome.cluster
        self._tell()

    def _tell(self) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback()
            except Exception:  # noqa: BLE001 - a subscriber's trouble is its own
                _LOG.exception("A subscriber failed.")

    def _measured(self, after_ms: Millis) -> Sequence[UsageMinute] | None:
        try:
            return self._around.usage(after_ms)
        except Exception:  # noqa: BLE001 - rows without usage are right, only poorer
            _LOG.exception("Usage cannot be read; this minute's is left out.")
            return ()

    def _next_s(self, outcome: Outcome, *, full: bool) -> float:
        if full or self._acting.refused_something():
            return 0.0
        delay_s = BUSY_S if current_attempts(outcome.cluster) else IDLE_S
        minute_ms = None if self._ledger.asking else self._ledger.due_at_ms()
        due = [one for one in (outcome.wake_ms, minute_ms) if one is not None]
        return min([delay_s, *(max(0, one - self.now()) / 1000 for one in due)])
