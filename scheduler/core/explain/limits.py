"""Where quota, not devices, is what is missing: for now, or for ever at this size."""

from __future__ import annotations

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.explain import host_resources
from gpucommons.scheduler.core.model.demand import milli_gpu, must_have
from gpucommons.scheduler.core.model.resources import Quota
from gpucommons.scheduler.core.model.types import PoolName, Reason, ReasonClass, Workload
from gpucommons.scheduler.core.placement import can_start, guaranteed_host_resources
from gpucommons.scheduler.core.queue import unused_quota


def limited(cycle: CycleState, workload: Workload) -> Reason | None:
    """Quota, not devices, is what is missing."""
    spec, need = workload.spec, milli_gpu(must_have(workload.spec))
    pools = cycle.pools_of(spec)
    if need == 0 or any(allowed(cycle, workload, pool) >= need for pool in pools):
        return None
    until_an_admin_acts = _at_no_time(cycle, workload) or _until_there_is_budget(cycle, workload)
    if until_an_admin_acts is not None:
        return until_an_admin_acts
    pool = pools[0]
    found = cycle.quota_of(spec.team, pool)
    use = cycle.use(spec.team, pool)
    limit = found.limit_milli_gpu
    if limit is not None and use.training + need > limit:
        text = (
            f"{spec.team} may hold {format_gpus(limit)} in pool {pool} and holds"
            f" {format_milli_gpu(use.training)}; this needs {format_milli_gpu(need)}."
        )
        return Reason(code=ReasonClass.LIMIT, text=text)
    budget = _budget(cycle, workload, found)
    beyond = host_resources.beyond_its_part(cycle, spec, pool)
    if beyond is not None and found.guaranteed_milli_gpu - use.guaranteed >= need:
        unblock = host_resources.within_its_part(cycle, spec, pool)
        borrower = "it" if not spec.over_quota else spec.team
        why = f": {budget}" if budget else "."
        text = f"{beyond}; beyond that {borrower} would have to borrow, which it may not{why}"
        return Reason(code=ReasonClass.LIMIT, text=text, unblock=unblock)
    text = (
        f"{format_milli_gpu(use.guaranteed)} of {spec.team}'s"
        f" {format_milli_gpu(found.guaranteed_milli_gpu)} guaranteed GPUs are in use, and {_why_it_may_not_borrow(workload)}"
    )
    if budget:
        unblock = "Ask an admin for more budget."
        return Reason(code=ReasonClass.LIMIT, text=f"{text}: {budget}", unblock=unblock)
    return Reason(code=ReasonClass.LIMIT, text=f"{text}.")


def _until_there_is_budget(cycle: CycleState, workload: Workload) -> Reason | None:
    """See :func:`.can_start.waits_for_budget`."""
    if not can_start.waits_for_budget(cycle, workload):
        return None
    team = workload.spec.team
    found = (cycle.quota_of(team, pool) for pool in cycle.pools_of(workload.spec))
    most = max(one.guaranteed_milli_gpu for one in found)
    text = (
        f"{cycle.teams[team].budget_spent} So {team} may not borrow, and {_in_words(most)} guaranteed to it: at this"
        " size the job waits until there is budget again."
    )
    smaller = f", or start it with {format_gpus(most)}" if most else ""
    return Reason(
        code=ReasonClass.POLICY, text=text, unblock=f"Ask an admin for more budget{smaller}."
    )


def _budget(cycle: CycleState, workload: Workload, found: Quota) -> str:
    """What is said of its team's budget, where that alone keeps the job from borrowing."""
    if not can_start.borrows_but_for_budget(cycle, workload, found):
        return ""
    return cycle.teams[workload.spec.team].budget_spent


def _in_words(milli_gpu: int) -> str:
    if not milli_gpu:
        return "nothing is"
    return f"only {format_gpus(milli_gpu)} {'is' if milli_gpu <= WHOLE_MILLI_GPU else 'are'}"


def beyond_what_is_free(team: str, size: int, *, left: int, fixed: int) -> str:
    """A notebook needs more than its team's notebook GPUs have left."""
    return (
        f"Needs {format_gpus(size)}; {team} has {format_milli_gpu(left)}"
        f" of {format_milli_gpu(fixed)} notebook GPUs free."
    )


def allowed(cycle: CycleState, workload: Workload, pool: PoolName) -> int:
    """How many milli-GPU quota would let it have in a pool now, borrowed or not."""
    spec = workload.spec
    inside = 0
    if guaranteed_host_resources.may_be_inside(cycle, workload, pool):
        inside = unused_quota.of_guarantee(cycle, spec.team, pool)
    outside = unused_quota.may_borrow(cycle, spec.team, pool) if spec.over_quota else 0
    return max(inside, outside)


def _why_it_may_not_borrow(workload: Workload) -> str:
    if workload.drill is not None and workload.drill.confines:
        return f"this job may not borrow since its test failed: {workload.drill.failed}"
    team = workload.spec.team
    return f"{team} may not borrow" if workload.spec.over_quota else "this job may not borrow"


def _at_no_time(cycle: CycleState, workload: Workload) -> Reason | None:
    """See :func:`.can_start.is_beyond_quota`."""
    if not can_start.is_beyond_quota(cycle, workload):
        return None
    spec, workers = workload.spec, must_have(workload.spec)
    most = can_start.guarantee_at_most(cycle, workload)
    text = (
        f"Needs {format_gpus(milli_gpu(workers))}, and {_why_it_may_not_borrow(workload).rstrip('.')}. It may use only"
        f" what {spec.team} is guaranteed, {format_gpus(most) if most else 'which is nothing'}: at this size it never"
        " starts."
    )
    ask = f"ask an admin for a guarantee of {format_gpus(milli_gpu(workers))}"
    smaller = f"Start it with {format_gpus(most)}" + (" in all" if len(workers) > 1 else "")
    unblock = f"{smaller}, or {ask}." if most else f"{ask[0].upper()}{ask[1:]}."
    return Reason(code=ReasonClass.NEVER, text=text, unblock=unblock)
