"""What somebody names in a request: a team, a pool or a node; else a refusal that says which there are."""

from __future__ import annotations

from collections.abc import Iterable

from gpucommons.scheduler.core.cycle_state.cycle_state import CycleState
from gpucommons.scheduler.core.model.resources import Node, Pool, Team
from gpucommons.scheduler.core.model.types import NodeId, PoolName, TeamName
from gpucommons.scheduler.errors import UnknownNode, UnknownPool, UnknownTeam


def known_team(cycle: CycleState, name: TeamName) -> Team:
    """The team of that name."""
    team = cycle.teams.get(name)
    if team is None:
        raise UnknownTeam(f"There is no team {name}. Teams are: {_names(cycle.teams)}.")
    return team


def known_pool(cycle: CycleState, name: PoolName) -> Pool:
    """The pool of that name."""
    pool = cycle.pools.get(name)
    if pool is None:
        raise UnknownPool(f"There is no pool {name}. Pools are: {_names(cycle.pools)}.")
    return pool


def known_node(cycle: CycleState, node_id: NodeId) -> Node:
    """The node of that name."""
    node = cycle.nodes.get(node_id)
    if node is None:
        raise UnknownNode(f"There is no node {node_id}. Nodes are: {_names(cycle.nodes)}.")
    return node


def _names(known: Iterable[str]) -> str:
    return ", ".join(sorted(known)) or "none"
