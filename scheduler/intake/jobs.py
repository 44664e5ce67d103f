"""A job as people write it, and the spec that it becomes."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from gpucommons.scheduler.core.model.demand import (
    WhyNoSlices,
    may_have,
    milli_gpu,
    must_have,
)
from gpucommons.scheduler.core.model.resources import Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import (
    Kind,
    Millis,
    PoolName,
    Role,
    Spec,
    UserName,
    Workload,
    WorkloadId,
)
from gpucommons.scheduler.errors import BadRequest, Misconfigured, TooLarge
from gpucommons.scheduler.intake.could_ever_run import (
    able_pools,
    check_can_run,
    gpu_pools,
    known_pools,
    training_pools,
    trains_in,
)
from gpucommons.scheduler.intake.gpu_memory import settled
from gpucommons.scheduler.intake.leases import host_share
from gpucommons.scheduler.intake.own_arguments import check_own_arguments, with_own_variables
from gpucommons.scheduler.intake.paying_team import choose_team, names
from gpucommons.scheduler.intake.team_rules import (
    Asked,
    as_allowed,
    check_pending,
    check_policies,
    default_priority,
    longest_run_ms,
)
from gpucommons.scheduler.launchers import AUTO, PLAIN, refusal, told_of_each
from gpucommons.scheduler.launchers.launcher import Asked as AskedToStart
from gpucommons.scheduler.models import RESERVED_VARIABLES, JobRequest, RoleRequest
from gpucommons.scheduler.models.text.state_words import state_words
from gpucommons.scheduler.money import to_micro
from gpucommons.scheduler.plans import ChosenPlan
from gpucommons.scheduler.principal import Principal

#: Of a whole request, as JSON: it is kept as long as history is, and copied with every look.
MAX_REQUEST_BYTES = 64 << 10
#: Of the commands of all workers that a launcher starts: on a cluster all of them are told to each, in
#: one variable, and Linux starts nothing with one of 128 KiB.
MAX_COMMANDS_BYTES = 100 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a request refers to, looked up before."""

    why_not: WhyNoSlices
    #: The ids behind ``after``, ``after_any`` and ``after_failed``, and of the latter again.
    after: tuple[WorkloadId, ...] = ()
    after_any: tuple[WorkloadId, ...] = ()
    after_failed: tuple[WorkloadId, ...] = ()
    #: The ids behind ``near``, in order.
    near: tuple[WorkloadId, ...] = ()
    #: The job that it goes on from.
    resume_from: Workload | None = None
    #: The snapshot it names is here, and jobs of this team may be made of it by whoever asks.
    has_snapshot: Callable[[Team], bool] = lambda _team: True
    #: Finds the environment that really runs, maybe by the snapshot's files, under each word that a
    #: rule may name it by; None = as asked.
    environment: Callable[[], tuple[str, ...]] | None = None
    #: What its command or script proposes, read when its files may be.
    launcher: Callable[[], str] = lambda: PLAIN
    #: What was said of the plan that it follows.
    plan: ChosenPlan | None = None
    #: Workloads of this user that wait already.
    pending: int = 0


def job_spec(request: JobRequest, principal: Principal, cluster: Cluster, found: Found) -> Spec:
    """The spec of a job; its name is still the base that the store makes unique.

    Raises
    ------
    BadRequest, Misconfigured, TooLarge, Forbidden, UnknownTeam, UnknownPool, PolicyRefused
        With a sentence that names the field or the rule, and what is possible.
    """
    _check_size(request)
    _check_names(request)
    _check_variables([*request.env, *request.secrets])
    team = _paying_team(request, principal, cluster)
    if request.snapshot is not None and not found.has_snapshot(team):
        # The same where it is here and another's: that is not for strangers to know.
        message = (
            "These files are none of yours here: submit from the folder or notebook itself. Files of"
            " teammates' jobs may be run where an admin allows it (policy share_snapshots). Over REST they"
            f" are uploaded first: PUT /v1/snapshots/<sha256>, here {request.snapshot[:12]}…."
        )
        raise Misconfigured(message)
    if found.resume_from is not None:
        _check_resumed(found.resume_from, team)
    spec = _spec(request, principal, cluster, team, found)
    check_pending(found.pending, team, cluster.policy)
    check_policies(replace(asked_of(spec), environment=None), team, cluster.policy)
    check_can_run(spec, cluster)
    pools = able_pools(spec, found.why_not, chosen=bool(request.pools))
    # Its files are read from here on, which takes time: what is refused anyhow was refused before.
    words = (request.environment,) if found.environment is None else found.environment()
    spec = replace(
        spec,
        pools=pools,
        launcher=_launcher(request, found),
        environment=as_allowed(words, team, cluster.policy),
    )
    check_commands(spec)
    check_own_arguments(spec)
    check_policies(asked_of(spec), team, cluster.policy)
    return with_own_variables(spec)


