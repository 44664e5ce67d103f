"""Why a parked notebook waits for its GPU: its memory goes back to the very devices it came from."""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.explain import limits
from gpucommons.scheduler.core.model.demand import placed_milli_gpu
from gpucommons.scheduler.core.model.types import Parked, Reason, ReasonClass, Workload
from gpucommons.scheduler.core.placement.can_start import parked_on
from gpucommons.scheduler.core.queue import unused_quota


def reason(cycle: CycleState, workload: Workload, parked: Parked, *, is_lent: bool) -> Reason:
    """One sentence; ``is_lent``: borrowers have its place, and can be stopped for it."""
    spec = workload.spec
    size = placed_milli_gpu(parked.place)
    fixed = cycle.quota_of(spec.team, spec.pools[0]).fixed_milli_gpu
    left = max(0, unused_quota.of_fixed(cycle, spec.team, spec.pools[0]))
    where = _where(cycle, parked)
    if where is None:
        code, text = ReasonClass.MISCONFIGURED, _gone(parked)
    elif size > left:
        code = ReasonClass.LIMIT
        text = limits.beyond_what_is_free(spec.team, size, left=left, fixed=fixed)
    elif is_lent:
        code = ReasonClass.DRAINING
        text = f"{where} is lent: it can be won back, which takes a moment."
    else:
        code = ReasonClass.FRAGMENTATION
        text = f"Its memory goes back to {where}, which another notebook has."
    return Reason(code=code, text=text)


def _where(cycle: CycleState, parked: Parked) -> str | None:
    """``GPU 2 of node a``; None where that is not to be had at all."""
    node = parked_on(cycle, parked)
    if node is None:
        return None
    found = {device.device_id: device.index for device in node.devices}
    numbers = ", ".join(str(found[one]) for one in parked.place.device_ids)
    return f"GPU {numbers} of {node.node_id}"


def _gone(parked: Parked) -> str:
    return (
        f"Its memory goes back to the GPU that it came from, and {parked.place.node_id} does not offer"
        " that one now."
    )
