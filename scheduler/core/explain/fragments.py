"""Free GPU time that lies in pieces: enough for a job together, and nowhere in one."""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.capacity_arrays import free_pieces
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Workload
from gpucommons.scheduler.core.packing.rows import Ints

_SENTENCE: Entry[tuple[int, PoolName, HoldClass | None], str] = Entry(
    "free GPU time in pieces, in words", Fact.REFRESHED, Fact.CAPACITY
)


def held(cycle: CycleState, workload: Workload) -> str:
    """``3 half-free GPUs, none whole`` where that is what a job for one GPU waits for.

    What is held now counts, whatever is promised: the sentence stays true until somebody ends.
    """
    if _asked(workload) != WHOLE_MILLI_GPU:
        return ""
    return _sentence(cycle, WHOLE_MILLI_GPU, cycle.pools_of(workload.spec)[0], None)


def free(cycle: CycleState, workload: Workload, pool: PoolName, hold_class: HoldClass) -> str:
    """The same of what its class may use, and for a job of several whole GPUs on one node."""
    asked = _asked(workload)
    if asked == 0:
        return ""
    return held(cycle, workload) or _sentence(cycle, asked, pool, hold_class)


def _sentence(cycle: CycleState, asked: int, pool: PoolName, hold_class: HoldClass | None) -> str:
    """Many ask for the same: it is worked out once for all of them."""
    return cycle.memo.remember(
        _SENTENCE,
        (asked, pool, hold_class),
        lambda: _in_words(asked, *free_pieces(cycle.capacity, pool, hold_class)),
    )


def _asked(workload: Workload) -> int:
    """What one worker asks for in whole GPUs; 0 for gangs and for less than a GPU."""
    first, *others = must_have(workload.spec)
    return 0 if others or first.milli_gpu % WHOLE_MILLI_GPU else first.milli_gpu


def _in_words(asked: int, free: Ints, whole_per_node: Ints) -> str:
    """``1 whole and 2 half-free GPUs``; empty where they would not be enough, or one node has it."""
    partly = free[free < WHOLE_MILLI_GPU]
    enough_there = int(whole_per_node.max(initial=0)) * WHOLE_MILLI_GPU >= asked
    if enough_there or not partly.size or int(free.sum()) < asked:
        return ""
    halves = bool((2 * partly == WHOLE_MILLI_GPU).all())
    plural = "s" if partly.size > 1 else ""
    words = f"{partly.size} {'half-free' if halves else 'partly free'} GPU{plural}"
    whole = free.size - partly.size
    return f"{whole} whole and {words}" if whole else f"{words}, none whole"
