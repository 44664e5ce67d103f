"""Whose work ends for somebody who waits: the reason itself names nobody of another team."""

from __future__ import annotations

from collections.abc import Mapping

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import AttemptId, Workload
from gpucommons.scheduler.principal import Principal
from gpucommons.scheduler.service import authorization
from gpucommons.scheduler.service.of_newest_cluster import OfNewestCluster


def _by_attempt(cluster: Cluster) -> Mapping[AttemptId, Workload]:
    return {one.current.attempt_id: one for one in cluster.workloads.values() if one.current}


_holders = OfNewestCluster(_by_attempt)


def shows_names(principal: Principal, workload: Workload, cluster: Cluster) -> bool:
    """Whether the caller gets to see whose it is: own teams, admins, and where policy says so."""
    spec = workload.spec
    if authorization.sight.sees(principal, spec.team, spec.owner):
        return True
    team = cluster.teams.get(spec.team)
    return cluster.policy.show_names or (team is not None and team.policy.show_names)


def names_of_others(workload: Workload, principal: Principal, cluster: Cluster) -> list[str]:
    """Jobs of other teams that end for it first, as far as this caller may know their names."""
    if workload.nomination is None:
        return []
    attempts = _holders.of(cluster)
    found = [attempts[one] for one in workload.nomination.victims if one in attempts]
    return sorted(
        f"{one.spec.team}/{one.spec.name}"
        for one in found
        if one.spec.team != workload.spec.team
        and not is_lease(one)
        and shows_names(principal, one, cluster)
    )
