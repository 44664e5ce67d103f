"""Where the next notebooks with a part of a GPU would lie, before anybody has asked for one.

On a cluster a pod must hold a card before parts of it can be given away, and that pod needs longer to
start than a person should wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU, DeviceId
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.demand import with_milli_gpu
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    State,
    TeamName,
    UserName,
    WorkerPlacement,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.core.passes.notebooks import free_place

HYPOTHETICAL = WorkloadId("preview")


def hypothetical_ids() -> Iterator[str]:
    """Ids for what is only tried."""
    return (f"preview-{number}" for number in count(1))


def hypothetical_notebook(
    team: TeamName, pool: PoolName, user: UserName, server_name: str = ""
) -> Workload:
    """A notebook that nobody has asked for, without a GPU yet."""
    spec = Spec(
        kind=Kind.NOTEBOOK,
        name="",
        team=team,
        owner=user,
        submitted_by=user,
        pools=(pool,),
        roles=(Role(milli_gpu=0, cpu_milli=0, memory_mib=0),),
        server_name=server_name,
    )
    return Workload(
        workload_id=HYPOTHETICAL,
        spec=spec,
        state=State.WAITING,
        submitted_ms=Millis(0),
        since_ms=Millis(0),
    )


def next_shares(cluster: Cluster, pools: Iterable[PoolName]) -> frozenset[DeviceId]:
    """The device that each team's next such notebook would be given in each of these pools."""
    wanted = frozenset(pools)
    owners = sorted({(b.team, b.pool) for b in cluster.blocks if b.pool in wanted})
    if not owners:
        return frozenset()
    cycle = CycleState.of(cluster.apart(), cluster.now_ms, hypothetical_ids())
    cycle.refresh()
    found = (_next(cycle, team, pool) for team, pool in owners)
    return frozenset(slot for place in found if place is not None for slot in place.device_ids)


def _next(cycle: CycleState, team: TeamName, pool: PoolName) -> WorkerPlacement | None:
    """Where the largest part that has a place would lie: a smaller one fits there, too."""
    if pool not in cycle.pools or team not in cycle.teams:
        return None
    parts = [size for size in cycle.pools[pool].notebook_sizes if size < WHOLE_MILLI_GPU]
    ask = hypothetical_notebook(team, pool, UserName(""))
    for size in sorted(parts, reverse=True):
        place = free_place(cycle, with_milli_gpu(ask, size))
        if place is not None:
            return place
    return None