def _check_size(request: JobRequest) -> None:
    size_bytes = len(request.model_dump_json().encode())
    if size_bytes > MAX_REQUEST_BYTES:
        message = (
            f"The job's description takes {-(-size_bytes >> 10)} KiB, and {MAX_REQUEST_BYTES >> 10} KiB"
            " are possible: put long commands and values into files that the job reads."
        )
        raise TooLarge(message)


def _paying_team(request: JobRequest, principal: Principal, cluster: Cluster) -> Team:
    asks_gpu = any(role.milli_gpu or role.gpu_memory_mib for role in request.roles)
    # An admin may submit for any team, and so may a service for others: whoever lets people in
    # there has decided who belongs to the team. Both have to name it.
    for_any_team = principal.admin or request.user not in (None, principal.name)
    if for_any_team and request.team is None and not principal.teams:
        message = (
            "You are in no team: name the one that pays (team; --team on the command line, --account of"
            " sbatch). Teams:"
            f" {names(cluster.teams)}."
        )
        raise BadRequest(message)
    return choose_team(
        request.team,
        frozenset(cluster.teams) if for_any_team and request.team else principal.teams,
        cluster,
        usable=lambda team: not asks_gpu or any(map(trains_in, team.quotas.values())),
    )


def _spec(
    request: JobRequest, principal: Principal, cluster: Cluster, team: Team, found: Found
) -> Spec:
    low, high = _bounds(request)
    owner = UserName(request.user or principal.name)
    chosen = "priority" in request.model_fields_set
    asked, pools = settled(request.roles, _pools(request, team, cluster), cluster, found.why_not)
    return Spec(
        kind=Kind(request.kind),
        name=request.name,
        team=team.name,
        owner=owner,
        submitted_by=principal.name,
        pools=pools,
        roles=tuple(_role(role, pools, cluster) for role in asked),
        min_workers=low,
        max_workers=high,
        priority=request.priority if chosen else default_priority(team, cluster.policy),
        over_quota=request.over_quota,
        max_run_ms=longest_run_ms(
            None if request.max_run_s is None else request.max_run_s * 1000, team, cluster.policy
        ),
        max_price_micro=None if request.max_price is None else to_micro(request.max_price),
        start_timeout_ms=request.start_timeout_s * 1000,
        after=found.after,
        after_any=found.after_any,
        after_failed=found.after_failed,
        near=found.near,
        data=tuple(dict.fromkeys(request.data)),
        not_before_ms=Millis(request.not_before_ms),
        parent=None if request.parent is None else WorkloadId(request.parent),
        resume_from=None if found.resume_from is None else found.resume_from.workload_id,
        launcher=request.launcher,
        snapshot=request.snapshot,
        working_dir=request.working_dir,
        environment=request.environment,
        links=tuple(dict.fromkeys(request.links)),
        links_from=request.links_from,
        env=dict(request.env),
        secrets=dict(request.secrets),
        checkpoints_kept=request.checkpoints_kept,
        max_restarts=request.max_restarts,
        results_to=request.results_to,
        exit_after_signal=request.exit_after_signal,
        notice_signal=request.notice_signal,
        hibernation=request.hibernation,
        labels=dict(request.labels),
        plan=found.plan,
    )


