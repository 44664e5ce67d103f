"""Why a waiting workload may not be considered at all: a question for each, and its sentence.

Of those who are considered and find no place, ``explain.reasons`` says why.
"""

from __future__ import annotations

from gpucommons.gpu.slices.slices import format_gpus, format_milli_gpu
from gpucommons.scheduler.amount_words import duration, size_words
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.going_on.hibernating import kept_image
from gpucommons.scheduler.core.going_on.image_places import nodes_that_wake
from gpucommons.scheduler.core.going_on.ways import way_to_go_on
from gpucommons.scheduler.core.going_on.words import goes_on
from gpucommons.scheduler.core.model.demand import (
    affordable,
    bounds,
    is_block_size,
    milli_gpu,
    must_have,
    price_limit,
)
from gpucommons.scheduler.core.model.evolving import evolve
from gpucommons.scheduler.core.model.lifecycle import is_lease, is_met
from gpucommons.scheduler.core.model.resources import NodeState, policies_of
from gpucommons.scheduler.core.model.state_words import ended_words, node_words
from gpucommons.scheduler.core.model.types import (
    Reason,
    ReasonClass,
    Spec,
    State,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.money import money_words


def known(cycle: CycleState, workload: Workload) -> Reason | None:
    """Its team and one of its pools still exist, and notebooks ask for a block size."""
    spec = workload.spec
    text, unblock = None, None
    if spec.team not in cycle.teams:
        text = f"The team {spec.team} does not exist any more."
    elif not any(pool in cycle.pools for pool in spec.pools):
        text = f"None of its pools ({', '.join(spec.pools)}) exists."
        unblock = f"Submit it for one of: {', '.join(sorted(cycle.pools))}."
    elif is_lease(workload) and not is_block_size(milli_gpu(must_have(spec))):
        asked = format_gpus(milli_gpu(must_have(spec)))
        text = f"A notebook cannot have {asked}: sizes are ⅛, ¼, ½, 1, 2, 4, …"
    if text is None:
        return None
    return Reason(code=ReasonClass.MISCONFIGURED, text=text, unblock=unblock)


def paused(_: CycleState, workload: Workload) -> Reason | None:
    """Nobody has paused it."""
    if workload.state is not State.PAUSED:
        return None
    if workload.paused_by_parent and workload.spec.part_of is not None:
        parent = workload.spec.part_of
        text = (
            f"Paused at a rung of its {parent.kind.value} {parent.name}: others are better so far."
        )
        unblock = "It goes on by itself when it is among the best."
        return Reason(code=ReasonClass.PAUSED, text=text, unblock=unblock)
    return Reason(code=ReasonClass.PAUSED, text="Paused.", unblock="Resume it.")


def _name(cycle: CycleState, workload_id: WorkloadId) -> str:
    found = cycle.workloads.get(workload_id)
    return workload_id if found is None else found.spec.name


def not_met(spec: Spec, before: Workload) -> str:
    """Why what a job runs after leaves it no way to start."""
    what = "whose failure" if before.workload_id in spec.after_failed else "which"
    return f"{before.spec.name}, after {what} it should run, {ended_words(before.state)}"


def dependencies(cycle: CycleState, workload: Workload) -> Reason | None:
    """What it runs after ended as it asks."""
    for before in workload.spec.after:
        found = cycle.workloads.get(before)
        met = None if found is None else is_met(workload.spec, found)
        if met:
            continue
        if found is not None and met is False:
            text = f"{not_met(workload.spec, found)}."
            return Reason(code=ReasonClass.DEPENDENCY, text=text, unblock="Run that again.")
        text = f"Runs after {_name(cycle, before)}, which has not finished."
        return Reason(code=ReasonClass.DEPENDENCY, text=text)
    return None


def schedule(cycle: CycleState, workload: Workload) -> Reason | None:
    """Its time has come."""
    if workload.spec.not_before_ms <= cycle.now_ms:
        return None
    # Counted from the submit and not from now: a sentence that changes by itself would be written
    # to the store every second.
    seconds = -(-(workload.spec.not_before_ms - workload.submitted_ms) // 1000)
    text = f"Scheduled to start {duration(seconds)} after it was submitted."
    return Reason(code=ReasonClass.BACKOFF, text=text)


def back_off(cycle: CycleState, workload: Workload) -> Reason | None:
    """It has not just failed."""
    if workload.not_before_ms <= cycle.now_ms:
        return None
    seconds = -(-(workload.not_before_ms - workload.since_ms) // 1000)
    ended = workload.attempts[-1].ended_text if workload.attempts else None
    text = f"{ended or 'The last start did not work'}. Tries again after {duration(seconds)}."
    return Reason(code=ReasonClass.BACKOFF, text=text)


def policy(cycle: CycleState, workload: Workload) -> Reason | None:
    """No policy that came after it was submitted forbids it."""
    spec = workload.spec
    asked, workers = milli_gpu(must_have(spec)), bounds(spec)[0]
    for rules in policies_of(spec.team, cycle.teams, cycle.policy):
        if spec.priority not in rules.priorities:
            allowed = ", ".join(sorted(rules.priorities))
            text = f"Policy `priorities`: {spec.priority} is not allowed, only {allowed}."
        elif rules.max_milli_gpu_per_job is not None and asked > rules.max_milli_gpu_per_job:
            most = format_milli_gpu(rules.max_milli_gpu_per_job)
            text = f"Policy `max_milli_gpu_per_job`: asks for {format_gpus(asked)}, at most {most}."
        elif rules.max_workers is not None and workers > rules.max_workers:
            text = f"Policy `max_workers`: asks for {workers} workers, at most {rules.max_workers}."
        elif rules.environments and spec.environment not in rules.environments:
            text = f"Policy `environments`: {spec.environment or 'the default'} is not allowed."
        else:
            continue
        return Reason(code=ReasonClass.POLICY, text=text, unblock="Ask an admin, or submit less.")
    return None


def budget(cycle: CycleState, workload: Workload) -> Reason | None:
    """Its team's budget lets jobs start. Notebooks are never kept waiting by one."""
    team = cycle.teams.get(workload.spec.team)
    if is_lease(workload) or team is None or team.may_start:
        return None
    text = f"{team.budget_spent} By its policy (no-new-jobs) no job of {team.name} starts until there is budget again."
    return Reason(code=ReasonClass.POLICY, text=text, unblock="Ask an admin for more budget.")


def price(cycle: CycleState, workload: Workload) -> Reason | None:
    """One of its pools costs no more than it, its team and the hub pay."""
    return _too_dear(cycle, workload, workload.spec)


def price_of_team(cycle: CycleState, workload: Workload) -> Reason | None:
    """The same by policies alone, which all of a line have in common."""
    return _too_dear(cycle, workload, evolve(workload.spec, max_price_micro=None))


def _too_dear(cycle: CycleState, workload: Workload, spec: Spec) -> Reason | None:
    if is_lease(workload):
        return None
    rules = policies_of(spec.team, cycle.teams, cycle.policy)
    most = price_limit(spec, rules)
    if most is None or affordable(spec, most, spec.pools, cycle.pools, cycle.now_ms):
        return None
    costs = {name: cycle.pools[name].price_at(cycle.now_ms) or 0 for name in spec.pools}
    cheapest = min(costs, key=costs.__getitem__)
    currency = cycle.pools[cheapest].currency
    unblock = "It starts once one of its pools costs no more, or with a higher max_price."
    if most == spec.max_price_micro:
        whose = "it pays"
    else:
        of_hub = most == cycle.policy.max_price_micro
        whose = f"the policy of {'the hub' if of_hub else spec.team} lets it pay"
        unblock = "It starts once one of its pools costs no more; an admin can raise max_price."
    text = (
        f"A GPU of {cheapest} costs {money_words(costs[cheapest], currency)} per hour now, and"
        f" {whose} at most {money_words(most, currency)} (max_price)."
    )
    return Reason(code=ReasonClass.PRICE, text=text, unblock=unblock)


def saved_memory(cycle: CycleState, workload: Workload) -> Reason | None:
    """A node that can wake what was saved of it takes work."""
    kept = kept_image(workload)
    if kept is None:
        return None
    able = [
        node
        for pool in workload.spec.pools
        for node in nodes_that_wake(workload, pool, cycle.pools, cycle.nodes)
    ]
    if not able or any(node.state is NodeState.READY for node in able):
        return None
    node, (_, image) = able[0], kept
    state = f"{'is ' if node.state is NodeState.LOST else ''}{node_words(node.state)}"
    text = f"{size_words(image.size_bytes)} of its memory is on {node.node_id}, which {state}."
    way = way_to_go_on(workload)
    weaker = None if way is None else way.otherwise
    unblock = "An admin can let the node take work again."
    if weaker is not None:
        unblock = f"{unblock[:-1]}, or fence it: then {workload.spec.name} {goes_on(weaker)}."
    return Reason(code=ReasonClass.DEPENDENCY, text=text, unblock=unblock)
