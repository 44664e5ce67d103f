"""Whether a stop of this server is the one after which its user wants nothing kept. Pure."""

from __future__ import annotations

from gpucommons.scheduler.models import LeaseView

#: A server's clock and the scheduler's may differ by so much.
_CLOCKS_MS = 5_000


def keeps_nothing(lease: LeaseView | None, now_ms: int) -> bool:
    """Whether this stop ends an idle notebook of which its user, or its pool, wants nothing kept.

    Any other stop keeps what it can: only what the warning has announced is held to.
    """
    idle = None if lease is None else lease.idle
    if lease is None or idle is None or lease.state != "warned" or idle.returns_ms is None:
        return False
    if idle.reclaimed:  # by an admin, who chose nothing for its user
        return False
    return idle.on_idle == "cull" and now_ms >= idle.returns_ms - _CLOCKS_MS
