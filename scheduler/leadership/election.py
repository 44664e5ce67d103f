"""Who of several schedulers leads: one lease, taken and renewed, and given up in time.

Clocks of other machines are never compared with ours. Whoever does not lead watches the lease
*change*, and counts from the moment at which it saw the last change; whoever leads counts from
before its last successful renewal. As a leader stops (5 s) well before anybody may take over (8 s),
a clock that runs a tenth too fast or slow does no harm, and one that is hours off none at all.

This alone keeps two from *believing* for long that they lead. That two never *write* is the store's
part: a new leader begins a new epoch there, and every commit of an older one fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from gpucommons.scheduler.errors import Conflict, Unavailable
from gpucommons.scheduler.threads.repeating import repeat

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How long a lease is good for, how long its holder may go without renewing it, and the pause
    between two tries.
    """

    lease_s: float = 8.0
    renew_s: float = 5.0
    retry_s: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """What stands in the lease. Times in it are for people: nothing is decided on them."""

    #: "" = given up.
    holder: str
    lease_s: float
    #: Counts changes of holder.
    transitions: int = 0
    acquired_ms: int = 0
    #: Renewals; with the holder it makes two contents of the lease differ.
    renewed_ms: int = 0


class LeaseLock(Protocol):
    """Where the lease is kept. A write succeeds only on the version that was read."""

    def get(self) -> tuple[Lease, str] | None:
        """The lease and its version; None when there is none. Raises ``Unavailable``."""
        ...

    def create(self, lease: Lease) -> str:
        """Make it; returns its version. Raises ``Conflict`` when somebody was first."""
        ...

    def update(self, lease: Lease, version: str) -> str:
        """Replace it; returns the new version. Raises ``Conflict`` on another version."""
        ...


def steady_s() -> float:
    """Seconds that never jump, and go on while the machine or this process sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """The two times of this machine: one to count by, one to show."""

    steady_s: Callable[[], float] = steady_s
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Election:
    """One candidate. :meth:`start` runs it in a thread, :meth:`step` by hand."""

    def __init__(
        self,
        lock: LeaseLock,
        name: str,
        *,
        terms: Terms | None = None,
        clock: Clock | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._lock = lock
        self._terms = terms or Terms()
        clock = clock or Clock()
        self._steady, self._wall_ms = clock.steady_s, clock.wall_ms
        self._on_change = on_change
        #: The lease as it was seen to change last, its version, and when that was, by our clock.
        self._seen: tuple[Lease, str] | None = None
        self._seen_s = 0.0
        #: Until then we lead, by our clock.
        self._until_s = 0.0
        #: When a turn of this replica came to its end last; since when none does, if one failed.
        self._well_s = self._steady()
        self._ails_since_s: float | None = None
        self._led = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained = ""

    def leads(self) -> bool:
        """Whether we lead at this moment."""
        return self._steady() < self._until_s

    def holder(self) -> str:
        """Who led when we last looked; "" when nobody did."""
        return "" if self._seen is None else self._seen[0].holder

    def resign(self) -> None:
        """Lead no more until the lease is renewed: somebody else has written to the store."""
        self._until_s = 0.0
        self._tell()

    def works(self, well: bool) -> None:
        """Whether this replica's last turn came to its end; for longer than a lease it may not."""
        if well:
            self._well_s, self._ails_since_s = self._steady(), None
        else:
            # Not since it failed: one with nothing to do finds out late.
            self._ails_since_s = self._well_s

    # --- one try -----------------------------------------------------------------------------

    def step(self) -> None:
        """Look, and take or renew the lease if that may be done."""
        began_s = self._steady()
        ails_since_s = self._ails_since_s
        if ails_since_s is not None and began_s - ails_since_s > self._terms.lease_s:
            # What we hold runs out by itself, and nobody waits for longer than its length.
            self._complain("this replica cannot work: it leaves the lead to others until it can")
            self._tell()
            return
        try:
            held: bool | None = self._try(began_s)
        except Conflict:
            # Somebody wrote meanwhile: the next look shows who. Until then what we hold we hold.
            held = None
        except Unavailable as error:
            self._complain(f"the lease cannot be looked at: {error}")
            held = None
        if held:
            self._complained = ""
            self._until_s = began_s + self._terms.renew_s
        elif held is False:
            self._until_s = 0.0
        self._tell()

    def _try(self, now_s: float) -> bool:
        found = self._lock.get()
        if found is None:
            lease = self._mine(None)
            self._see((lease, self._lock.create(lease)), now_s)
            return True
        if self._seen is None or self._seen[1] != found[1]:
            self._see(found, now_s)
        lease, version = found
        if lease.holder not in ("", self.name) and now_s < self._seen_s + lease.lease_s:
            return False
        mine = self._mine(lease)
        self._see((mine, self._lock.update(mine, version)), now_s)
        return True

    def _mine(self, before: Lease | None) -> Lease:
        now_ms = self._wall_ms()
        if before is not None and before.holder == self.name:
            return replace(before, lease_s=self._terms.lease_s, renewed_ms=now_ms)
        return Lease(
            holder=self.name,
            lease_s=self._terms.lease_s,
            transitions=0 if before is None else before.transitions + 1,
            acquired_ms=now_ms,
            renewed_ms=now_ms,
        )

    def _see(self, found: tuple[Lease, str], now_s: float) -> None:
        self._seen, self._seen_s = found, now_s

    def _tell(self) -> None:
        leads = self.leads()
        if leads != self._led:
            self._led = leads
            _LOG.info("%s %s", self.name, "leads" if leads else "does not lead any more")
            self._on_change()

    def _complain(self, text: str) -> None:
        if text != self._complained:
            self._complained = text
            _LOG.warning("%s", text)

    # --- running -----------------------------------------------------------------------------

    def start(self) -> None:
        """Take part from now on, in a thread."""
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        repeat(
            self.step,
            what="a look at the lease",
            pause_s=self._terms.retry_s,
            stopping=self._stopping,
        )

    def stop(self, *, at_rest: Callable[[], bool] = lambda: True) -> None:
        """Take part no more, and give the lease up, so that nobody has to wait for its end.

        Not before we are at rest: what is done in the name of the lead is over. Where that does not
        come, the lease runs out by itself.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        held, self._until_s = self.leads(), 0.0
        self._tell()
        if held and self._seen is not None and at_rest():
            lease, version = self._seen
            try:
                self._lock.update(replace(lease, holder="", lease_s=1.0), version)
            except (Conflict, Unavailable) as error:
                _LOG.info("the lease was not given up: %s", error)
