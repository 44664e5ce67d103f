"""Requests that change something, beside the loop: a dozen at a time, each at most once at a time.

Where thousands of jobs start at once, what ends work or lets pods go does not wait until all others are
made, and what is left of those that ended is removed when that is over: each removal costs the API server
as much as a start.
An order that failed because the API server is away is simply due again; one that was refused is told
to whoever gave it, and not taken again for a while.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum

from gpucommons.scheduler.executors.kubernetes.api_server.connection import ApiError
from gpucommons.scheduler.executors.kubernetes.api_server.refusals import Refusals

_LOG = logging.getLogger(__name__)

#: The API server's own work, not ours, is what takes the time.
_AT_ONCE = 12
#: Nothing else was ordered for so long: there is room to tidy…
_QUIET_S = 2.0
#: …and so long it waits at most.
_LONGEST_WAIT_S = 60.0
#: What is left by then is due again when somebody leads.
_FINISH_S = 5.0

Done = Callable[[ApiError | None], None]


class Turn(IntEnum):
    """What goes before what; within one turn the first comes first."""

    #: Somebody waits for it: a stop, a pod that is let go.
    FIRST = 0
    #: The beginning of something new.
    NEW = 1
    #: What is left of something that is over: given here, done at a quiet moment.
    TIDY = 2


@dataclass(frozen=True, slots=True)
class _Later:
    since_s: float
    work: Callable[[], None]
    done: Done


class Orders:
    """Carries out what is ordered."""

    def __init__(
        self,
        *,
        at_once: int = _AT_ONCE,
        leading: Callable[[], bool] = lambda: True,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leading = leading
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="cluster")
        self._lock = threading.Lock()
        self._flying: set[Hashable] = set()
        #: Answers that are being told; what is told may order the same again.
        self._telling = 0
        self._waiting: list[tuple[Turn, int, Hashable, Callable[[], None], Done]] = []
        self._later: dict[Hashable, _Later] = {}
        self._now_s = now_s
        self._busy_s = now_s() - _QUIET_S
        self._numbers = itertools.count()
        self._closed = False
        self._complaints: set[str] = set()
        self._refusals = Refusals(now_s)

    def flying(self, key: Hashable) -> bool:
        """Whether this is ordered and not answered."""
        with self._lock:
            return key in self._flying

    @property
    def idle(self) -> bool:
        """Nothing is under way, and whoever ordered has heard of it."""
        with self._lock:
            return not self._flying and not self._telling

    def give(
        self, key: Hashable, work: Callable[[], None], done: Done, *, turn: Turn = Turn.FIRST
    ) -> bool:
        """Have it done unless it is under way or was just refused; ``done`` hears of it, from another thread."""
        with self._lock:
            if key in self._flying or self._closed or self._refusals.rests(key):
                return False
            if turn is Turn.TIDY:
                self._later.setdefault(key, _Later(self._now_s(), work, done))
            else:
                self._busy_s = self._now_s()
                self._queue(turn, key, work, done)
        return True

    def _queue(self, turn: Turn, key: Hashable, work: Callable[[], None], done: Done) -> None:
        self._flying.add(key)
        # The number is unlike any other: what follows it is never compared.
        heapq.heappush(self._waiting, (turn, next(self._numbers), key, work, done))
        self._pool.submit(self._carry_out_next)

    def tidy(self) -> None:
        """Now and then: begin what can wait, where nothing else is to be done or it waited long."""
        with self._lock:
            now_s = self._now_s()
            quiet = not self._flying and now_s - self._busy_s >= _QUIET_S
            latest_s = now_s if quiet else now_s - _LONGEST_WAIT_S
            due = [key for key, later in self._later.items() if later.since_s <= latest_s]
            for key in due if not self._closed else ():
                later = self._later.pop(key)
                self._queue(Turn.TIDY, key, later.work, later.done)

    def _carry_out_next(self) -> None:
        with self._lock:
            _, _, key, work, done = heapq.heappop(self._waiting)
        self._carry_out(key, work, done)

    def _carry_out(self, key: Hashable, work: Callable[[], None], done: Done) -> None:
        error: ApiError | None = None
        try:
            # It may have waited its turn longer than the lead lasted.
            if self._leading():
                work()
            else:
                error = ApiError(0, "NotLeading", "It is left to the replica that leads now.")
        except ApiError as refused:
            error = refused
            self._say(refused)
        except Exception as failed:  # noqa: BLE001 - whatever it was, it is due again
            _LOG.exception("an order to the cluster failed")
            error = ApiError(0, "Failed", str(failed))
        finally:
            with self._lock:
                self._flying.discard(key)
                self._telling += 1
                self._refusals.note(key, error)
            closed = self._closed
        try:
            if not closed:
                done(error)
        finally:
            with self._lock:
                self._telling -= 1

    def _say(self, error: ApiError) -> None:
        """Once per kind of trouble: thousands of pods would say the same."""
        said = f"{error.status} {error.reason}"
        if error.try_again and said not in self._complaints:
            self._complaints.add(said)
            _LOG.warning("the cluster does not take an order: %s", error.message)
        elif not error.try_again:
            _LOG.info("the cluster refused an order (%s): %s", said, error.message)

    def close(self) -> None:
        """Finish what is ordered, as far as that takes no time; nothing new is taken."""
        self._closed = True
        give_up_s = time.monotonic() + _FINISH_S
        while not self.idle and time.monotonic() < give_up_s:
            time.sleep(0.02)
        self._pool.shutdown(wait=True, cancel_futures=True)
