"""A job as people write it, and the spec that it becomes."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from gpucommons.scheduler.core.demand import may_have, milli_gpu, must_have
from gpucommons.scheduler.core.resources import Team
from gpucommons.scheduler.core.state import Cluster
from gpucommons.scheduler.core.types import Kind, Millis, PoolName, Role, Spec, UserName, WorkloadId
from gpucommons.scheduler.errors import BadRequest, Misconfigured
from gpucommons.scheduler.intake.fit import check_can_run, known_pools, training_pools, trains_in
from gpucommons.scheduler.intake.policies import (
    Asked,
    check_policies,
    default_priority,
    longest_run_ms,
)
from gpucommons.scheduler.intake.teams import choose_team, names
from gpucommons.scheduler.models import JobRequest, RoleRequest
from gpucommons.scheduler.service.principal import Principal

#: Variables that decide about devices, isolation or identity: the scheduler alone sets them.
RESERVED_VARIABLES = (
    "NVIDIA_*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_*",
    "LD_PRELOAD",
    "GPUCOMMONS_*",
    "JUPYTERHUB_*",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a request refers to, looked up before."""

    #: The ids behind ``after``, in order.
    after: tuple[WorkloadId, ...] = ()
    #: The snapshot it names is here.
    snapshot_is_here: bool = True
    #: Workloads of this user that wait already.
    pending: int = 0


def job_spec(request: JobRequest, principal: Principal, cluster: Cluster, found: Found) -> Spec:
    """The spec of a job; its name is still the base that the store makes unique.

    Raises
    ------
    BadRequest, Misconfigured, Forbidden, UnknownTeam, UnknownPool, PolicyRefused
        With a sentence that names the field or the rule, and what is possible.
    """
    _check_names(request)
    _check_variables([*request.env, *request.secrets])
    asks_gpu = any(role.milli_gpu for role in request.roles)
    # An admin may submit for any team, but has to name it.
    named_by_admin = principal.admin and request.team is not None
    if principal.admin and request.team is None and not principal.teams:
        message = (
            f"You are in no team: name the one that pays (team). Teams: {names(cluster.teams)}."
        )
        raise BadRequest(message)
    team = choose_team(
        request.team,
        frozenset(cluster.teams) if named_by_admin else principal.teams,
        cluster,
        usable=lambda team: not asks_gpu or any(map(trains_in, team.quotas.values())),
    )
    if request.snapshot is not None and not found.snapshot_is_here:
        message = (
            f"snapshot {request.snapshot[:12]}… is not here: upload it first"
            " (PUT /v1/snapshots/<sha256>)."
        )
        raise Misconfigured(message)
    spec = _spec(request, principal, cluster, team, found)
    check_policies(_asked(spec, found), team, cluster.policy)
    check_can_run(spec, cluster)
    return spec


def _spec(
    request: JobRequest, principal: Principal, cluster: Cluster, team: Team, found: Found
) -> Spec:
    low, high = _bounds(request)
    owner = UserName(principal.name)
    chosen = "priority" in request.model_fields_set
    return Spec(
        kind=Kind(request.kind),
        name=request.name,
        team=team.name,
        owner=owner,
        submitted_by=owner,
        pools=_pools(request, team, cluster),
        roles=tuple(_role(role) for role in request.roles),
        min_workers=low,
        max_workers=high,
        priority=request.priority if chosen else default_priority(team, cluster.policy),
        over_quota=request.over_quota,
        max_run_ms=longest_run_ms(
            None if request.max_run_s is None else request.max_run_s * 1000, team, cluster.policy
        ),
        start_timeout_ms=request.start_timeout_s * 1000,
        after=found.after,
        not_before_ms=Millis(request.not_before_ms),
        parent=None if request.parent is None else WorkloadId(request.parent),
        launcher=request.launcher,
        snapshot=request.snapshot,
        working_dir=request.working_dir,
        environment=request.environment,
        env=dict(request.env),
        secrets=dict(request.secrets),
        checkpoints_kept=request.checkpoints_kept,
        max_restarts=request.max_restarts,
        results_to=request.results_to,
        labels=dict(request.labels),
    )


def _role(role: RoleRequest) -> Role:
    return Role(
        name=role.name,
        count=role.count,
        milli_gpu=role.milli_gpu,
        gpu_kind=role.gpu_kind if role.milli_gpu else None,
        cpu_milli=role.cpu_milli,
        memory_mib=role.memory_mib,
        command=tuple(role.command),
    )


def _pools(request: JobRequest, team: Team, cluster: Cluster) -> tuple[PoolName, ...]:
    if request.pools:
        return known_pools(request.pools, cluster)
    gpu = any(role.milli_gpu for role in request.roles)
    found = training_pools(team, cluster, gpu=gpu)
    if not found:
        message = (
            f"{team.name} has no training quota in any pool ({names(cluster.pools)}): ask an"
            " admin to set one."
        )
        raise Misconfigured(message)
    return found


def _bounds(request: JobRequest) -> tuple[int | None, int | None]:
    """Elastic bounds around the count of the first role; one alone is completed by the count."""
    low, high, count = request.min_workers, request.max_workers, request.roles[0].count
    if low is None and high is None:
        return None, None
    low = count if low is None else low
    high = count if high is None else high
    if not low <= count <= high:
        message = (
            f"The first role has {count} workers: that must lie between min_workers {low} and"
            f" max_workers {high}."
        )
        raise Misconfigured(message)
    return low, high


def _check_names(request: JobRequest) -> None:
    roles = [role.name for role in request.roles]
    twice = {name for name in roles if roles.count(name) > 1}
    if twice:
        message = f"Two roles have the same name ({names(twice)}): give each its own."
        raise Misconfigured(message)
    both = request.env.keys() & request.secrets.keys()
    if both:
        message = f"{names(both)} is both in env and in secrets: keep one of them."
        raise Misconfigured(message)


def _check_variables(variables: Iterable[str]) -> None:
    for name in variables:
        rule = next((r for r in RESERVED_VARIABLES if fnmatch.fnmatchcase(name, r)), None)
        if rule is not None:
            message = (
                f"The variable {name} may not be set: the scheduler alone sets"
                f" {', '.join(RESERVED_VARIABLES)}."
            )
            raise Misconfigured(message)


def _asked(spec: Spec, found: Found) -> Asked:
    workers = (*must_have(spec), *may_have(spec))
    return Asked(
        environment=spec.environment,
        max_run_ms=spec.max_run_ms,
        priority=spec.priority,
        milli_gpu=milli_gpu(workers),
        workers=len(workers),
        pending=found.pending,
    )
