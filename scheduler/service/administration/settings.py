"""Use cases about what admins set: quotas, the whole configuration, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpucommons.gpu.slices.slices import format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.intents import NoticeNode, PutConfig, SetNodeState, SetQuotas
from gpucommons.scheduler.core.model.resources import NodeState, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, NodeId, PoolName
from gpucommons.scheduler.errors import CannotLayOut, Conflict, Misconfigured, UnknownNode
from gpucommons.scheduler.intake.configuration import plan_config, planned_quotas, seen_quotas
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.administration.dry_run import told_if, what_if
from gpucommons.scheduler.service.configuration import config_model
from gpucommons.scheduler.service.service import Pending, Service, check, decision
from gpucommons.scheduler.service.views.cluster import node_view, team_views


def get_config(service: Service, principal: Principal) -> models.ConfigModel:
    """The configuration in force."""
    authorization.cluster.get_config(principal)
    return config_model(service.loop.cluster)


def put_config(
    service: Service, principal: Principal, config: models.ConfigModel
) -> Pending[models.TeamList]:
    """Apply pools, teams and policy in one step: all or none."""
    authorization.cluster.put_config(principal)
    cluster = service.loop.cluster
    action = _planned(service, principal, config, cluster)

    def answer() -> models.TeamList:
        return models.TeamList(teams=team_views(principal, service.loop.cluster))

    if action == PutConfig():
        return Pending(probe=answer)
    # What cannot be is refused at once and stored nowhere: a first configuration is tried for long.
    _, (verdict,) = what_if(cluster, [action], service.now_ms())
    check(verdict)
    intent = service.ask(principal, action)
    return decision(service, intent, lambda _: answer())


def check_config(
    service: Service, principal: Principal, config: models.ConfigModel
) -> models.ConfigChanges:
    """What a configuration would change, in the words of the audit; nothing is saved."""
    authorization.cluster.check_config(principal)
    cluster = service.loop.cluster
    action = _planned(service, principal, config, cluster)
    told, verdict = told_if(cluster, action, service.now_ms())
    check(verdict)
    return models.ConfigChanges(changes=list(told))


def _planned(
    service: Service, principal: Principal, config: models.ConfigModel, cluster: Cluster
) -> PutConfig:
    action = plan_config(config, cluster, service.settings.executors)
    _check_managers(config, action, cluster, principal)
    return action


def _check_managers(
    config: models.ConfigModel, planned: PutConfig, cluster: Cluster, principal: Principal
) -> None:
    """A team that a service keeps is changed by that service alone, or taken back in so many words."""
    for team, written in zip(planned.teams, config.teams, strict=True):
        before = cluster.teams.get(team.name)
        if before == team:
            continue
        if team.managed_by not in (None, principal.name):
            message = (
                f"Team {team.name}: managed_by may only be the one who writes it"
                f" ({principal.name}), or null."
            )
            raise Misconfigured(message)
        taken_back = "managed_by" in written.model_fields_set and team.managed_by is None
        if before is not None and not taken_back:
            _must_manage(before, principal)
    for name in planned.removed_teams:
        if name in cluster.teams:
            _must_manage(cluster.teams[name], principal)


def _must_manage(team: Team, principal: Principal) -> None:
    if team.managed_by not in (None, principal.name):
        message = (
            f"Team {team.name} is kept by {team.managed_by} and can only be read here. Change it"
            f" there (on Kubernetes: kubectl edit teams.gpucommons.io {team.name}), or take it back"
            " by applying it with managed_by: null."
        )
        raise Conflict(message)


def set_quotas(
    service: Service, principal: Principal, changes: models.QuotaChanges
) -> Pending[models.LayoutView]:
    """Save several quotas together, or only say whether they can be laid out."""
    authorization.cluster.set_quotas(principal)
    cluster = service.loop.cluster
    action = SetQuotas(quotas=planned_quotas(changes, cluster), seen=seen_quotas(changes))
    pools = sorted({pool for _, pool in action.quotas})
    if not changes.dry_run:
        for name, _ in action.quotas:
            _must_manage(cluster.teams[name], principal)
    if changes.dry_run:
        view = _tried(cluster, action, pools, service)
        return Pending(probe=lambda: view)
    intent = service.ask(principal, action)
    return decision(
        service, intent, lambda _: _layout(service.loop.cluster, pools, ok=True, text=None)
    )


def _tried(
    cluster: Cluster, action: SetQuotas, pools: Sequence[PoolName], service: Service
) -> models.LayoutView:
    after, (verdict,) = what_if(cluster, [action], service.now_ms())
    try:
        check(verdict)
    except CannotLayOut as refusal:
        planned = _with_quotas(cluster, action)
        return _layout(planned, pools, ok=False, text=str(refusal))
    return _layout(after, pools, ok=True, text=None)


def _with_quotas(cluster: Cluster, action: SetQuotas) -> Cluster:
    """The cluster as it was asked for, whether or not it can be."""
    teams = dict(cluster.teams)
    for (team, pool), quota in action.quotas.items():
        teams[team] = replace(teams[team], quotas={**teams[team].quotas, pool: quota})
    return replace(cluster, teams=teams)


def _layout(
    cluster: Cluster, pools: Iterable[PoolName], *, ok: bool, text: str | None
) -> models.LayoutView:
    shown = tuple(pools)
    quotas = [
        quota
        for team in cluster.teams.values()
        for pool, quota in team.quotas.items()
        if pool in shown
    ]
    fixed = sum(quota.fixed_milli_gpu for quota in quotas)
    guaranteed = sum(quota.guaranteed_milli_gpu for quota in quotas)
    total = sum(len(node.devices) * 1000 for node in cluster.nodes.values() if node.pool in shown)
    numbers = (
        f"{format_milli_gpu(fixed)} fixed + {format_milli_gpu(guaranteed)} guaranteed ="
        f" {format_milli_gpu(fixed + guaranteed)} of {format_milli_gpu(total)} GPUs:"
        " they fit"
    )
    return models.LayoutView(
        ok=ok,
        text=numbers if text is None else text,
        fixed_milli_gpu=fixed,
        guaranteed_milli_gpu=guaranteed,
        total_milli_gpu=total,
    )


def set_node_state(
    service: Service, principal: Principal, node: str, request: models.NodeStateRequest
) -> Pending[models.NodeView]:
    """Cordon, uncordon or fence a node."""
    authorization.cluster.set_node_state(principal)
    node_id = _known(service, node)
    action = SetNodeState(node_id=node_id, state=NodeState(request.state), text=request.reason)
    return _decided(service, principal, action)


def notice_node(
    service: Service, principal: Principal, node: str, request: models.NodeNoticeRequest
) -> Pending[models.NodeView]:
    """A node's cloud takes it back: what runs there is saved and goes on elsewhere."""
    authorization.cluster.notice_node(principal)
    leaves_ms = Millis(service.now_ms() + request.in_s * 1000)
    action = NoticeNode(node_id=_known(service, node), leaves_ms=leaves_ms)
    return _decided(service, principal, action)


def _known(service: Service, node: str) -> NodeId:
    known = service.loop.cluster.nodes
    if node not in known:
        message = f"There is no node {node!r}. Nodes: {', '.join(sorted(known)) or 'none'}."
        raise UnknownNode(message)
    return NodeId(node)


def _decided(
    service: Service, principal: Principal, action: SetNodeState | NoticeNode
) -> Pending[models.NodeView]:
    intent = service.ask(principal, action)

    def answer() -> models.NodeView:
        cluster = service.loop.cluster
        return node_view(cluster.nodes[action.node_id], principal, cluster)

    return decision(service, intent, lambda _: answer())
