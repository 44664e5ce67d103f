"""What admins set and machines report: teams, quotas, pools, nodes, and the layout that follows.

All or nothing: every function checks first and changes the cycle state only when all of it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpucommons.scheduler.core.capacity.capacity import Capacity
from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import budgets, leaving, node_loss, pools
from gpucommons.scheduler.core.model import changes
from gpucommons.scheduler.core.model.intents import (
    NoteBudgets,
    NoteFacts,
    NoticeNode,
    PutConfig,
    PutPolicy,
    PutPools,
    PutTeams,
    SetBudget,
    SetNodeState,
    SetQuotas,
)
from gpucommons.scheduler.core.model.lifecycle import is_final
from gpucommons.scheduler.core.model.resources import Block, Node, NodeState, Quota, Team
from gpucommons.scheduler.core.model.state import NodesObserved
from gpucommons.scheduler.core.model.state_words import node_words
from gpucommons.scheduler.core.model.types import NodeId, PoolName, TeamName
from gpucommons.scheduler.core.placement.admission import withdraw
from gpucommons.scheduler.core.quota import layout, quota
from gpucommons.scheduler.errors import (
    Conflict,
    SchedulerError,
    UnknownNode,
    UnknownPool,
    UnknownTeam,
)

Teams = Mapping[TeamName, Team]
Setting = (
    SetQuotas
    | PutTeams
    | PutPools
    | NoteFacts
    | PutPolicy
    | PutConfig
    | SetNodeState
    | NoticeNode
    | SetBudget
    | NoteBudgets
)

#: A node that its executor has no more is kept for so long: a machine in repair comes back, and its
#: history is looked at. An autoscaler's nodes have new names each time.
FORGOTTEN_AFTER_MS = 24 * 3_600_000


def save(cycle: CycleState, action: Setting, by: str) -> None:
    """Save one setting, or refuse it."""
    match action:
        case SetQuotas():
            set_quotas(cycle, action, by)
        case PutTeams():
            put_teams(cycle, action, by)
        case PutPools():
            pools.put_pools(cycle, action, by)
        case NoteFacts():
            pools.note_facts(cycle, action, by)
        case SetBudget() | NoteBudgets():
            budgets.save(cycle, action, by)
        case PutPolicy():
            put_policy(cycle, action, by)
        case PutConfig():
            put_config(cycle, action, by)
        case SetNodeState():
            set_node_state(cycle, action, by)
        case NoticeNode():
            notice_node(cycle, action, by)


def set_quotas(cycle: CycleState, action: SetQuotas, by: str) -> None:
    """Save several quotas together."""
    teams = dict(cycle.teams)
    for (name, pool), new in action.quotas.items():
        if name not in teams:
            message = f"There is no team {name}. Teams are: {', '.join(sorted(teams)) or 'none'}."
            raise UnknownTeam(message)
        if pool not in cycle.pools:
            raise _unknown_pool(cycle, pool)
        teams[name] = replace(teams[name], quotas={**teams[name].quotas, pool: new})
    _save_teams(cycle, teams, by)


def put_teams(cycle: CycleState, action: PutTeams, by: str) -> None:
    """Create, change and remove teams together."""
    teams = {n: t for n, t in cycle.teams.items() if n not in action.removed}
    teams.update({team.name: budgets.with_its_facts(cycle, team) for team in action.teams})
    for name in action.removed:
        if name not in cycle.teams:
            message = f"There is no team {name} to remove."
            raise UnknownTeam(message)
        live = [w for w in cycle.workloads.values() if w.spec.team == name and not is_final(w)]
        if live and name not in teams:
            message = f"{name} still has {len(live)} workloads: end or wait for them first."
            raise Conflict(message)
    for team in teams.values():
        for pool in team.quotas:
            if pool not in cycle.pools:
                raise _unknown_pool(cycle, pool)
    _save_teams(cycle, teams, by)


def _unknown_pool(cycle: CycleState, pool: PoolName) -> UnknownPool:
    known = ", ".join(sorted(cycle.pools)) or "none"
    return UnknownPool(f"There is no pool {pool}. Pools are: {known}.")


def _save_teams(cycle: CycleState, teams: dict[TeamName, Team], by: str) -> None:
    quota.check_tree(teams)
    blocks = lay_out_all(cycle, teams)
    before, cycle.rules.teams = cycle.teams, teams
    _tell_changes(cycle, before, by)
    use_layout(cycle, blocks)


def _tell_changes(cycle: CycleState, before: Teams, by: str) -> None:
    for name in sorted(cycle.teams.keys() | before.keys()):
        old, new = before.get(name), cycle.teams.get(name)
        if new is None:
            cycle.tell("team-removed", f"{name} was removed.", by=by, team=name)
        else:
            _tell_team(cycle, old, new, by)
        _tell_quotas(cycle, old or Team(name=name), new or Team(name=name), by)


def _tell_team(cycle: CycleState, old: Team | None, new: Team, by: str) -> None:
    change = changes.of_team(old or Team(name=new.name), new)
    if old is None:
        text = f"{new.name} was created: {change.text}".removesuffix(": ")
        cycle.tell("team-created", f"{text}.", by=by, team=new.name, data=change.data)
    elif change.text:
        text = f"{new.name}: {change.text}."
        cycle.tell("team-changed", text, by=by, team=new.name, data=change.data)


def _tell_quotas(cycle: CycleState, old: Team, new: Team, by: str) -> None:
    for pool in sorted(old.quotas.keys() | new.quotas.keys()):
        was, now = (team.quotas.get(pool, quota.NO_QUOTA) for team in (old, new))
        if was != now:
            change = changes.of_quota(was, now)
            cycle.tell(
                "quota-changed",
                f"{new.name} in pool {pool}: {change.text}.",
                by=by,
                team=new.name,
                data={"pool": pool, **change.data},
            )


def fixed_quotas(teams: Teams, pool: PoolName) -> dict[TeamName, int]:
    """Fixed quota by team in one pool."""
    return {
        name: team.quotas[pool].fixed_milli_gpu
        for name, team in teams.items()
        if pool in team.quotas and team.quotas[pool].fixed_milli_gpu
    }


def _quotas(teams: Teams, pool: PoolName) -> dict[TeamName, Quota]:
    return {name: team.quotas[pool] for name, team in teams.items() if pool in team.quotas}


def _sums(teams: Teams, pool: PoolName) -> tuple[int, int]:
    found = _quotas(teams, pool).values()
    return (
        sum(one.fixed_milli_gpu for one in found),
        sum(one.guaranteed_milli_gpu for one in found),
    )


def lay_out_all(cycle: CycleState, teams: Teams) -> tuple[Block, ...]:
    """Return blocks for these teams' fixed quotas in all pools, or refuse.

    What asks for no more than before is always accepted: with nodes lost, an admin must still be
    able to lower a quota.
    """
    capacity = _room(cycle)
    blocks: list[Block] = []
    for pool in sorted(cycle.pools):
        wanted, had = fixed_quotas(teams, pool), fixed_quotas(cycle.teams, pool)
        if wanted == had and _sums(teams, pool) == _sums(cycle.teams, pool):
            blocks.extend(block for block in cycle.blocks if block.pool == pool)
            continue
        # Also of less than before: what no block has is nobody's.
        layout.check_cut({t: milli for t, milli in wanted.items() if milli != had.get(t)})
        more_fixed = any(milli > had.get(team, 0) for team, milli in wanted.items())
        fixed, guaranteed = _sums(teams, pool)
        fixed_before, guaranteed_before = _sums(cycle.teams, pool)
        if fixed > fixed_before or guaranteed > guaranteed_before:
            layout.check_sum(pool, capacity, _quotas(teams, pool))
        blocks.extend(layout.lay_out(pool, wanted, capacity, cycle.blocks, strict=more_fixed))
    return tuple(blocks)


def use_layout(cycle: CycleState, blocks: tuple[Block, ...]) -> None:
    """Put a layout into force; promises in pools whose blocks moved are decided anew."""
    moved = {block.pool for block in set(blocks) ^ set(cycle.blocks)}
    cycle.rules.blocks = blocks
    cycle.refresh()
    for workload in cycle.among(cycle.index.nominated):
        promise = workload.nomination
        if promise is None or workload.current is not None:
            continue
        if cycle.nodes[promise.placements[0].node_id].pool in moved:
            withdraw(cycle, workload)
    cycle.refresh()


def put_config(cycle: CycleState, action: PutConfig, by: str) -> None:
    """Save pools, teams and policy together."""
    before, told = dict(cycle.pools), len(cycle.told.events)
    # First, because teams may have quotas in pools that come with them.
    pools.put_pools(cycle, PutPools(pools=action.pools), by)
    if action.teams or action.removed_teams:
        try:
            put_teams(cycle, PutTeams(teams=action.teams, removed=action.removed_teams), by)
        except SchedulerError:
            cycle.pools.clear()
            cycle.pools.update(before)
            del cycle.told.events[told:]
            raise
    if action.policy is not None:
        put_policy(cycle, PutPolicy(policy=action.policy), by)


def put_policy(cycle: CycleState, action: PutPolicy, by: str) -> None:
    """Change the hub-wide policy."""
    change = changes.of_policy(cycle.policy, action.policy)
    if change.text:
        cycle.rules.policy = action.policy
        text = f"The hub-wide policy: {change.text}."
        cycle.tell("policy-changed", text, by=by, data=change.data)


def set_node_state(cycle: CycleState, action: SetNodeState, by: str) -> None:
    """Cordon, uncordon or fence a node."""
    node = _known(cycle, action.node_id)
    to_cordon = action.state is NodeState.CORDONED
    if node.state is action.state and (not to_cordon or _cordoned_here(node)):
        return
    if action.state is NodeState.READY and node.cordoned_outside:
        message = f"{node.node_id} is cordoned in its cluster: lift that there (kubectl uncordon)."
        raise Conflict(message)
    cycle.nodes[node.node_id] = replace(
        node,
        state=action.state,
        cordoned_outside=False,
        cordoned_here=to_cordon,
        leaves_ms=None if action.state is NodeState.READY else node.leaves_ms,
    )
    cycle.tell(
        "node-" + action.state,
        f"{node.node_id} was: {node_words(node.state)}; is: {node_words(action.state)}. {action.text}".rstrip(),
        by=by,
        data={"node": node.node_id, "old": node.state, "new": action.state},
    )
    relay_out(cycle)


def _known(cycle: CycleState, node_id: NodeId) -> Node:
    node = cycle.nodes.get(node_id)
    if node is None:
        known = ", ".join(sorted(cycle.nodes)) or "none"
        message = f"There is no node {node_id}. Nodes are: {known}."
        raise UnknownNode(message)
    return node


def notice_node(cycle: CycleState, action: NoticeNode, by: str) -> None:
    """A node's cloud takes it back: it takes nothing new, and what runs there ends."""
    node = _known(cycle, action.node_id)
    if node.leaves_ms == action.leaves_ms:
        return
    state = NodeState.CORDONED if node.state is NodeState.READY else node.state
    node = cycle.nodes[node.node_id] = replace(node, state=state, leaves_ms=action.leaves_ms)
    leaving.begin(cycle, node, by)
    relay_out(cycle)


