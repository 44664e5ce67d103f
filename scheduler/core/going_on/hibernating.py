"""Whether a job's processes are saved to disk when it is stopped: facts and settings in, a clause out.

A job of one worker that has saved no checkpoint is hibernated. Workers that talk to each other are
not: what is on its way between them would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpucommons.scheduler.core.going_on import saving_time
from gpucommons.scheduler.core.model.eviction_cause import FOR_OTHERS, StopCause
from gpucommons.scheduler.core.model.going_on import (
    OFF,
    Hibernation,
    HibernationAbility,
    ProcessImage,
)
from gpucommons.scheduler.core.model.resources import Node, Pool
from gpucommons.scheduler.core.model.types import Attempt, NodeId, PoolName, Spec, Workload

#: Stops after which a job goes on in the size that it had.
_GOES_ON_AFTER = (
    FOR_OTHERS | {StopCause.PAUSE, StopCause.DRILL, StopCause.CONFINE, StopCause.SPOT}
) - {StopCause.SHRINK_FOR_OTHERS}
_ALONE = 1


def hibernation_of(spec: Spec, attempt: Attempt, pool: Pool, node: Node) -> Hibernation | None:
    """How an attempt is to run there: in a tree that can be saved, or why not; None = nobody knows."""
    if node.hibernation is None:
        return None
    placement = attempt.placements[0]
    hindrance = hindrance_of(spec, pool) or node_hindrance(node, gpus=bool(placement.device_ids))
    if hindrance:
        return Hibernation(hindrance=hindrance)
    can = node.hibernation
    return Hibernation(
        cost_ms=_cost_ms(can, placement.memory_mib),
        save_mib_per_s=can.save_mib_per_s,
        wake_mib_per_s=can.wake_mib_per_s,
    )


def hibernation_at_start(
    workload: Workload, attempt: Attempt, pool: Pool, node: Node | None
) -> Hibernation | None:
    """The same of an attempt that is to begin, also where its node cannot do any more what it could."""
    if node is None or node.hibernation is None:
        lost = Hibernation(hindrance="its node cannot save and wake processes any more")
        return None if kept_image(workload) is None else lost
    return hibernation_of(workload.spec, attempt, pool, node)


def hindrances_before_start(
    spec: Spec, pools: Mapping[PoolName, Pool], nodes: Mapping[NodeId, Node]
) -> tuple[str, ...]:
    """Why it would not be hibernated, for each tested node that it may come to; "" where it would be."""
    gpus = any(role.milli_gpu for role in spec.roles)
    allowed = spec.pools or tuple(pools)
    return tuple(
        hindrance_of(spec, pools[node.pool]) or node_hindrance(node, gpus=gpus)
        for node in nodes.values()
        if node.pool in allowed and node.pool in pools and node.hibernation is not None
    )


def most_mib_before_start(
    spec: Spec, pools: Mapping[PoolName, Pool], nodes: Mapping[NodeId, Node]
) -> int | None:
    """Up to how much memory it would be saved on each tested node that it may come to; None = not known."""
    allowed = spec.pools or tuple(pools)
    found = [most_mib_saved_in(pools[name], nodes.values()) for name in allowed if name in pools]
    return min((one for one in found if one is not None), default=None)


def most_mib_saved_in(pool: Pool, nodes: Iterable[Node]) -> int | None:
    """Up to how much memory a job is saved on each of its nodes that can; None where that is not known."""
    can = [one.hibernation for one in nodes if one.pool == pool.name]
    rates = [one.save_mib_per_s for one in can if one is not None and one.able]
    rates = [rate for rate in rates if rate > 0]
    return saving_time.most_mib(pool.grace_ms, min(rates)) if rates else None


def hindrance_in(pool: Pool, node: Node) -> str:
    """Why no job with a GPU is hibernated on that node of a pool; empty where some are."""
    return switched_off(pool) or node_hindrance(node, gpus=bool(node.all_devices))


def switched_off(pool: Pool) -> str:
    """That an admin does not want it there; empty where it is on."""
    off = pool.hibernation == OFF
    return f"the pool {pool.name} has hibernation switched off" if off else ""


def hindrance_of(spec: Spec, pool: Pool) -> str:
    """Why such a job is not hibernated in that pool, wherever it runs; empty where nothing is known."""
    if not spec.hibernation:
        return "the job was submitted without hibernation"
    if off := switched_off(pool):
        return off
    if _most_workers(spec) > _ALONE:
        return "jobs of several workers are not hibernated"
    return ""


def node_hindrance(node: Node, *, gpus: bool) -> str:
    """Why a node cannot save processes that hold some of its GPUs, or none; empty where it can."""
    can = node.hibernation
    if can is None:
        return "nobody has tested whether its node can save processes"
    if not can.able:
        return can.because or "its node cannot save processes"
    if gpus and not all(device.simulated for device in node.all_devices):
        return "saving processes that hold memory of a real GPU has not been tested on its node"
    return ""


def is_hibernated(workload: Workload, attempt: Attempt, why: str, pool: Pool) -> bool:
    """Whether a stop for this reason is to save its processes in place of SIGTERM."""
    if why not in _GOES_ON_AFTER or pool.hibernation == OFF:
        return False
    if attempt.started_ms is None:
        # It may come to life while the order is on its way.
        return kept_image(workload) is not None
    return can_be_hibernated(workload, attempt)


def is_saved_in(workload: Workload, attempt: Attempt, left_ms: int) -> bool:
    """Whether saving it takes no longer than that, as far as its node's speed is known."""
    if attempt.started_ms is None:
        return True  # what is saved of it already stays as it is
    known = attempt.hibernation
    if known is None:
        return False
    seen = _seen_mib(workload, attempt)
    if seen is None or not known.save_mib_per_s:
        return known.cost_ms <= left_ms
    return not saving_time.too_long(seen, known.save_mib_per_s, left_ms)


