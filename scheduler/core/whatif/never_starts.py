"""Who waits for ever under the quotas that there are, whoever ends."""

from __future__ import annotations

from collections.abc import Iterable

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Workload, WorkloadId
from gpucommons.scheduler.core.placement import can_start
from gpucommons.scheduler.core.quota.quota import largest_block
from gpucommons.scheduler.core.whatif.next_shares import hypothetical_ids


def never_start(cluster: Cluster, waiting: Iterable[WorkloadId]) -> frozenset[WorkloadId]:
    """Those of the waiting that ask for more than their team's quota lets them have."""
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, hypothetical_ids())
    cycle.refresh()
    return frozenset(one for one in waiting if _is_beyond(cycle, cluster.workloads[one]))


def _is_beyond(cycle: CycleState, workload: Workload) -> bool:
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    if is_lease(workload):
        return need > max(largest_block(cycle.blocks, spec.team, pool) for pool in spec.pools)
    limits = [cycle.quota_of(spec.team, pool).limit_milli_gpu for pool in cycle.pools_of(spec)]
    beyond_limit = bool(limits) and all(limit is not None and need > limit for limit in limits)
    return beyond_limit or can_start.is_beyond_quota(cycle, workload)
