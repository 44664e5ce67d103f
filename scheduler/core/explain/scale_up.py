"""What is said where an autoscaler may bring a node for work that waits."""

from __future__ import annotations

from gpucommons.scheduler.amount_words import duration
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.explain.host_resources import ask_in_words
from gpucommons.scheduler.core.model.demand import must_have
from gpucommons.scheduler.core.model.types import PoolName, Reason, ReasonClass, Workload
from gpucommons.scheduler.core.placement.can_start import fits_empty, fits_template_nodes
from gpucommons.scheduler.core.quota.template_nodes import template_nodes


def pool_to_scale_up(cycle: CycleState, workload: Workload) -> PoolName | None:
    """The first pool that may get nodes on which it would fit; None where there is none."""
    workers = must_have(workload.spec)
    return next(
        (
            pool
            for pool in cycle.pools_of(workload.spec)
            if template_nodes(cycle.pools[pool], cycle.nodes.values())
            and fits_template_nodes(cycle, workers, pool)
        ),
        None,
    )


def waits_for_scale_up(cycle: CycleState, workload: Workload) -> Reason | None:
    """It fits no node that is there, were they all idle, and would fit one that may come."""
    workers = must_have(workload.spec)
    pools = cycle.pools_of(workload.spec)
    if any(fits_empty(cycle, workers, pool, all_usable=False) for pool in pools):
        return None
    pool = pool_to_scale_up(cycle, workload)
    if pool is None:
        return None
    text = f"Needs {ask_in_words(workload)}, for which no node is there yet. {may_scale_up(cycle, pool)}"
    return Reason(code=ReasonClass.SHARE, text=text)


def may_scale_up(cycle: CycleState, pool: PoolName) -> str:
    """``Pool cloud may get 3 more nodes; one takes work about 4 min after it is asked for.``."""
    growth = cycle.pools[pool].growth
    more = len(template_nodes(cycle.pools[pool], cycle.nodes.values()))
    nodes = "1 more node; it" if more == 1 else f"{more} more nodes; one"
    boot = duration(growth.boot_ms // 1000) if growth is not None else ""
    text = f"Pool {pool} may get {nodes} takes work about {boot} after it is asked for."
    return f"{text} {cycle.pools[pool].scale_up_text}".rstrip()
