"""Why something waits: one sentence, one class, and the smallest change that would start it now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.capacity.capacity_arrays import largest_free, whole_free_per_node
from gpucommons.scheduler.core.capacity.hold_back import HoldBack, HoldBackReason
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.explain import (
    fragments,
    host_resources,
    limits,
    parked_notebook,
    scale_up,
)
from gpucommons.scheduler.core.explain.draining import draining
from gpucommons.scheduler.core.explain.impossible import (
    fits_nowhere,
    has_its_block_out,
    waits_for_nodes,
)
from gpucommons.scheduler.core.explain.offered_size import STARTS_WITH
from gpucommons.scheduler.core.lending import kept_from_borrowers
from gpucommons.scheduler.core.model.demand import (
    borrowing_class,
    milli_gpu,
    must_have,
    training_sizes,
    with_milli_gpu,
)
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.lifecycle import WITHDRAWALS_REMEMBERED_MS, is_lease
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Reason, ReasonClass, Workload
from gpucommons.scheduler.core.passes import notebooks
from gpucommons.scheduler.core.passes.fair_share_reservations import left_to
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.queue import reclaim_cooldown, unused_quota
from gpucommons.scheduler.core.quota import quota

_HOUR = duration(WITHDRAWALS_REMEMBERED_MS // 1000)
_LARGEST_NODE: Entry[PoolName, int] = Entry("GPUs of the largest node", Fact.REFRESHED)
_FREE_PER_NODE: Entry[tuple[PoolName, HoldClass], list[int]] = Entry(
    "whole GPUs free on each node", Fact.REFRESHED, Fact.CAPACITY
)
_MOST_FREE: Entry[PoolName, int] = Entry("most free on one node", Fact.REFRESHED, Fact.CAPACITY)


def explain(cycle: CycleState) -> None:
    """Give everyone who waits a reason."""
    index = cycle.index
    for workload in cycle.among(index.paused & cycle.turns.obstacles.keys()):
        _tell(cycle, workload, cycle.turns.obstacles[workload.workload_id])
    tickets = cycle.among(index.tickets)
    _explain(cycle, tickets, lambda one: _for_ticket(cycle, one))
    for alike in tuple(index.equivalence_classes.values()):
        waiting = [cycle.workloads[one.workload_id] for one in alike.members]
        _explain(cycle, waiting, lambda one: for_job(cycle, one))


def _explain(
    cycle: CycleState, waiting: Iterable[Workload], why: Callable[[Workload], Reason]
) -> None:
    """Tell each of these why it waits; those who ask for the same wait for the same reason."""
    memo: dict[object, Reason] = {}
    # Nothing that is told changes these, and many wait.
    obstacles, reserved = cycle.turns.obstacles, cycle.capacity.reservations
    cooldowns, key_of = reclaim_cooldown.on_cooldown(cycle), cycle.index.key_of
    for workload in waiting:
        obstacle = obstacles.get(workload.workload_id)
        if obstacle is not None:
            _tell(cycle, workload, obstacle)
        elif workload.nomination is not None:
            halves = partial(fragments.held, cycle, workload)
            _tell(cycle, workload, draining(cycle, workload, workload.nomination, halves))
        else:
            # Whose own place is kept, or is to be had back, reads that it is its own.
            own = workload.workload_id in reserved
            key = (key_of(workload), own, workload.parked and workload.workload_id)
            found = memo.get(key)
            if found is None:
                found = why(workload)
                # Thousands may be told the same as before: it is one object then, which is soon compared.
                found = memo[key] = workload.reason if workload.reason == found else found
            cooled = _on_cooldown(cycle, workload) if cooldowns else None
            _tell(cycle, workload, cooled or found)


def _tell(cycle: CycleState, workload: Workload, reason: Reason) -> None:
    if workload.reason is not reason and workload.reason != reason:
        cycle.put(evolve(workload, reason=reason))


def _on_cooldown(cycle: CycleState, workload: Workload) -> Reason | None:
    """Why it wins nothing back though its quota would let it; None where something else is in the way."""
    held, spec = reclaim_cooldown.on_cooldown(cycle), workload.spec
    ends = [held[spec.owner, pool] for pool in spec.pools if (spec.owner, pool) in held]
    if not ends or not _would_win_back(cycle, workload):
        return None
    # Counted from the submit: a sentence that changes by itself would be written every second.
    after = duration(max(1, -(-(min(ends) - workload.submitted_ms) // 1000)))
    text = (
        f"{spec.owner} left the line, or did not start, {reclaim_cooldown.MOST} times within {_HOUR} after"
        " others' work had been stopped for it: this waits for GPUs that are free, and wins none back until"
        f" {after} after it was submitted."
    )
    return Reason(code=ReasonClass.SHARE, text=text)


def _would_win_back(cycle: CycleState, workload: Workload) -> bool:
    if is_lease(workload):
        return notebooks.could_reclaim(cycle, workload)
    return any(
        guaranteed_host_resources.guarantee_covers(cycle, workload, pool)
        for pool in cycle.pools_of(workload.spec)
    )


# --- notebooks -------------------------------------------------------------------------------


def _for_ticket(cycle: CycleState, workload: Workload) -> Reason:
    if workload.parked is None:
        return for_notebook(cycle, workload)
    is_lent = notebooks.could_reclaim(cycle, workload)
    return parked_notebook.reason(cycle, workload, workload.parked, is_lent=is_lent)


def for_notebook(cycle: CycleState, workload: Workload) -> Reason:
    """Why a ticket waits."""
    spec = workload.spec
    pool, size = spec.pools[0], milli_gpu(must_have(spec))
    fixed = cycle.quota_of(spec.team, pool).fixed_milli_gpu
    left = max(0, unused_quota.of_fixed(cycle, spec.team, pool))
    largest = quota.largest_block(cycle.blocks, spec.team, pool)
    smaller = smaller_notebook(cycle, workload)
    unblock = None if smaller is None else f"{STARTS_WITH}{format_gpus(smaller)}."
    if fixed == 0:
        text = f"{spec.team} has no notebook GPUs in pool {pool}."
        code, unblock = ReasonClass.LIMIT, "Ask an admin for fixed quota, or start without a GPU."
    elif size <= fixed and has_its_block_out(cycle, workload, pool):
        return waits_for_nodes(cycle, workload, pool)
    elif size > largest:
        code = ReasonClass.LIMIT
        text = f"The largest notebook of {spec.team} has {format_gpus(largest)}."
    elif size > left:
        code = ReasonClass.LIMIT
        text = limits.beyond_what_is_free(spec.team, size, left=left, fixed=fixed)
    elif notebooks.could_reclaim(cycle, workload):
        code = ReasonClass.DRAINING
        text = f"{spec.team}'s notebook GPUs are lent: one can be won back, which takes a moment."
        if notebooks.is_free_elsewhere(cycle, workload):
            text = f"{text} What is free now is not among them."
        unblock = "In line, it starts as soon as the GPU is cleared." + (
            "" if unblock is None else f" {unblock}"
        )
    else:
        code = ReasonClass.FRAGMENTATION
        text = (
            f"Needs {format_gpus(size)} in one piece; the {format_milli_gpu(left)} that {spec.team} has"
            " free lie in smaller parts between its notebooks."
        )
    return Reason(code=code, text=text, unblock=unblock, startable_milli_gpu=smaller)


def smaller_notebook(cycle: CycleState, workload: Workload) -> int | None:
    """The largest smaller size that its pool offers and that would start now."""
    asked = milli_gpu(must_have(workload.spec))
    pool = cycle.pools.get(workload.spec.pools[0])
    for size in () if pool is None else sorted(pool.notebook_sizes, reverse=True):
        if size < asked and notebooks.free_place(cycle, with_milli_gpu(workload, size)):
            return size
    return None


# --- jobs ------------------------------------------------------------------------------------


def for_job(cycle: CycleState, workload: Workload) -> Reason:
    """Why a job waits."""
    scale_up_reason = scale_up.waits_for_scale_up(cycle, workload)
    impossible = None if scale_up_reason is not None else fits_nowhere(cycle, workload)
    if impossible is not None:
        return impossible
    limited = limits.limited(cycle, workload)
    smaller = _smaller_job(cycle, workload)
    unblock = (
        None
        if smaller is None
        else f"{STARTS_WITH}{format_gpus(smaller)}"
        + (" per worker." if len(must_have(workload.spec)) > 1 else ".")
    )
    if limited is not None:
        return replace(limited, unblock=limited.unblock or unblock, startable_milli_gpu=smaller)
    if scale_up_reason is not None:
        return replace(scale_up_reason, unblock=unblock, startable_milli_gpu=smaller)
    halves, turn = _fragments(cycle, workload), _turn_of_others(cycle, workload)
    if turn:
        code, text = ReasonClass.SHARE, turn
    elif halves:
        code, text = (
            ReasonClass.FRAGMENTATION,
            f"Needs {host_resources.ask_in_words(workload)}; {halves}.",
        )
    else:
        code, text = _no_place(cycle, workload)
        unblock = unblock or _leaner(cycle, workload)
        scalable = scale_up.pool_to_scale_up(cycle, workload)
        text = text if scalable is None else f"{text} {scale_up.may_scale_up(cycle, scalable)}"
    return Reason(code=code, text=text, unblock=unblock, startable_milli_gpu=smaller)


def _fragments(cycle: CycleState, workload: Workload) -> str:
    pool = cycle.pools_of(workload.spec)[0]
    return fragments.free(cycle, workload, pool, _class(cycle, workload, pool))


def _turn_of_others(cycle: CycleState, workload: Workload) -> str:
    """For whom it leaves a place in which it would fit."""
    for pool in cycle.pools_of(workload.spec):
        team = left_to(cycle, workload, pool)
        if team is not None and _would_borrow(cycle, workload, pool):
            kept = duration(cycle.pools[pool].min_run_ms // 1000)
            return (
                f"{workload.spec.team} has had more than its share of {pool}; a place is kept for {team},"
                f" for {kept} each time that more of it is free."
            )
    return ""


def _class(cycle: CycleState, workload: Workload, pool: PoolName) -> HoldClass:
    spec, found = workload.spec, borrowing_class(workload.spec)
    if found is HoldClass.CPU:
        return found
    borrows = spec.over_quota and unused_quota.may_borrow(cycle, spec.team, pool) > 0
    return found if borrows else HoldClass.GUARANTEED


def whole_milli_gpu_free(cycle: CycleState, pool: PoolName, hold_class: HoldClass) -> list[int]:
    """Whole GPUs free on each usable node for work of a class, in milli-GPU."""

    def work_out() -> list[int]:
        found: list[int] = whole_free_per_node(cycle.capacity, pool, hold_class).tolist()
        return [whole * WHOLE_MILLI_GPU for whole in found]

    return cycle.memo.remember(_FREE_PER_NODE, (pool, hold_class), work_out)


def _no_place(cycle: CycleState, workload: Workload) -> tuple[ReasonClass, str]:
    workers = must_have(workload.spec)
    pool = cycle.pools_of(workload.spec)[0]
    first = max(workers, key=lambda worker: worker.milli_gpu)
    asked = host_resources.ask_in_words(workload)
    if first.milli_gpu == 0:
        return ReasonClass.SHARE, f"Needs {asked}; no node has that free."
    hold_class = _class(cycle, workload, pool)
    short = host_resources.short_of(cycle, first, hold_class, pool) if len(workers) == 1 else None
    if short is not None:
        beside = host_resources.in_words(Load(first.cpu_milli, first.memory_mib))
        text = f"Needs {asked} with {beside}; where GPUs are free, not enough {short} are."
        return ReasonClass.FRAGMENTATION, text.replace("memory are", "memory is")
    if first.milli_gpu < WHOLE_MILLI_GPU and len(workers) == 1:
        return (
            ReasonClass.SHARE,
            f"Needs {format_gpus(first.milli_gpu)}; no GPU has that much free.",
        )
    free = whole_milli_gpu_free(cycle, pool, hold_class)
    kept = _kept(cycle, workload, pool, hold_class)
    part = 0 if any(free) else largest_free(cycle.capacity, pool, hold_class)
    if len(workers) > 1:
        return ReasonClass.GANG, f"Needs {asked}; {_free(sum(free), part, ' GPU')}{kept}."
    most, total = max(free, default=0), sum(free)
    if total >= first.milli_gpu > most:
        text = f"Needs {asked}; {format_milli_gpu(total)} are free, at most {format_milli_gpu(most)} on one node{kept}."
        return ReasonClass.FRAGMENTATION, text
    return ReasonClass.SHARE, f"Needs {asked}; {_free(most, part)}{kept}."


def _leaner(cycle: CycleState, workload: Workload) -> str | None:
    pool = cycle.pools_of(workload.spec)[0]
    found = host_resources.leaner(cycle, workload, _class(cycle, workload, pool), pool)
    if found is None or job_starts_now(cycle, found[0]) is None:
        return None
    return f"Would start now with at most {host_resources.in_words(found[1])}."


def _kept(cycle: CycleState, workload: Workload, pool: PoolName, hold_class: HoldClass) -> str:
    """``, and 2 more are kept for guarantees`` where a class may not have all that is free."""
    held_back = kept_from_borrowers.gpus_held_back(cycle, pool, hold_class)
    whom = Counter(_for_whom(cycle, workload, pool, one) for one in held_back)
    if not whom:
        return ""
    count = f"{len(held_back)} more {'is' if len(held_back) == 1 else 'are'} kept"
    if len(whom) == 1:
        return f", and {count} for {next(iter(whom))}"
    return f", and {count}: {', '.join(f'{some} for {name}' for name, some in whom.items())}"


def _for_whom(cycle: CycleState, workload: Workload, pool: PoolName, one: HoldBack) -> str:
    """For whom a GPU is kept, and until when where something ends that."""
    notebooks = one.held_for is HoldClass.FIXED
    if one.reason is HoldBackReason.RESERVATION:
        own = one.workload_id == workload.workload_id
        return f"{'it' if own else f'a job of {one.team}'}, until the rest of its place is free"
    if one.reason is HoldBackReason.LENDING_PAUSE:
        # How long, not until when: who reads this may live by another clock.
        pause = duration(cycle.pools[pool].lend_after_ms // 1000)
        if notebooks:
            return f"{one.team}'s notebooks, for {pause} after it was won back"
        return f"{one.team}'s next job, for {pause} after its last one"
    return "notebooks" if notebooks else "guarantees"


def _free(whole_milli_gpu: int, part_milli_gpu: int, unit: str = "") -> str:
    """``3 are free``, ``1 is free``, ``at most ½ of a GPU is free``, ``none is free``."""
    if whole_milli_gpu == 0 and part_milli_gpu:
        return f"at most {format_milli_gpu(part_milli_gpu)} of a GPU is free"
    if whole_milli_gpu == 0:
        return f"no{unit} is free" if unit else "none is free"
    one = whole_milli_gpu == WHOLE_MILLI_GPU
    plural = "s" if unit and not one else ""
    return f"{format_milli_gpu(whole_milli_gpu)}{unit}{plural} {'is' if one else 'are'} free"


def _smaller_job(cycle: CycleState, workload: Workload) -> int | None:
    """The largest smaller size that a form offers and that would start now."""
    pools = cycle.pools_of(workload.spec)
    offered = training_sizes(max((_largest_node(cycle, pool) for pool in pools), default=0))
    most = max((_most_free(cycle, pool) for pool in pools), default=0)
    below = min(workload.spec.roles[0].milli_gpu, max(most, WHOLE_MILLI_GPU - 1) + 1)
    for size in reversed([size for size in offered if 0 < size < below]):
        smaller = with_milli_gpu(workload, size)
        if job_starts_now(cycle, smaller):
            return size
    return None


def _largest_node(cycle: CycleState, pool: PoolName) -> int:
    nodes = cycle.capacity.usable(pool)
    return cycle.memo.remember(
        _LARGEST_NODE, pool, lambda: max((len(node.devices) for node in nodes), default=0)
    )


def _most_free(cycle: CycleState, pool: PoolName) -> int:
    """The most whole GPUs that are free on one node, for whatever class, in milli-GPU."""
    classes = (HoldClass.GUARANTEED, HoldClass.OVER_QUOTA)
    return cycle.memo.remember(
        _MOST_FREE,
        pool,
        lambda: max(max(whole_milli_gpu_free(cycle, pool, one), default=0) for one in classes),
    )


def job_starts_now(cycle: CycleState, workload: Workload) -> HoldClass | None:
    """The class in which a job would start now, without anybody being stopped; None if not."""
    spec = workload.spec
    workers = must_have(spec)
    need = milli_gpu(workers)
    for pool in cycle.pools_of(workload.spec):
        if need == 0:
            if host_resources.fit(cycle, workers, HoldClass.CPU, pool):
                return HoldClass.CPU
            continue
        inside = guaranteed_host_resources.guarantee_covers(cycle, workload, pool)
        if inside and host_resources.fit(cycle, workers, HoldClass.GUARANTEED, pool):
            return HoldClass.GUARANTEED
        if left_to(cycle, workload, pool) is None and _would_borrow(cycle, workload, pool):
            return HoldClass.OVER_QUOTA
    return None


def _would_borrow(cycle: CycleState, workload: Workload, pool: PoolName) -> bool:
    spec, workers = workload.spec, must_have(workload.spec)
    if not spec.over_quota or unused_quota.may_borrow(cycle, spec.team, pool) < milli_gpu(workers):
        return False
    return host_resources.fit(cycle, workers, HoldClass.OVER_QUOTA, pool)