def _check_resumed(earlier: Workload, team: Team) -> None:
    """Its saved progress can be gone on from: it is there, the team's, and nobody adds to it."""
    name = earlier.spec.name
    if earlier.spec.team != team.name:
        message = (
            f"resume_from: {name} belongs to {earlier.spec.team}, this to {team.name}. Submit it"
            f" for {earlier.spec.team}."
        )
        raise Misconfigured(message)
    if earlier.checkpoint is None:
        message = f"resume_from: {name} has saved no checkpoint to go on from. Submit without it."
        raise Misconfigured(message)
    if earlier.current is not None:
        message = (
            f"resume_from: {name} is {state_words(earlier.state)} and may save more. Pause or cancel it first;"
            " then this goes on from what it saved last."
        )
        raise Misconfigured(message)


def _role(role: RoleRequest, pools: tuple[PoolName, ...], cluster: Cluster) -> Role:
    # Who does not say how many processors it needs shall not leave its guarantee for them.
    chosen = "cpu_milli" in role.model_fields_set or not role.milli_gpu
    most = role.cpu_milli if chosen else host_share(pools[0], cluster, role.milli_gpu)[0]
    return Role(
        name=role.name,
        count=role.count,
        milli_gpu=role.milli_gpu,
        gpu_kind=role.gpu_kind if role.milli_gpu else None,
        cpu_milli=max(1, min(role.cpu_milli, most)),
        memory_mib=role.memory_mib,
        command=tuple(role.command),
        gpu_memory_mib=role.gpu_memory_mib or 0,
    )


def _pools(request: JobRequest, team: Team, cluster: Cluster) -> tuple[PoolName, ...]:
    if request.pools:
        return known_pools(request.pools, cluster)
    gpu = any(role.milli_gpu or role.gpu_memory_mib for role in request.roles)
    found = training_pools(team, cluster, gpu=gpu)
    if not found:
        message = (
            f"{team.name} has no training quota in any pool with GPUs ({names(gpu_pools(cluster))}):"
            " ask an admin to set one."
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


def _launcher(request: JobRequest, found: Found) -> str:
    """The launcher that it gets.

    Raises
    ------
    Misconfigured
        With what the launcher cannot start.
    """
    launcher = found.launcher() if request.launcher == AUTO else request.launcher
    asked = AskedToStart(
        roles={role.name: role.count for role in request.roles},
        command=tuple(request.roles[0].command),
        variables={*request.env, *request.secrets},
    )
    if (why := refusal(launcher, asked)) is not None:
        raise Misconfigured(f"launcher: {why}")
    return launcher


def check_commands(spec: Spec) -> None:
    """Refuse commands that are too long to be told to so many workers.

    Raises
    ------
    Misconfigured
        With how long they may be.
    """
    counts = [role.count for role in spec.roles]
    counts[0] = max(counts[0], spec.max_workers or 0)
    workers = sum(counts)
    told_bytes = told_of_each(spec.launcher)
    size_bytes = sum(
        count * (len(json.dumps(role.command)) + told_bytes)
        for count, role in zip(counts, spec.roles, strict=True)
    )
    if told_bytes and size_bytes > MAX_COMMANDS_BYTES:
        message = (
            f"launcher: {spec.launcher} tells each of {workers} workers where all others are, beside its"
            f" command, which makes {-(-size_bytes >> 10)} KiB, and {MAX_COMMANDS_BYTES >> 10} KiB are possible."
            " Ask for fewer workers with more GPUs each, or put long words into a file that the job reads."
        )
        raise Misconfigured(message)
    if spec.launcher != PLAIN and workers > 1 and size_bytes > MAX_COMMANDS_BYTES:
        message = (
            f"command: it is told to each of {workers} workers, which makes {-(-size_bytes >> 10)} KiB, and"
            f" {MAX_COMMANDS_BYTES >> 10} KiB are possible. Put its long words into a file that the job reads."
        )
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


def asked_of(spec: Spec) -> Asked:
    """What policies look at of a job."""
    workers = (*must_have(spec), *may_have(spec))
    return Asked(
        environment=spec.environment,
        max_run_ms=spec.max_run_ms,
        priority=spec.priority,
        milli_gpu=milli_gpu(workers),
        workers=len(workers),
    )