def too_long_to_save(workload: Workload, attempt: Attempt, grace_ms: int) -> str:
    """Why it could not be saved in time if it were stopped now, as a clause; empty where it could, or
    where too little is known.
    """
    known, seen = attempt.hibernation, _seen_mib(workload, attempt)
    if known is None or seen is None or not known.save_mib_per_s:
        return ""
    return saving_time.too_long(seen, known.save_mib_per_s, grace_ms)


def is_promised(workload: Workload, attempt: Attempt, grace_ms: int) -> bool:
    """Whether who asked was told that it is saved at a stop, whatever its memory."""
    return not too_long_to_save(workload, attempt, grace_ms) and (
        most_mib_saved(workload, attempt, grace_ms) is None
    )


def most_mib_saved(workload: Workload, attempt: Attempt, grace_ms: int) -> int | None:
    """Up to how much memory it would be saved, where nobody has seen yet how much it has; else None."""
    known = attempt.hibernation
    if known is None or not known.save_mib_per_s or _seen_mib(workload, attempt) is not None:
        return None
    return saving_time.most_mib(grace_ms, known.save_mib_per_s)


def saving_costs_ms(workload: Workload, attempt: Attempt, grace_ms: int) -> int | None:
    """How long saving and waking it take; None where a stop now would lose its work."""
    known = attempt.hibernation
    if known is None or not can_be_hibernated(workload, attempt):
        return None
    seen = _seen_mib(workload, attempt)
    if seen is None or not known.save_mib_per_s:
        return known.cost_ms
    if saving_time.too_long(seen, known.save_mib_per_s, grace_ms):
        return None
    wake = saving_time.transfer_ms(seen, known.wake_mib_per_s) if known.wake_mib_per_s else 0
    return saving_time.save_ms(seen, known.save_mib_per_s) + wake


def _seen_mib(workload: Workload, attempt: Attempt) -> int | None:
    """Its memory as last seen; before it was seen, that of the attempt before, which ran the same."""
    for one in reversed(workload.attempts[: attempt.number]):
        if one.hibernation is not None and one.hibernation.memory_mib is not None:
            return one.hibernation.memory_mib
    return None


def can_be_hibernated(workload: Workload, attempt: Attempt) -> bool:
    """Whether it runs in a tree that can be saved, and has nothing better."""
    known = attempt.hibernation
    return known is not None and not known.hindrance and workload.checkpoint is None


def kept_image(workload: Workload) -> tuple[Attempt, ProcessImage] | None:
    """The image that the next attempt wakes, and whose it is; None where there is none."""
    for attempt in reversed(workload.attempts):
        if attempt.image is not None:
            return attempt, attempt.image
        if attempt.started_ms is not None or _has_used(attempt):
            # It has woken the one before, or could not.
            return None
    return None


def _has_used(attempt: Attempt) -> bool:
    """Nothing is left to be woken, although nobody saw the attempt run."""
    known = attempt.hibernation
    return known is not None and (known.woken_from is not None or bool(known.not_woken))


def is_kept(workload: Workload, attempt: Attempt) -> bool:
    """Whether an ended attempt's work goes on where it stopped, or will: its processes were saved."""
    if attempt.image is None:
        return False
    later = workload.attempts[attempt.number :]
    following = next((one for one in later if one.started_ms is not None or _has_used(one)), None)
    if following is None:
        return True
    known = following.hibernation
    return known is not None and known.woken_from is not None


def speaks_for(workload: Workload) -> tuple[Attempt, ...]:
    """The current attempt, and those before it whose processes live on in it, newest first."""
    current = workload.current
    found = [] if current is None else [current]
    while found and (known := found[-1].hibernation) is not None:
        if known.woken_from is None or not 0 < known.woken_from < found[-1].number:
            break
        found.append(workload.attempts[known.woken_from - 1])
    return tuple(found)


def _most_workers(spec: Spec) -> int:
    return max(sum(role.count for role in spec.roles), spec.max_workers or 0)


def _cost_ms(can: HibernationAbility, memory_mib: int) -> int:
    rates = (can.save_mib_per_s, can.wake_mib_per_s)
    return sum(memory_mib * 1000 // rate for rate in rates if rate > 0)
