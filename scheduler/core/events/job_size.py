"""A job's size, changed while it waits: the same job, with its place, its saved progress and its curve.

What was submitted stays as it was stored. A size beside it says with what the job goes on; the spec
that the core decides on has that size, so everything else reads one spec as before.
"""

from __future__ import annotations

from dataclasses import replace

from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.image_places import for_all_pools
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.going_on import Resized, Size
from gpucommons.scheduler.core.model.intents import ResizeJob
from gpucommons.scheduler.core.model.lifecycle import move
from gpucommons.scheduler.core.model.state_words import state_words
from gpucommons.scheduler.core.model.types import Spec, State, Workload
from gpucommons.scheduler.core.queue import reclaim_cooldown
from gpucommons.scheduler.errors import InvalidTransition

#: States in which nothing of it runs and it will start again.
RESIZABLE = frozenset({State.QUEUED, State.NOMINATED, State.PAUSED})


def size_of(spec: Spec) -> Size:
    """The size that a spec asks for."""
    first = spec.roles[0]
    return Size(
        milli_gpu=first.milli_gpu,
        workers=first.count,
        cpu_milli=first.cpu_milli,
        memory_mib=first.memory_mib,
        min_workers=spec.min_workers,
        max_workers=spec.max_workers,
    )


def with_size(spec: Spec, size: Size) -> Spec:
    """The same request at another size of its first role."""
    first, *others = spec.roles
    role = replace(
        first,
        milli_gpu=size.milli_gpu,
        count=size.workers,
        cpu_milli=size.cpu_milli,
        memory_mib=size.memory_mib,
    )
    return replace(
        spec,
        roles=(role, *others),
        min_workers=size.min_workers,
        max_workers=size.max_workers,
    )


def as_submitted(workload: Workload) -> Spec:
    """What was submitted, whatever its size is now and wherever it can go on."""
    spec, resized = for_all_pools(workload), workload.resized
    return spec if resized is None else with_size(spec, resized.submitted)


def in_words(size: Size) -> str:
    """``2 GPUs``, ``4 × ½ GPU``, ``4 workers without a GPU``."""
    if not size.milli_gpu:
        return "no GPU" if size.workers == 1 else f"{size.workers} workers without a GPU"
    each = format_gpus(size.milli_gpu)
    return each if size.workers == 1 else f"{size.workers} × {each}"


def check_resizable(workload: Workload) -> None:
    """Refuse where something of it runs, or nothing will.

    Raises InvalidTransition with what to do first.
    """
    if workload.state in RESIZABLE and workload.current is None:
        return
    name = workload.spec.name
    first = (
        f"gpucommons pause {name}, then resize and resume it"
        if workload.current is not None and workload.state is not State.CANCELLING
        else "submit it anew with another size"
    )
    message = f"{name} is {state_words(workload.state)}: only what waits or is paused changes its size; {first}."
    raise InvalidTransition(message)


def resize(cycle: CycleState, workload: Workload, action: ResizeJob, by: str) -> None:
    """Give a waiting job another size. Who was to be stopped for the old one may be spared."""
    check_resizable(workload)
    before = size_of(workload.spec)
    if action.size == before:
        return
    workload = reclaim_cooldown.noted(cycle, workload)
    if workload.state is State.NOMINATED:
        workload = move(workload, State.QUEUED, cycle.now_ms, nomination=None)
    submitted = before if workload.resized is None else workload.resized.submitted
    resized = Resized(submitted=submitted, now=action.size)
    workload = evolve(
        workload, spec=with_size(workload.spec, action.size), resized=resized, reason=None
    )
    cycle.put(workload)
    text = f"{workload.spec.name}: {in_words(before)} → {in_words(action.size)}, by {by}."
    data = {"old": in_words(before), "new": in_words(action.size)}
    cycle.tell("resized", text, workload, by=by, data=data)
