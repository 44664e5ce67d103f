"""What admins set: teams, quotas, the hub-wide policy; pools and budgets in files beside it.

All or nothing: every function checks first and changes the cycle state only when all of it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.events import fixed_blocks
from gpucommons.scheduler.core.events.fixed_blocks import Teams
from gpucommons.scheduler.core.events.known import known_pool, known_team
from gpucommons.scheduler.core.events.nodes import cordon_and_fence, slow_nodes, spot_notice
from gpucommons.scheduler.core.events.settings import audit, budgets, pools
from gpucommons.scheduler.core.model.intents import (
    Action,
    NoteBudgets,
    NoteFacts,
    NoteSlowNodes,
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
from gpucommons.scheduler.core.model.resources import Quota, Team
from gpucommons.scheduler.core.model.types import TeamName
from gpucommons.scheduler.core.quota import quota
from gpucommons.scheduler.errors import Conflict, SchedulerError, UnknownTeam


def set_quotas(cycle: CycleState, action: SetQuotas, by: str) -> None:
    """Save several quotas together."""
    teams = dict(cycle.teams)
    for (name, pool), new in action.quotas.items():
        known_team(cycle, name)
        known_pool(cycle, pool)
        now = teams[name].quotas.get(pool, Quota())
        if action.seen.get((name, pool), now) != now:
            message = (
                f"The quota of {name} in pool {pool} was changed meanwhile. Nothing was saved: look at"
                " it anew, and change it then."
            )
            raise Conflict(message)
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
            known_pool(cycle, pool)
    _save_teams(cycle, teams, by)


def _save_teams(cycle: CycleState, teams: dict[TeamName, Team], by: str) -> None:
    quota.check_tree(teams)
    blocks = fixed_blocks.lay_out_all(cycle, teams)
    before, cycle.rules.teams = cycle.teams, teams
    _tell_changes(cycle, before, by)
    fixed_blocks.use_layout(cycle, blocks)


def _tell_changes(cycle: CycleState, before: Teams, by: str) -> None:
    for name in sorted(cycle.teams.keys() | before.keys()):
        old, new = before.get(name), cycle.teams.get(name)
        if new is None:
            cycle.tell("team-removed", f"{name} was removed.", by=by, team=name)
        else:
            change = audit.of_team(old or Team(name=name), new)
            audit.tell(cycle, "team", name, change, is_new=old is None, by=by, team=name)
        _tell_quotas(cycle, old or Team(name=name), new or Team(name=name), by)


def _tell_quotas(cycle: CycleState, old: Team, new: Team, by: str) -> None:
    for pool in sorted(old.quotas.keys() | new.quotas.keys()):
        was, now = (team.quotas.get(pool, quota.NO_QUOTA) for team in (old, new))
        if was != now:
            change = audit.of_quota(was, now)
            cycle.tell(
                "quota-changed",
                f"{new.name} in pool {pool}: {change.text}.",
                by=by,
                team=new.name,
                data={"pool": pool, **change.data},
            )


def put_config(cycle: CycleState, action: PutConfig, by: str) -> None:
    """Save pools, teams and policy together."""
    before, told = dict(cycle.pools), cycle.told.mark()
    # First, because teams may have quotas in pools that come with them.
    pools.put_pools(cycle, PutPools(pools=action.pools), by)
    if action.teams or action.removed_teams:
        try:
            put_teams(cycle, PutTeams(teams=action.teams, removed=action.removed_teams), by)
        except SchedulerError:
            cycle.pools.clear()
            cycle.pools.update(before)
            cycle.told.take_back_since(told)
            raise
    if action.policy is not None:
        put_policy(cycle, PutPolicy(policy=action.policy), by)


def put_policy(cycle: CycleState, action: PutPolicy, by: str) -> None:
    """Change the hub-wide policy."""
    change = audit.of_fields(cycle.policy, action.policy)
    if change.text:
        cycle.rules.policy = action.policy
    audit.tell(cycle, "policy", "The hub-wide policy", change, by=by)


#: Who saves what. All of them have checked all of it before they change anything.
_SAVED_BY: Mapping[type, Callable[[CycleState, Any, str], None]] = {
    SetQuotas: set_quotas,
    PutTeams: put_teams,
    PutPools: pools.put_pools,
    NoteFacts: pools.note_facts,
    SetBudget: budgets.set_budget,
    NoteBudgets: budgets.note_budgets,
    PutPolicy: put_policy,
    PutConfig: put_config,
    SetNodeState: cordon_and_fence.set_node_state,
    NoticeNode: spot_notice.notice_node,
    NoteSlowNodes: slow_nodes.note_slow_nodes,
}


def save(cycle: CycleState, action: Action, by: str) -> None:
    """Save one setting, or refuse it."""
    _SAVED_BY[type(action)](cycle, action, by)
