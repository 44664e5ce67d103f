"""Free GPU time that lies in pieces: enough for a job together, and nowhere in one."""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.core.capacity.node_capacity import NodeCapacity, blocked
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Workload

_FREE_BY_NODE: Entry[tuple[PoolName, HoldClass | None], list[list[int]]] = Entry(
    "free by node", Fact.REFRESHED, Fact.CAPACITY
)
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
    """Many ask for the same: every device is looked at once for all of them."""
    return cycle.memo.remember(
        _SENTENCE,
        (asked, pool, hold_class),
        lambda: _in_words(asked, _by_node(cycle, pool, hold_class)),
    )


def _asked(workload: Workload) -> int:
    """What one worker asks for in whole GPUs; 0 for gangs and for less than a GPU."""
    first, *others = must_have(workload.spec)
    return 0 if others or first.milli_gpu % WHOLE_MILLI_GPU else first.milli_gpu


def _by_node(cycle: CycleState, pool: PoolName, hold_class: HoldClass | None) -> list[list[int]]:
    """What is free of each device, in milli-GPU, for a class; for None, what nobody holds."""
    return cycle.memo.remember(
        _FREE_BY_NODE,
        (pool, hold_class),
        lambda: [
            [WHOLE_MILLI_GPU - bits.bit_count() for bits in _taken(node, hold_class)]
            for node in cycle.capacity.usable(pool)
        ],
    )


def _taken(node: NodeCapacity, hold_class: HoldClass | None) -> list[int]:
    if hold_class is None:
        return [device.held for device in node.devices.values()]
    return blocked(node.devices.values(), hold_class)


def _in_words(asked: int, nodes: list[list[int]]) -> str:
    """``1 whole and 2 half-free GPUs``; empty where they would not be enough, or one node has it."""
    free = [milli for node in nodes for milli in node if milli]
    partly = [milli for milli in free if milli < WHOLE_MILLI_GPU]
    enough_there = any(node.count(WHOLE_MILLI_GPU) * WHOLE_MILLI_GPU >= asked for node in nodes)
    if enough_there or not partly or sum(free) < asked:
        return ""
    halves = all(2 * milli == WHOLE_MILLI_GPU for milli in partly)
    plural = "s" if len(partly) > 1 else ""
    words = f"{len(partly)} {'half-free' if halves else 'partly free'} GPU{plural}"
    whole = len(free) - len(partly)
    return f"{whole} whole and {words}" if whole else f"{words}, none whole"