def observe_nodes(cycle: CycleState, seen: NodesObserved) -> None:
    """Take over what an executor says of its nodes; a missing one is lost, an admin's word stays."""
    present = {node.node_id: node for node in seen.nodes}
    changed = False
    for node_id, node in sorted(present.items()):
        changed |= _put_node(cycle, node, cycle.nodes.get(node_id))
    for node_id, node in sorted(cycle.nodes.items()):
        pool = cycle.pools.get(node.pool)
        ours = pool is not None and pool.executor == seen.executor
        if ours and node_id not in present:
            changed |= _miss_node(cycle, node)
    if changed:
        relay_out(cycle)


def _miss_node(cycle: CycleState, node: Node) -> bool:
    """A node that its executor has no more: lost at first, forgotten when nothing is left of it."""
    node_id = node.node_id
    if node.missing_since_ms is None:
        node = cycle.nodes[node_id] = replace(node, missing_since_ms=cycle.now_ms)
    if node.state in {NodeState.READY, NodeState.CORDONED}:
        here = _cordoned_here(node)
        cycle.nodes[node_id] = replace(node, state=NodeState.LOST, cordoned_here=here)
        cycle.tell(
            "node-lost",
            f"{node_id} is not heard of: what ran there counts as live until it is fenced.",
            data={"node": node_id},
        )
        return True
    missing_ms = cycle.now_ms - (node.missing_since_ms or cycle.now_ms)
    if missing_ms < FORGOTTEN_AFTER_MS or _is_in_use(cycle, node_id):
        return False
    del cycle.nodes[node_id]
    cycle.tell("node-forgotten", f"{node_id} is gone for good.", data={"node": node_id})
    return True


