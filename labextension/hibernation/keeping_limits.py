"""Which kernels may be saved, for how long they are kept, how much disk stays free: pure, so that every case can be tested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpucommons.scheduler.amount_words import size_words

DAY_MS = 24 * 3600 * 1000
_GIB = 1 << 30
#: The disk is left so much, since images stay there for days beside a user's notebooks: a full one hurts
#: more than a lost variable. At the save itself `gpu.hibernation.inside.checks_before_save` asks for less:
#: there it counts alone that the write does not fail.
SPARE_DISK_BYTES = 1 << 30
#: Environment of the server, set by whoever has a policy for it.
SWITCH, DAYS, SIZE = (
    "GPUCOMMONS_HIBERNATE_KERNELS",
    "GPUCOMMONS_KERNELS_KEPT_DAYS",
    "GPUCOMMONS_KERNELS_KEPT_GIB",
)
DEFAULT_DAYS, DEFAULT_GIB = 21, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What an admin allows."""

    days: int = DEFAULT_DAYS
    #: Of all kernels of a user's servers together.
    most_bytes: int = DEFAULT_GIB * _GIB

    @property
    def over(self) -> str:
        """What is said of a kernel after that."""
        if self.days == 1:
            return "It was kept for one day, and that is over."
        return f"It was kept for {self.days} days, and they are over."

    def kept_until_ms(self, saved_ms: int) -> int:
        """Until when a kernel is kept."""
        return saved_ms + self.days * DAY_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A kernel that could be saved now."""

    kernel_id: str
    #: Its processes' memory: its image is no larger.
    bytes: int
    last_activity: str


def limits_of(
    environ: Mapping[str, str], *, pool_days: int | None = None, pool_gib: int | None = None
) -> tuple[bool, Limits]:
    """Whether kernels are to be kept, and within which limits: the least of those that are said.

    What is no number counts as unset, and a pool that says nothing leaves it to the server's settings.
    """
    limits = Limits(
        days=_least(_number(environ.get(DAYS)), pool_days, DEFAULT_DAYS),
        most_bytes=_least(_number(environ.get(SIZE)), pool_gib, DEFAULT_GIB) * _GIB,
    )
    return environ.get(SWITCH, "1") != "0" and limits.days > 0, limits


def refused(
    candidates: Iterable[Candidate], limits: Limits, *, free_bytes: int, elsewhere_bytes: int = 0
) -> dict[str, str]:
    """Who cannot be kept, and why in a sentence; what was used last is kept first.

    ``elsewhere_bytes`` are kept of other servers of this user.
    """
    room, disk = limits.most_bytes - elsewhere_bytes, free_bytes - SPARE_DISK_BYTES
    reasons = {}
    for one in sorted(candidates, key=lambda each: each.last_activity, reverse=True):
        if one.bytes > room:
            reasons[one.kernel_id] = (
                f"Its memory ({size_words(one.bytes)}) is more than what may be kept"
                f" ({size_words(limits.most_bytes)} for all kernels of your servers)."
            )
        elif one.bytes > disk:
            reasons[one.kernel_id] = (
                f"The disk has no room for its memory ({size_words(one.bytes)})."
            )
        else:
            room, disk = room - one.bytes, disk - one.bytes
    return reasons


def _least(own: int | None, of_pool: int | None, default: int) -> int:
    return min((one for one in (own, of_pool) if one is not None), default=default)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
