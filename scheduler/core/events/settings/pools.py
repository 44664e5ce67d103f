"""Pools as admins set them, and what their nodes say of them."""

from __future__ import annotations

from dataclasses import replace

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events.endings import full_name
from gpucommons.scheduler.core.events.settings import audit
from gpucommons.scheduler.core.model.intents import NoteFacts, PutPools
from gpucommons.scheduler.core.model.resources import Pool
from gpucommons.scheduler.errors import Conflict

#: So many of those who hold something are named.
_NAMED = 3


def put_pools(cycle: CycleState, action: PutPools, by: str) -> None:
    """Create or change pools; their isolation is what nodes say by now, whatever was read before."""
    for wanted in action.pools:
        _check_executor(cycle, wanted)
    for wanted in action.pools:
        known = cycle.pools.get(wanted.name)
        pool = wanted
        if known is not None:
            pool = replace(
                wanted,
                isolation=known.isolation,
                simulated=known.simulated,
                scale_up_text=known.scale_up_text,
                scale_up_since_ms=known.scale_up_since_ms,
            )
        if pool != known:
            cycle.pools[pool.name] = pool
            change = audit.of_fields(known or Pool(name=pool.name), pool)
            audit.tell(cycle, "pool", f"The pool {pool.name}", change, is_new=known is None, by=by)


def note_facts(cycle: CycleState, action: NoteFacts, by: str) -> None:
    """Note what nodes say of pools; their settings stay as they are by now."""
    for name, said in sorted(action.pools.items()):
        known = cycle.pools.get(name)
        if known is None:
            continue
        if said.scale_up_text is not None and said.scale_up_text != known.scale_up_text:
            # In the reasons of those who wait; nobody's history is made of it.
            known = replace(known, scale_up_text=said.scale_up_text)
            cycle.pools[name] = known
        since_ms = said.scale_up_since_ms
        if since_ms is not None and since_ms != known.scale_up_since_ms:
            known = replace(known, scale_up_since_ms=since_ms)
            cycle.pools[name] = known
        pool = replace(known, isolation=said.isolation, simulated=said.simulated)
        if pool != known:
            cycle.pools[name] = pool
            was, now = known.isolation, pool.isolation
            text = f"The isolation of slices in pool {name} was {was}, is {now}."
            if pool.isolation == known.isolation:
                text = f"The GPUs of {name} are {'' if pool.simulated else 'not '}simulated."
            cycle.tell("pool-changed", text, by=by)


def _check_executor(cycle: CycleState, wanted: Pool) -> None:
    """What runs is followed by the executor that started it: under another it would be lost.

    Raises Conflict with who holds a place in the pool.
    """
    known = cycle.pools.get(wanted.name)
    if known is None or known.executor == wanted.executor:
        return
    here = {node.node_id for node in cycle.nodes.values() if node.pool == known.name}
    holders = [
        full_name(workload)
        for workload, attempt in cycle.holders(cycle.index.holding)
        if any(one.node_id in here for one in attempt.placements)
    ]
    if holders:
        more = f" and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
        message = (
            f"The executor of {known.name} cannot change from {known.executor} to {wanted.executor}:"
            f" {', '.join(holders[:_NAMED])}{more} hold places there. End them first."
        )
        raise Conflict(message)