def _is_in_use(cycle: CycleState, node_id: NodeId) -> bool:
    """Somebody holds a place on it, was promised one, or has fixed quota there."""
    attempts = (w.current for w in cycle.among(cycle.index.holding))
    promises = (w.nomination for w in cycle.among(cycle.index.nominated))
    held = (one for holder in (*attempts, *promises) if holder for one in holder.placements)
    return any(one.node_id == node_id for one in held) or any(
        block.node_id == node_id for block in cycle.blocks
    )


def _put_node(cycle: CycleState, node: Node, known: Node | None) -> bool:
    node = _with_state(leaving.settled(node, known, cycle.now_ms), known)
    if node == known:
        return False
    cycle.nodes[node.node_id] = node
    if node.leaves_ms is not None and (known is None or known.leaves_ms != node.leaves_ms):
        leaving.begin(cycle, node)
    if known is not None:
        node_loss.end_on_lost_devices(cycle, known, node)
    if known is None:
        cycle.tell("node-added", f"{node.node_id} joined {node.pool}.", data={"node": node.node_id})
    elif known.state is NodeState.LOST:
        cycle.tell("node-back", f"{node.node_id} is back.", data={"node": node.node_id})
    else:
        cycle.tell("node-changed", f"{node.node_id} changed.", data={"node": node.node_id})
    return True


