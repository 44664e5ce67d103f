"""What would not start even on empty nodes, and what of it is missing there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.capacity.placement_slots import capacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.cycle_state.memo import Entry, Fact
from gpucommons.scheduler.core.explain import beside_gpus
from gpucommons.scheduler.core.model.demand import Worker, must_have
from gpucommons.scheduler.core.model.types import HoldClass, PoolName, Reason, ReasonClass, Workload
from gpucommons.scheduler.core.placement.placement import place

#: All nodes with nothing on them.
_EMPTY: Entry[None, Capacity] = Entry("empty nodes", Fact.REFRESHED)


def fits_nowhere(cycle: CycleState, workload: Workload, pools: Sequence[PoolName]) -> Reason | None:
    """It would not even fit if nothing ran."""
    spec = workload.spec
    if any(_fits_empty(cycle, must_have(spec), pool) for pool in pools):
        return None
    kinds = sorted({role.gpu_kind for role in spec.roles if role.gpu_kind})
    nodes = [node for pool in pools for node in cycle.capacity.usable(pool)]
    there = {device.kind for node in nodes for device in node.node.devices}
    where = f"pool{'s' if len(pools) > 1 else ''} {', '.join(pools)}"
    missing = [kind for kind in kinds if kind not in there]
    if missing:
        text = f"There is no {missing[0]} in {where}; there is: {', '.join(sorted(there)) or 'no GPU'}."
        return Reason(code=ReasonClass.KIND, text=text)
    most = max((len(node.devices) for node in nodes), default=0)
    cpu = max((node.node.cpu_milli for node in nodes), default=0)
    memory = max((node.node.memory_mib for node in nodes), default=0)
    text = (
        f"Needs {beside_gpus.ask_in_words(workload)}, which {where} cannot give even when empty: its nodes have at"
        f" most {most} GPUs, {cpu / 1000:g} cores and {memory / 1024:.3g} GiB each."
    )
    return Reason(code=ReasonClass.MISCONFIGURED, text=text, unblock="Submit it smaller.")


def _fits_empty(cycle: CycleState, workers: tuple[Worker, ...], pool: PoolName) -> bool:
    alike = {replace(worker, role="", index=0) for worker in workers}
    if len(alike) > 1:
        return bool(place(_empty(cycle), workers, HoldClass.OVER_QUOTA, pool))
    left = len(workers)
    for node in cycle.capacity.usable(pool):
        left -= capacity(node, workers[0])
        if left <= 0:
            return True
    return False


def _empty(cycle: CycleState) -> Capacity:
    """All nodes with nothing on them; made once for all who wait."""
    return cycle.memo.remember(_EMPTY, None, lambda: Capacity.of(cycle.nodes.values(), (), ()))
