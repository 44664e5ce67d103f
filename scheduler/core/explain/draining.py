"""What is said to somebody who is next: how much is being cleared, and who has to go first.

All who may read the waiting workload read this sentence, so another team's jobs are not named in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.image_places import hindered_since
from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.going_on.words import goes_on
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.eviction_cause import StopCause, stop_cause
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    HoldClass,
    Nomination,
    Reason,
    ReasonClass,
    Workload,
)

#: So many names are said; of more, only how many.
_NAMES = 5


def draining(
    cycle: CycleState, workload: Workload, promise: Nomination, half_free: Callable[[], str]
) -> Reason:
    """Why a nominated workload still waits. ``half_free`` tells which halves a move joins."""
    found = [cycle.holder_of(victim) for victim in promise.victims]
    there = [other for other in found if other is not None]
    who = _in_the_way(workload, there)
    if there and all(stop_cause(one.current) == StopCause.MOVE for one in there):
        halves = half_free()
        text = f"{halves}; moving" if halves else "Next in line: moving"
        text = f"{text} {who} {'frees one' if halves else 'makes room'}."
    else:
        size = milli_gpu(must_have(workload.spec))
        what = f"{format_gpus(size)} {'is' if size <= WHOLE_MILLI_GPU else 'are'}"
        verb = "ends" if len(there) == 1 else "end"
        text = (
            f"Next in line: {what if size else 'room is'} being cleared, {who} {verb} there first."
        )
    return Reason(code=ReasonClass.DRAINING, text=text)


def would_stop(
    before: Cluster, after: Cluster, workload: Workload, promise: Nomination
) -> str | None:
    """What a submit would do to others; None where all who are in its way are being stopped anyway."""
    victims = set(promise.victims)
    there = [w for w in after.workloads.values() if w.current and w.current.attempt_id in victims]
    fresh = [one for one in there if not _stops(before.workloads.get(one.workload_id))]
    if not fresh:
        return None
    moves = all(stop_cause(one.current) == StopCause.MOVE for one in fresh)
    who = _in_the_way(workload, fresh, whose=True)
    if moves:
        return f"Would move {who}.{_how_they_go_on(before, workload, fresh)}"
    jobs = [one for one in fresh if not is_lease(one)]
    back = f", which {'goes' if len(fresh) == 1 else 'go'} back in line" if jobs == fresh else ""
    return f"Would stop {who}{back}.{_how_they_go_on(before, workload, fresh)}"


def _how_they_go_on(cluster: Cluster, workload: Workload, there: Sequence[Workload]) -> str:
    """What their own facts prove: of jobs of its own team, as far as they are named."""
    own = [w for w in there if not is_lease(w) and w.spec.team == workload.spec.team]
    named = sorted(own, key=lambda one: one.spec.name)[:_NAMES]
    ways = [
        (one.spec.name, way_to_go_on(one, hindered_since(one, cluster.pools, cluster.nodes)))
        for one in named
    ]
    told = [
        f"{'It' if len(there) == 1 else name} {goes_on(way)}"
        for name, way in ways
        if way is not None
    ]
    return "".join(f" {clause}." for clause in told)


def _stops(workload: Workload | None) -> bool:
    return bool(workload and workload.current and workload.current.stop)


def _in_the_way(workload: Workload, there: Sequence[Workload], *, whose: bool = False) -> str:
    """Those who have to go: of its own team by name, of others only what they are."""
    owner = workload.spec.owner if whose else None
    names, others, borrowed = list[str](), 0, 0
    for other in there:
        if is_lease(other):
            names.append("a notebook")
        elif other.spec.team == workload.spec.team:
            names.append(f"{other.spec.name}{' (yours)' if other.spec.owner == owner else ''}")
        else:
            others += 1
            borrowed += bool(other.current and other.current.hold_class is HoldClass.OVER_QUOTA)
    names.sort()
    if len(names) > _NAMES:
        names = [*names[:_NAMES], f"{len(names) - _NAMES} more"]
    if others:
        kind = "borrowing job" if borrowed == others else "job"
        names.append(
            f"a {kind} of another team" if others == 1 else f"{others} {kind}s of other teams"
        )
    return ", ".join(names)