def _with_state(node: Node, known: Node | None) -> Node:
    """An admin's word stays; a cordon of the cluster comes and goes with the report."""
    if known is not None and known.state is NodeState.FENCED:
        return replace(node, state=NodeState.FENCED)
    here = known is not None and _cordoned_here(known)
    outside = node.state is NodeState.CORDONED
    closed = here or outside or node.leaves_ms is not None
    state = NodeState.CORDONED if closed else NodeState.READY
    return replace(node, state=state, cordoned_outside=outside, cordoned_here=here)


def _cordoned_here(node: Node) -> bool:
    """An admin's word: of what an earlier version stored, a cordon that is not the cluster's."""
    unsaid = node.cordoned_outside or node.leaves_ms is not None
    return node.cordoned_here or (node.state is NodeState.CORDONED and not unsaid)


def relay_out(cycle: CycleState) -> None:
    """Lay fixed quota out again on the nodes there are: as much of it as they can take."""
    blocks: list[Block] = []
    for pool in sorted(cycle.pools):
        wanted = fixed_quotas(cycle.teams, pool)
        laid = layout.lay_out(pool, wanted, _room(cycle), cycle.blocks, strict=False)
        if sum(block.milli_gpu for block in laid) < sum(wanted.values()):
            node_loss.demote(cycle, pool)
            laid = layout.lay_out(pool, wanted, _room(cycle), cycle.blocks, strict=False)
        blocks.extend(laid)
    use_layout(cycle, tuple(blocks))


def _room(cycle: CycleState) -> Capacity:
    return Capacity.of(cycle.nodes.values(), cycle.workloads.values(), cycle.blocks)
