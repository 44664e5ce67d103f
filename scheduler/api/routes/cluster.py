"""Routes of what exists and what admins set: pools, nodes, teams, quotas, configuration."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from gpucommons.scheduler import models
from gpucommons.scheduler.api.caller import AnyCaller
from gpucommons.scheduler.api.routes.routers import a_router
from gpucommons.scheduler.service.administration import budgets, cluster, replays, settings

router = a_router("cluster")


@router.get("/whoami")
async def whoami(caller: AnyCaller) -> models.WhoAmI:
    """The caller's name, teams and rights."""
    return await caller.run(cluster.whoami)


@router.get("/pools")
async def pools(caller: AnyCaller) -> models.PoolList:
    """All pools with live numbers."""
    return await caller.run(cluster.pools)


@router.get("/growth")
async def growth(caller: AnyCaller) -> models.GrowthList:
    """Nodes that an autoscaler is asked for, since when, and what it says; for admins."""
    return await caller.run(cluster.growth)


@router.get("/nodes")
async def nodes(caller: AnyCaller) -> models.NodeList:
    """The capacity map; owners' names only where the caller may see them."""
    return await caller.run(cluster.nodes)


@router.put("/nodes/{node}/state")
async def set_node_state(
    node: Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,253}$")],
    request: models.NodeStateRequest,
    caller: AnyCaller,
) -> models.NodeView:
    """Cordon, uncordon or fence a node."""
    return await caller.run(settings.set_node_state, node, request)


@router.put("/nodes/{node}/notice")
async def notice_node(
    node: Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,253}$")],
    request: models.NodeNoticeRequest,
    caller: AnyCaller,
) -> models.NodeView:
    """A node's cloud takes it back: what runs there is saved and goes on elsewhere."""
    return await caller.run(settings.notice_node, node, request)


@router.get("/teams")
async def teams(caller: AnyCaller) -> models.TeamList:
    """Teams; other teams' details only for admins."""
    return await caller.run(cluster.teams)


@router.put("/config")
async def put_config(config: models.ConfigModel, caller: AnyCaller) -> models.TeamList:
    """Apply pools, teams and policy: all or none."""
    return await caller.run(settings.put_config, config)


@router.post("/config/check")
async def check_config(config: models.ConfigModel, caller: AnyCaller) -> models.ConfigChanges:
    """What applying this would change, one sentence each; nothing is saved."""
    return await caller.run(settings.check_config, config)


@router.get("/config")
async def get_config(caller: AnyCaller) -> models.ConfigModel:
    """The configuration in force."""
    return await caller.run(settings.get_config)


@router.post("/replay")
async def replay(request: models.ReplayRequest, caller: AnyCaller) -> models.ReplayView:
    """Play the last days again, as quotas are and as they would be; takes up to a minute."""
    return await caller.run(replays.replay, request)


@router.get("/budgets", name="budgets")
async def list_budgets(caller: AnyCaller) -> models.BudgetList:
    """How much of its month's budget each of the caller's teams has used; of all for admins."""
    return await caller.run_dear(budgets.budgets)


@router.put("/budgets/{team}")
async def set_budget(
    team: models.Name, change: models.BudgetChange, caller: AnyCaller
) -> models.BudgetView:
    """Give a team a budget for each month, in money or GPU-hours, or take it away."""
    return await caller.run_dear(budgets.set_budget, team, change)


@router.put("/quotas")
async def set_quotas(changes: models.QuotaChanges, caller: AnyCaller) -> models.LayoutView:
    """Save several quotas, or with ``dry_run`` only check their layout."""
    return await caller.run(settings.set_quotas, changes)
