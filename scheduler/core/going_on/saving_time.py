"""Whether saving a job's processes takes no longer than it may.

The one rule for who saves them at the stop and for whoever says before what a stop costs. Saving may
take half of the grace at most, so that SIGTERM still finds the other half; or a quarter, where what
saves is slow to let go of the processes.
"""

from __future__ import annotations

from gpucommons.scheduler.amount_words import size_words

#: Preparing it, stopping the processes, writing the description: not a matter of their memory.
ALWAYS_MS = 500
_MIB = 1 << 20
#: Of the grace that is recommended: the order takes its time, and memory grows.
_MARGIN_PERCENT = 10


def save_ms(memory_mib: int, mib_per_s: int) -> int:
    """How long saving so much memory takes on a disk of that speed."""
    return ALWAYS_MS + transfer_ms(memory_mib, mib_per_s)


def transfer_ms(memory_mib: int, mib_per_s: int) -> int:
    """How long writing or reading alone takes."""
    return memory_mib * 1000 // max(1, mib_per_s)


def may_take_ms(grace_ms: int) -> int:
    """How much of a grace a save may take."""
    return max(0, grace_ms) // 2


def may_let_go_ms(grace_ms: int) -> int:
    """How much of a grace a save that comes too late may take to let go of the processes.

    They hear SIGTERM only after it: what is left then is theirs.
    """
    return max(0, grace_ms) // 4


def most_mib(grace_ms: int, mib_per_s: int) -> int:
    """So much memory is saved in time."""
    return max(0, may_take_ms(grace_ms) - ALWAYS_MS) * mib_per_s // 1000


def too_long(memory_mib: int, mib_per_s: int, grace_ms: int) -> str:
    """Why that takes longer than it may, as a clause with what would help; empty where it does not."""
    need_ms, may_ms = save_ms(memory_mib, mib_per_s), may_take_ms(grace_ms)
    if need_ms <= may_ms:
        return ""
    half = f"{may_ms / 1000:.1f}".removesuffix(".0")
    enough_s = _whole_s(2 * need_ms * (100 + _MARGIN_PERCENT) // 100)
    return (
        f"saving its {size_words(memory_mib * _MIB)} of memory would take {_whole_s(need_ms)} s at"
        f" {mib_per_s} MiB/s, and half of its grace is {half} s (a grace of {enough_s} s or more would"
        " save it)"
    )


def _whole_s(length_ms: int) -> int:
    return -(-length_ms // 1000)
