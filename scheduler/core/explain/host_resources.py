"""What a job asks for, in words: also where processor or memory, not GPUs, keep it waiting."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.capacity.placement_slots import best_slot
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.model.demand import Worker, must_have
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.holds import Load
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Role, Spec, Workload
from gpucommons.scheduler.core.placement import guaranteed_host_resources
from gpucommons.scheduler.core.placement.placement import place

_FIT: Entry[tuple[tuple[Worker, ...], HoldClass, PoolName], bool] = Entry(
    "fits now", Fact.REFRESHED, Fact.CAPACITY
)


def in_words(load: Load) -> str:
    """``2 cores and 4 GiB``."""
    return f"{_cores(load.cpu_milli)} and {_gib(load.memory_mib)}"


def _cores(cpu_milli: int) -> str:
    cores = cpu_milli / 1000
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def _gib(memory_mib: int) -> str:
    return f"{memory_mib / 1024:.3g} GiB"


def ask_in_words(workload: Workload) -> str:
    """What each worker needs, and how many of them at once."""
    workers = must_have(workload.spec)
    first = max(workers, key=lambda worker: (worker.milli_gpu, worker.cpu_milli))
    if first.milli_gpu == 0:
        one = in_words(Load(first.cpu_milli, first.memory_mib))
    else:
        one = format_gpus(first.milli_gpu)
    if len(workers) > 1:
        return f"{len(workers)} workers at once, each with {one} on one node"
    return f"{one} on one node" if first.milli_gpu != WHOLE_MILLI_GPU else one


def _beyond(cycle: CycleState, spec: Spec, pool: PoolName) -> tuple[Role, Load] | None:
    """A worker that asks for more than goes with its GPUs, and what goes with them."""
    if guaranteed_host_resources.may_be_kept(cycle, spec, pool):
        return None
    for role in spec.roles:
        part = guaranteed_host_resources.most_beside(cycle, role, pool) if role.milli_gpu else None
        if part is not None and not part.at_least(Load(role.cpu_milli, role.memory_mib)):
            return role, part
    return None


def beyond_its_part(cycle: CycleState, spec: Spec, pool: PoolName) -> str | None:
    """Why a guarantee does not cover a job whatever is left of it; None where it may."""
    found = _beyond(cycle, spec, pool)
    if found is None:
        return None
    role, part = found
    asks = []
    if role.cpu_milli > part.cpu_milli:
        asks.append(_cores(role.cpu_milli))
    if role.memory_mib > part.memory_mib:
        asks.append(_gib(role.memory_mib))
    return (
        f"It asks for {' and '.join(asks)}, and no more than {in_words(part)} go with"
        f" {format_gpus(role.milli_gpu)} of a guarantee"
    )


def within_its_part(cycle: CycleState, spec: Spec, pool: PoolName) -> str | None:
    """What it could ask for instead."""
    found = _beyond(cycle, spec, pool)
    if found is None:
        return None
    return f"Would be inside the guarantee with at most {in_words(found[1])} per worker."


def short_of(
    cycle: CycleState, worker: Worker, hold_class: HoldClass, pool: PoolName
) -> str | None:
    """``cores``, ``memory`` or both, where GPUs are free for a worker; None where they are not."""
    if not fit(cycle, (evolve(worker, cpu_milli=0, memory_mib=0),), hold_class, pool):
        return None
    if fit(cycle, (evolve(worker, cpu_milli=0),), hold_class, pool):
        return "cores"
    if fit(cycle, (evolve(worker, memory_mib=0),), hold_class, pool):
        return "memory"
    return "cores and memory"


def fit(
    cycle: CycleState, workers: tuple[Worker, ...], hold_class: HoldClass, pool: PoolName
) -> bool:
    """They find a place now; after the passes capacity stays as it is until the next cycle."""
    return cycle.memo.remember(
        _FIT,
        (workers, hold_class, pool),
        lambda: bool(place(cycle.capacity, workers, hold_class, pool)),
    )


def leaner(
    cycle: CycleState, workload: Workload, hold_class: HoldClass, pool: PoolName
) -> tuple[Workload, Load] | None:
    """A job of one worker, with no more processor and memory than is free beside a free GPU."""
    workers = must_have(workload.spec)
    if len(workers) > 1 or short_of(cycle, workers[0], hold_class, pool) is None:
        return None
    bare = evolve(workers[0], cpu_milli=0, memory_mib=0)
    there = [
        node.free(hold_class).positive()
        for node in cycle.capacity.usable(pool)
        if best_slot([node], bare, hold_class) is not None
    ]
    first = workload.spec.roles[0]
    asked = Load(first.cpu_milli, first.memory_mib)
    asked = asked.lower(guaranteed_host_resources.nearest(there, asked) or Load())
    if not asked.cpu_milli or not asked.memory_mib:
        return None
    role = replace(first, cpu_milli=asked.cpu_milli, memory_mib=asked.memory_mib)
    return replace(workload, spec=replace(workload.spec, roles=(role,))), asked
