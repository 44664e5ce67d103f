"""Jobs whose processes are saved ask for places where they can be woken: looked at in each cycle.

Nodes come and go, and admins switch it on and off, so what a job asks for now is found from the facts
of this moment and never stored.
"""

from __future__ import annotations

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.image_places import kept_to_its_image
from gpucommons.scheduler.core.placement.admission import pool_of, withdraw


def keep_to_images(cycle: CycleState) -> None:
    """Let each ask for those of its pools alone that can wake it; a promise elsewhere is taken back."""
    for before in cycle.among(cycle.index.saved):
        workload = kept_to_its_image(before, cycle.pools, cycle.nodes)
        if workload is not before:
            cycle.put(workload)
        promise = workload.nomination
        if promise is None or workload.current is not None:
            continue
        if pool_of(cycle, promise.placements) not in workload.spec.pools:
            withdraw(cycle, workload)
