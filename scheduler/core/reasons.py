"""Why something waits: one sentence, one class, and the smallest change that would start it now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpucommons.gpu.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core import guarantee, notebooks, ordering, quota, surplus
from gpucommons.scheduler.core.demand import Worker, milli_gpu, must_have, on_cpu_only
from gpucommons.scheduler.core.draft import Draft
from gpucommons.scheduler.core.evolving import evolve
from gpucommons.scheduler.core.lifecycle import is_lease
from gpucommons.scheduler.core.placement import place
from gpucommons.scheduler.core.register import Line
from gpucommons.scheduler.core.room import Room
from gpucommons.scheduler.core.spots import capacity
from gpucommons.scheduler.core.stops import MOVE
from gpucommons.scheduler.core.types import (
    HoldClass,
    Nomination,
    PoolName,
    Reason,
    ReasonClass,
    TeamName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.views import whole_free_per_node

#: Sizes per worker that people are offered instead.
_SMALLER = (8000, 4000, 2000, 1000, 500, 250, 125)
#: So many names are said; of more, only how many.
_NAMES = 5


def explain(draft: Draft, obstacles: Mapping[WorkloadId, Reason]) -> None:
    """Give everyone who waits a reason and a place in line."""
    register = draft.register
    for workload in draft.among(register.paused):
        _tell(draft, workload, obstacles[workload.workload_id], None)
    tickets = sorted(draft.among(register.tickets), key=ordering.in_team)
    _line_up(draft, obstacles, tickets, lambda one: for_notebook(draft, one))
    same_pool: dict[tuple[TeamName, PoolName], list[Line]] = {}
    for key, line in tuple(register.lines.items()):
        same_pool.setdefault((key.team, key.pools[0]), []).append(line)
    for lines in same_pool.values():
        waiting = [draft.workloads[one.workload_id] for line in lines for one in line.members]
        waiting.sort(key=ordering.in_team)
        _line_up(draft, obstacles, waiting, lambda one: for_job(draft, one))


def _line_up(
    draft: Draft,
    obstacles: Mapping[WorkloadId, Reason],
    waiting: Iterable[Workload],
    why: Callable[[Workload], Reason],
) -> None:
    """Tell each of these why it waits; those who ask for the same wait for the same reason."""
    memo: dict[object, Reason] = {}
    places: dict[tuple[TeamName, PoolName], int] = {}
    for workload in waiting:
        obstacle = obstacles.get(workload.workload_id)
        if obstacle is not None:
            _tell(draft, workload, obstacle, None)
            continue
        line = (workload.spec.team, workload.spec.pools[0])
        places[line] = position = places.get(line, 0) + 1
        if workload.nomination is not None:
            reason = _draining(draft, workload, workload.nomination)
        else:
            key = draft.register.key_of(workload)
            reason = memo.get(key) or memo.setdefault(key, why(workload))
        _tell(draft, workload, reason, position)


def _tell(draft: Draft, workload: Workload, reason: Reason, position: int | None) -> None:
    if workload.position != position or workload.reason != reason:
        draft.put(evolve(workload, reason=reason, position=position))


def _draining(draft: Draft, workload: Workload, promise: Nomination) -> Reason:
    found = [draft.holder_of(victim) for victim in promise.victims]
    there = [other for other in found if other is not None]
    names = sorted("a notebook" if is_lease(other) else other.spec.name for other in there)
    verb = "ends" if len(names) == 1 else "end"
    if len(names) > _NAMES:
        names = [*names[:_NAMES], f"{len(names) - _NAMES} more"]
    if there and all(o.current and o.current.stop and o.current.stop.why == MOVE for o in there):
        halves = _half_free(draft, workload)
        text = f"{halves}; moving" if halves else "Next in line: moving"
        frees = "frees one" if halves else "makes room"
        return Reason(code=ReasonClass.DRAINING, text=f"{text} {', '.join(names)} {frees}.")
    ending = f"{', '.join(names)} {verb} there first"
    return Reason(
        code=ReasonClass.DRAINING, text=f"Next in line: its GPU is being cleared, {ending}."
    )


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
    impossible = _impossible(draft, workload)
    if impossible is not None:
        return impossible
    limited = _limited(draft, workload)
    smaller = _smaller_job(draft, workload)
    unblock = (
        None
        if smaller is None
        else f"Would start now with {format_gpus(smaller)}"
        + (" per worker." if len(must_have(workload.spec)) > 1 else ".")
    )
    if limited is not None:
        return replace(limited, unblock=unblock, startable_milli_gpu=smaller)
    halves = _half_free(draft, workload)
    if halves:
        code, text = ReasonClass.FRAGMENTATION, f"Needs {_ask(workload)}; {halves}."
    else:
        code, text = _no_place(draft, workload)
    return Reason(code=code, text=text, unblock=unblock, startable_milli_gpu=smaller)


def _pools(draft: Draft, workload: Workload) -> list[PoolName]:
    return [pool for pool in workload.spec.pools if pool in draft.pools]


def _impossible(draft: Draft, workload: Workload) -> Reason | None:
    """It would not even fit if nothing ran."""
    spec = workload.spec
    pools = _pools(draft, workload)
    if any(_fits_empty(draft, must_have(spec), pool) for pool in pools):
        return None
    kinds = sorted({role.gpu_kind for role in spec.roles if role.gpu_kind})
    nodes = [node for pool in pools for node in draft.room.usable(pool)]
    there = {device.kind for node in nodes for device in node.node.devices}
    where = ", ".join(_pools(draft, workload))
    missing = [kind for kind in kinds if kind not in there]
    if missing:
        text = f"There is no {missing[0]} in {where}; there is: {', '.join(sorted(there)) or 'no GPU'}."
        return Reason(code=ReasonClass.KIND, text=text)
    most = max((len(node.devices) for node in nodes), default=0)
    cpu = max((node.node.cpu_milli for node in nodes), default=0)
    memory = max((node.node.memory_mib for node in nodes), default=0)
    text = (
        f"Needs {_ask(workload)}, which {where} cannot give even when empty: its {len(nodes)} nodes"
        f" have at most {most} GPUs, {cpu / 1000:g} CPUs and {memory / 1024:.3g} GiB each."
    )
    return Reason(code=ReasonClass.MISCONFIGURED, text=text, unblock="Submit it smaller.")


def _fits_empty(draft: Draft, workers: tuple[Worker, ...], pool: PoolName) -> bool:
    alike = {replace(worker, role="", index=0) for worker in workers}
    if len(alike) > 1:
        return bool(place(_empty(draft), workers, HoldClass.OVER_QUOTA, pool))
    left = len(workers)
    for node in draft.room.usable(pool):
        left -= capacity(node, workers[0])
        if left <= 0:
            return True
    return False


def _empty(draft: Draft) -> Room:
    """All nodes with nothing on them; made once for all who wait."""
    found = draft.searches.get(("empty",))
    if not isinstance(found, Room):
        found = draft.searches["empty",] = Room.of(draft.nodes.values(), (), ())
    return found


def _ask(workload: Workload) -> str:
    workers = must_have(workload.spec)
    first = max(workers, key=lambda worker: (worker.milli_gpu, worker.cpu_milli))
    if first.milli_gpu == 0:
        one = f"{first.cpu_milli / 1000:g} CPUs and {first.memory_mib / 1024:.3g} GiB"
    else:
        one = format_gpus(first.milli_gpu)
    if len(workers) > 1:
        return f"{len(workers)} workers at once, each with {one} on one node"
    return f"{one} on one node" if first.milli_gpu != WHOLE_MILLI_GPU else one


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
    if guarantee.entitled(draft, workload):
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
    asked = _ask(workload)
    if first.milli_gpu == 0:
        return ReasonClass.SHARE, f"Needs {asked}; no node has that free."
    if first.milli_gpu < WHOLE_MILLI_GPU and len(workers) == 1:
        return (
            ReasonClass.SHARE,
            f"Needs {format_gpus(first.milli_gpu)}; no GPU has that much free.",
        )
    free = free_per_node(draft, pool, _class(draft, workload, pool))
    if len(workers) > 1:
        text = f"Needs {asked}; {format_milli_gpu(sum(free))} GPUs are free."
        return ReasonClass.GANG, text
    most, total = max(free, default=0), sum(free)
    if total >= first.milli_gpu > most:
        text = f"Needs {asked}; {format_milli_gpu(total)} are free, at most {format_milli_gpu(most)} on one node."
        return ReasonClass.FRAGMENTATION, text
    if most >= first.milli_gpu:
        text = f"Needs {asked}; where GPUs are free, its CPUs or memory are not."
        return ReasonClass.FRAGMENTATION, text
    verb = "is" if most == WHOLE_MILLI_GPU else "are"
    return ReasonClass.SHARE, f"Needs {asked}; {format_milli_gpu(most)} {verb} free."


def _half_free(draft: Draft, workload: Workload) -> str:
    """``3 half-free GPUs, none whole`` where that is what keeps a job for one GPU waiting."""
    workers = must_have(workload.spec)
    if len(workers) > 1 or workers[0].milli_gpu != WHOLE_MILLI_GPU:
        return ""
    # What is held now counts, whatever is promised: the sentence stays true until somebody ends.
    free = [
        WHOLE_MILLI_GPU - device.held.bit_count()
        for node in draft.room.usable(_pools(draft, workload)[0])
        for device in node.devices.values()
    ]
    partly = [milli for milli in free if milli]
    if max(partly, default=0) == WHOLE_MILLI_GPU or sum(partly) < WHOLE_MILLI_GPU:
        return ""
    return f"{len(partly)} half-free GPUs, none whole"


def _smaller_job(draft: Draft, workload: Workload) -> int | None:
    asked = workload.spec.roles[0].milli_gpu
    for size in _SMALLER:
        if size >= asked:
            continue
        smaller = _resized(workload, size)
        if job_starts_now(draft, smaller):
            return size
    return None


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
        if (
            guarantee.entitled(draft, workload)
            and guarantee.left(draft, guarantees, spec.team, pool) >= need
        ):
            # What is inside of a guarantee takes back what is lent before it borrows itself.
            fits = _fits(draft, workers, HoldClass.GUARANTEED, pool)
            return HoldClass.GUARANTEED if fits else None
        if (
            spec.over_quota
            and surplus.may_borrow(draft, spec.team, pool) >= need
            and _fits(draft, workers, HoldClass.OVER_QUOTA, pool)
        ):
            return HoldClass.OVER_QUOTA
    return None
