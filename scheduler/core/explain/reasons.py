"""Why something waits: one sentence, one class, and the smallest change that would start it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.capacity.views import largest_free, whole_free_per_node
from gpucommons.scheduler.core.cycle_state.draft import Draft
from gpucommons.scheduler.core.explain import beside_gpus
from gpucommons.scheduler.core.explain.draining import draining
from gpucommons.scheduler.core.explain.impossible import fits_nowhere
from gpucommons.scheduler.core.model.demand import Worker, milli_gpu, must_have, on_cpu_only
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.offered import training_sizes
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    PoolName,
    Reason,
    ReasonClass,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.passes import guarantee, notebooks, surplus
from gpucommons.scheduler.core.passes.kept_back import reason as why_kept_back
from gpucommons.scheduler.core.passes.turns import left_to
from gpucommons.scheduler.core.placement import proportions
from gpucommons.scheduler.core.placement.placement import place
from gpucommons.scheduler.core.queue import fragments, lending
from gpucommons.scheduler.core.quota import quota

#: How the sentence about a smaller size begins.
STARTS_WITH = "Would start now with "
#: Sizes of notebooks that people are offered instead.
_SMALLER = (8000, 4000, 2000, 1000, 500, 250, 125)


def explain(draft: Draft, obstacles: Mapping[WorkloadId, Reason]) -> None:
    """Give everyone who waits a reason."""
    register = draft.register
    for workload in draft.among(register.paused):
        _tell(draft, workload, obstacles[workload.workload_id])
    tickets = draft.among(register.tickets)
    _explain(draft, obstacles, tickets, lambda one: for_notebook(draft, one))
    for line in tuple(register.lines.values()):
        waiting = [draft.workloads[one.workload_id] for one in line.members]
        _explain(draft, obstacles, waiting, lambda one: for_job(draft, one))


def _explain(
    draft: Draft,
    obstacles: Mapping[WorkloadId, Reason],
    waiting: Iterable[Workload],
    why: Callable[[Workload], Reason],
) -> None:
    """Tell each of these why it waits; those who ask for the same wait for the same reason."""
    memo: dict[object, Reason] = {}
    for workload in waiting:
        obstacle = obstacles.get(workload.workload_id)
        if obstacle is not None:
            _tell(draft, workload, obstacle)
        elif workload.nomination is not None:
            halves = partial(fragments.held, draft, workload)
            _tell(draft, workload, draining(draft, workload, workload.nomination, halves))
        else:
            key = draft.register.key_of(workload)
            found = memo.get(key) or memo.setdefault(key, why(workload))
            _tell(draft, workload, why_kept_back(draft, workload) or found)


def _tell(draft: Draft, workload: Workload, reason: Reason) -> None:
    if workload.reason != reason:
        draft.put(evolve(workload, reason=reason))


# --- notebooks -------------------------------------------------------------------------------


def for_notebook(draft: Draft, workload: Workload) -> Reason:
    """Why a ticket waits."""
    spec = workload.spec
    pool, size = spec.pools[0], milli_gpu(must_have(spec))
    fixed = quota.quota_of(draft.teams, spec.team, pool).fixed_milli_gpu
    left = max(0, fixed - draft.use(spec.team, pool).fixed)
    blocks = [b.milli_gpu for b in draft.blocks if b.team == spec.team and b.pool == pool]
    smaller = smaller_notebook(draft, workload)
    unblock = None if smaller is None else f"Would start now with {format_gpus(smaller)}."
    if fixed == 0:
        text = f"{spec.team} has no notebook GPUs in {pool}."
        code, unblock = ReasonClass.LIMIT, "Ask an admin for fixed quota, or start without a GPU."
    elif size > max(blocks, default=0):
        most = format_gpus(max(blocks, default=0))
        code, text = ReasonClass.LIMIT, f"The largest notebook of {spec.team} has {most}."
    elif size > left:
        code = ReasonClass.LIMIT
        text = (
            f"Needs {format_gpus(size)}; {spec.team} has {format_milli_gpu(left)}"
            f" of {format_milli_gpu(fixed)} notebook GPUs free."
        )
    elif notebooks.could_reclaim(draft, workload):
        code = ReasonClass.DRAINING
        text = f"{spec.team}'s notebook GPUs are lent: one can be won back, which takes a moment."
        unblock = "Wait in line: it starts as soon as the GPU is cleared." + (
            "" if unblock is None else f" {unblock}"
        )
    else:
        code = ReasonClass.FRAGMENTATION
        text = (
            f"Needs {format_gpus(size)} in one piece; the {format_milli_gpu(left)} that {spec.team} has"
            " free lie in smaller parts between its notebooks."
        )
    return Reason(code=code, text=text, unblock=unblock, startable_milli_gpu=smaller)


def smaller_notebook(draft: Draft, workload: Workload) -> int | None:
    """The largest smaller size that would start now."""
    asked = milli_gpu(must_have(workload.spec))
    for size in _SMALLER:
        if size < asked and notebooks.starts_now(draft, _resized(workload, size)):
            return size
    return None


def _resized(workload: Workload, size: int) -> Workload:
    first, *others = workload.spec.roles
    roles = (replace(first, milli_gpu=size), *others)
    return replace(workload, spec=replace(workload.spec, roles=roles))


# --- jobs ------------------------------------------------------------------------------------


def for_job(draft: Draft, workload: Workload) -> Reason:
    """Why a job waits."""
    impossible = fits_nowhere(draft, workload, _pools(draft, workload))
    if impossible is not None:
        return impossible
    limited = _limited(draft, workload)
    smaller = _smaller_job(draft, workload)
    unblock = (
        None
        if smaller is None
        else f"{STARTS_WITH}{format_gpus(smaller)}"
        + (" per worker." if len(must_have(workload.spec)) > 1 else ".")
    )
    if limited is not None:
        return replace(limited, unblock=limited.unblock or unblock, startable_milli_gpu=smaller)
    halves, turn = _fragments(draft, workload), _turn_of_others(draft, workload)
    if turn:
        code, text = ReasonClass.SHARE, turn
    elif halves:
        code, text = (
            ReasonClass.FRAGMENTATION,
            f"Needs {beside_gpus.ask_in_words(workload)}; {halves}.",
        )
    else:
        code, text = _no_place(draft, workload)
        unblock = unblock or _leaner(draft, workload)
    return Reason(code=code, text=text, unblock=unblock, startable_milli_gpu=smaller)


def _fragments(draft: Draft, workload: Workload) -> str:
    pool = _pools(draft, workload)[0]
    return fragments.free(draft, workload, pool, _class(draft, workload, pool))


def _turn_of_others(draft: Draft, workload: Workload) -> str:
    """For whom it leaves a place in which it would fit."""
    for pool in _pools(draft, workload):
        team = left_to(draft, workload, pool)
        if team is not None and _would_borrow(draft, workload, pool):
            return f"{workload.spec.team} has had more than its share of {pool}; a place is kept for {team}."
    return ""


def _pools(draft: Draft, workload: Workload) -> list[PoolName]:
    return [pool for pool in workload.spec.pools if pool in draft.pools]


def _limited(draft: Draft, workload: Workload) -> Reason | None:
    """Quota, not devices, is what is missing."""
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    pools = _pools(draft, workload)
    if need == 0 or any(allowed(draft, workload, pool) >= need for pool in pools):
        return None
    pool = pools[0]
    found = quota.quota_of(draft.teams, spec.team, pool)
    use = draft.use(spec.team, pool)
    limit = found.limit_milli_gpu
    if limit is not None and use.training + need > limit:
        text = f"{spec.team} may hold {format_gpus(limit)} in {pool} and holds {format_milli_gpu(use.training)}; this needs {format_milli_gpu(need)}."
        return Reason(code=ReasonClass.LIMIT, text=text)
    beyond = beside_gpus.beyond_its_part(draft, spec, pool)
    if beyond is not None and found.guaranteed_milli_gpu - use.guaranteed >= need:
        unblock = beside_gpus.within_its_part(draft, spec, pool)
        may_not = "it" if not spec.over_quota else spec.team
        text = f"{beyond}; beyond that {may_not} would have to borrow, which it may not."
        return Reason(code=ReasonClass.LIMIT, text=text, unblock=unblock)
    why = "this job may not borrow" if not spec.over_quota else f"{spec.team} may not borrow"
    text = (
        f"{format_milli_gpu(use.guaranteed)} of {spec.team}'s"
        f" {format_milli_gpu(found.guaranteed_milli_gpu)} guaranteed GPUs are in use, and {why}."
    )
    return Reason(code=ReasonClass.LIMIT, text=text)


def allowed(draft: Draft, workload: Workload, pool: PoolName) -> int:
    """How many milli-GPU quota would let it have in a pool now, borrowed or not."""
    spec = workload.spec
    inside = 0
    if guarantee.entitled(draft, workload) and proportions.may_be_kept(draft, spec, pool):
        inside = guarantee.left(draft, guarantee.in_force(draft), spec.team, pool)
    outside = surplus.may_borrow(draft, spec.team, pool) if spec.over_quota else 0
    return max(inside, outside)


def _class(draft: Draft, workload: Workload, pool: PoolName) -> HoldClass:
    if on_cpu_only(workload.spec):
        return HoldClass.CPU
    borrows = workload.spec.over_quota and surplus.may_borrow(draft, workload.spec.team, pool) > 0
    return HoldClass.OVER_QUOTA if borrows else HoldClass.GUARANTEED


def free_per_node(draft: Draft, pool: PoolName, hold_class: HoldClass) -> list[int]:
    """Whole GPUs free on each usable node for work of a class, in milli-GPU."""
    free = whole_free_per_node(draft.room, pool, hold_class) * WHOLE_MILLI_GPU
    return [int(milli) for milli in free]


def _no_place(draft: Draft, workload: Workload) -> tuple[ReasonClass, str]:
    workers = must_have(workload.spec)
    pool = _pools(draft, workload)[0]
    first = max(workers, key=lambda worker: worker.milli_gpu)
    asked = beside_gpus.ask_in_words(workload)
    if first.milli_gpu == 0:
        return ReasonClass.SHARE, f"Needs {asked}; no node has that free."
    hold_class = _class(draft, workload, pool)
    short = beside_gpus.short_of(draft, first, hold_class, pool) if len(workers) == 1 else None
    if short is not None:
        beside = beside_gpus.in_words(Load(first.cpu_milli, first.memory_mib))
        text = f"Needs {asked} with {beside}; where GPUs are free, not enough {short} are."
        return ReasonClass.FRAGMENTATION, text.replace("memory are", "memory is")
    if first.milli_gpu < WHOLE_MILLI_GPU and len(workers) == 1:
        return (
            ReasonClass.SHARE,
            f"Needs {format_gpus(first.milli_gpu)}; no GPU has that much free.",
        )
    free = free_per_node(draft, pool, hold_class)
    kept = _kept(draft, pool) if hold_class is HoldClass.OVER_QUOTA else ""
    part = 0 if any(free) else largest_free(draft.room, pool, hold_class)
    if len(workers) > 1:
        return ReasonClass.GANG, f"Needs {asked}; {_free(sum(free), part, ' GPU')}{kept}."
    most, total = max(free, default=0), sum(free)
    if total >= first.milli_gpu > most:
        text = f"Needs {asked}; {format_milli_gpu(total)} are free, at most {format_milli_gpu(most)} on one node{kept}."
        return ReasonClass.FRAGMENTATION, text
    return ReasonClass.SHARE, f"Needs {asked}; {_free(most, part)}{kept}."


def _leaner(draft: Draft, workload: Workload) -> str | None:
    pool = _pools(draft, workload)[0]
    found = beside_gpus.leaner(draft, workload, _class(draft, workload, pool), pool)
    if found is None or job_starts_now(draft, found[0]) is None:
        return None
    return f"Would start now with at most {beside_gpus.in_words(found[1])}."


def _kept(draft: Draft, pool: PoolName) -> str:
    """``, and 2 more are kept for guarantees`` where borrowers may not have all that is free."""
    kept = {
        "guarantees": draft.room.held_back(pool),
        "notebooks": lending.kept_for_notebooks(draft, pool),
    }
    count = sum(kept.values())
    if not count:
        return ""
    whom = " and ".join(name for name, some in kept.items() if some)
    return f", and {count} more {'is' if count == 1 else 'are'} kept for {whom}"


def _free(whole_milli_gpu: int, part_milli_gpu: int, unit: str = "") -> str:
    """``3 are free``, ``1 is free``, ``at most ½ of a GPU is free``, ``none is free``."""
    if whole_milli_gpu == 0 and part_milli_gpu:
        return f"at most {format_milli_gpu(part_milli_gpu)} of a GPU is free"
    if whole_milli_gpu == 0:
        return f"no{unit} is free" if unit else "none is free"
    one = whole_milli_gpu == WHOLE_MILLI_GPU
    plural = "s" if unit and not one else ""
    return f"{format_milli_gpu(whole_milli_gpu)}{unit}{plural} {'is' if one else 'are'} free"


def _smaller_job(draft: Draft, workload: Workload) -> int | None:
    """The largest smaller size that a form offers and that would start now."""
    pools = _pools(draft, workload)
    offered = training_sizes(max((_largest_node(draft, pool) for pool in pools), default=0))
    most = max((_most_free(draft, pool) for pool in pools), default=0)
    below = min(workload.spec.roles[0].milli_gpu, max(most, WHOLE_MILLI_GPU - 1) + 1)
    for size in reversed([size for size in offered if 0 < size < below]):
        smaller = _resized(workload, size)
        if job_starts_now(draft, smaller):
            return size
    return None


def _largest_node(draft: Draft, pool: PoolName) -> int:
    key = ("largest-node", pool)
    found = draft.searches.get(key)
    if not isinstance(found, int):
        found = max((len(node.devices) for node in draft.room.usable(pool)), default=0)
        draft.searches[key] = found
    return found


def _most_free(draft: Draft, pool: PoolName) -> int:
    """The most whole GPUs that are free on one node, for whatever class, in milli-GPU."""
    key = ("most-free", draft.room.changes, pool)
    found = draft.searches.get(key)
    if not isinstance(found, int):
        classes = (HoldClass.GUARANTEED, HoldClass.OVER_QUOTA)
        found = max(max(free_per_node(draft, pool, one), default=0) for one in classes)
        draft.searches[key] = found
    return found


def _fits(draft: Draft, workers: tuple[Worker, ...], hold_class: HoldClass, pool: PoolName) -> bool:
    """They find a place now; after the turns the room stays as it is until the next cycle."""
    key = ("fits", draft.room.changes, workers, hold_class, pool)
    found = draft.searches.get(key)
    if not isinstance(found, bool):
        found = draft.searches[key] = bool(place(draft.room, workers, hold_class, pool))
    return found


def job_starts_now(draft: Draft, workload: Workload) -> HoldClass | None:
    """The class in which a job would start now, without anybody being stopped; None if not."""
    spec = workload.spec
    workers = must_have(spec)
    need = milli_gpu(workers)
    guarantees = guarantee.in_force(draft)
    for pool in _pools(draft, workload):
        if need == 0:
            if _fits(draft, workers, HoldClass.CPU, pool):
                return HoldClass.CPU
            continue
        inside = guarantee.covers(draft, workload, guarantees, pool)
        if inside and _fits(draft, workers, HoldClass.GUARANTEED, pool):
            return HoldClass.GUARANTEED
        if left_to(draft, workload, pool) is None and _would_borrow(draft, workload, pool):
            return HoldClass.OVER_QUOTA
    return None


def _would_borrow(draft: Draft, workload: Workload, pool: PoolName) -> bool:
    spec, workers = workload.spec, must_have(workload.spec)
    if not spec.over_quota or surplus.may_borrow(draft, spec.team, pool) < milli_gpu(workers):
        return False
    return _fits(draft, workers, HoldClass.OVER_QUOTA, pool)
