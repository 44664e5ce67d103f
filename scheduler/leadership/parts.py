"""What makes a scheduler one of several replicas."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import BadRequest
from gpucommons.scheduler.leadership.clock import SharedClock
from gpucommons.scheduler.leadership.election import Election, LeaseLock
from gpucommons.scheduler.store.base import Store

_AT = " at "


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """Its part in the election, and the time that it shares with the others."""

    election: Election
    clock: SharedClock
    #: Name and address, as the store remembers who leads.
    holder: str

    def start(self) -> None:
        """Take part."""
        self.clock.start()
        self.election.start()

    def resign(self, *, at_rest: Callable[[], bool]) -> None:
        """Give the lead up, if it is ours, once nothing is done in its name; follow from then on."""
        self.election.stop(at_rest=at_rest)

    def stop(self) -> None:
        """Give the lead up, if it is ours."""
        self.election.stop()
        self.clock.stop()


def join(
    lock: LeaseLock, store: Store, *, name: str, url: str, on_change: Callable[[], None]
) -> Replica:
    """Make the parts of one replica.

    Raises
    ------
    BadRequest
        When the store serves one scheduler alone.
    """

    def measured() -> Millis:
        found = store.now_ms()
        if found is None:
            raise BadRequest(ONE_SCHEDULER)
        return found

    # Never the same twice: a pod that was thought dead may still run under its old name.
    own_name = f"{name}-{secrets.token_hex(4)}"
    clock = SharedClock(measured)
    return Replica(
        election=Election(lock, own_name, on_change=on_change),
        clock=clock,
        holder=f"{own_name}{_AT}{url}",
    )


def address_of(holder: str) -> str | None:
    """Where the holder of the lead answers; None where it did not say."""
    _, found, url = holder.rpartition(_AT)
    return url if found and url else None


def name_of(holder: str) -> str:
    """What the holder of the lead was called when it was started, as its pod."""
    return holder.partition(_AT)[0].rpartition("-")[0]


ONE_SCHEDULER = (
    "Several replicas share a PostgreSQL: SQLite serves one scheduler. Leave --leader-election out, or"
    " give --store-url postgresql://…"
)
