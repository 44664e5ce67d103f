"""Pools, teams and policies as admins write them, and the core's own values: both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType

from gpucommons.gpu.slices.slices import MpsDaemon, format_milli_gpu
from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.demand import is_block_size
from gpucommons.scheduler.core.model.intents import PutConfig
from gpucommons.scheduler.core.model.price_and_budget import Budget, BudgetPolicy, Price
from gpucommons.scheduler.core.model.resources import Growth, Measured, Policy, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName, UserName
from gpucommons.scheduler.errors import Misconfigured, UnknownPool, UnknownTeam
from gpucommons.scheduler.intake.paying_team import names
from gpucommons.scheduler.money import to_micro

#: The executor whose nodes an autoscaler may bring.
_GROWS_ON = "kubernetes"


def plan_config(
    config: models.ConfigModel, cluster: Cluster, executors: tuple[str, ...]
) -> PutConfig:
    """Read a configuration that makes sense as such; what it leaves out stays as it is.

    Raises
    ------
    Misconfigured, UnknownPool
        When names appear twice, a pool is missing, or a pool cannot be (see :func:`plan_pools`).
    """
    pools = plan_pools(config, executors, cluster.pools)
    _one_currency({**cluster.pools, **{pool.name: pool for pool in pools}}.values())
    _once("teams", [team.name for team in config.teams])
    both = {team.name for team in config.teams} & set(config.removed_teams)
    if both:
        message = f"{names(both)} is both saved and removed: write one of the two."
        raise Misconfigured(message)
    known = {*cluster.pools, *(pool.name for pool in pools)}
    for team in config.teams:
        for name in team.quotas:
            if name not in known:
                message = f"Team {team.name} has a quota in pool {name!r}, which is none of {names(known)}."
                raise UnknownPool(message)
        _check_quotas(team)
    return PutConfig(
        pools=pools,
        teams=tuple(_team(team, cluster.teams.get(TeamName(team.name))) for team in config.teams),
        policy=None if config.policy is None else policy_of(config.policy),
        removed_teams=tuple(TeamName(name) for name in config.removed_teams),
    )


def plan_pools(
    config: models.ConfigModel,
    executors: tuple[str, ...],
    known: Mapping[PoolName, Pool] = MappingProxyType({}),
) -> tuple[Pool, ...]:
    """Read the pools alone, for an installation that has these executors.

    A pool that names none keeps the one it has; a new one gets the first.

    Raises
    ------
    Misconfigured
        When a name appears twice, a notebook size is no block size, or an executor is not there.
    """
    _once("pools", [pool.name for pool in config.pools])
    return tuple(_pool(pool, executors, known.get(PoolName(pool.name))) for pool in config.pools)


def planned_quotas(
    changes: models.QuotaChanges, cluster: Cluster
) -> dict[tuple[TeamName, PoolName], Quota]:
    """Read a table of quotas.

    Raises
    ------
    Misconfigured, UnknownTeam, UnknownPool
        When a row names what is not there, or two rows the same.
    """
    planned: dict[tuple[TeamName, PoolName], Quota] = {}
    for change in changes.changes:
        key = (TeamName(change.team), PoolName(change.pool))
        if change.team not in cluster.teams:
            message = f"There is no team {change.team!r}. Teams: {names(cluster.teams)}."
            raise UnknownTeam(message)
        if change.pool not in cluster.pools:
            message = f"There is no pool {change.pool!r}. Pools: {names(cluster.pools)}."
            raise UnknownPool(message)
        if key in planned:
            message = f"{change.team} in pool {change.pool} is set twice: keep one of the rows."
            raise Misconfigured(message)
        _check_quota(change.team, change.pool, change.quota)
        planned[key] = quota_of(change.quota)
    return planned


def seen_quotas(changes: models.QuotaChanges) -> dict[tuple[TeamName, PoolName], Quota]:
    """What the rows' quotas were for whoever changes them, where a row says so."""
    return {
        (TeamName(change.team), PoolName(change.pool)): quota_of(change.was)
        for change in changes.changes
        if change.was is not None
    }


def _once(what: str, found: list[str]) -> None:
    twice = {name for name in found if found.count(name) > 1}
    if twice:
        message = f"{names(twice)} appears twice among the {what}: keep one."
        raise Misconfigured(message)


def _one_currency(pools: Iterable[Pool]) -> None:
    found = sorted({pool.currency for pool in pools if pool.prices})
    if len(found) > 1:
        message = (
            f"Pools have prices in {' and '.join(found)}: costs of a team could not be added up. Write"
            " all prices in one currency."
        )
        raise Misconfigured(message)


def _prices(prices: Iterable[models.PriceModel]) -> tuple[Price, ...]:
    found = [
        Price(from_ms=_start_of(price.since), micro_per_gpu_h=to_micro(price.per_gpu_h))
        for price in prices
    ]
    return tuple(sorted(found, key=lambda price: price.from_ms))


def _start_of(day: date | None) -> Millis:
    if day is None:
        return Millis(0)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return Millis(max(0, int(midnight.timestamp() * 1000)))


def _check_quotas(team: models.TeamModel) -> None:
    for pool, quota in team.quotas.items():
        _check_quota(team.name, pool, quota)


def _check_quota(team: str, pool: str, quota: models.QuotaModel) -> None:
    limit = quota.limit_milli_gpu
    if limit is not None and limit < quota.guaranteed_milli_gpu:
        message = (
            f"{team} in pool {pool}: the limit {format_milli_gpu(limit)} is below the guarantee"
            f" {format_milli_gpu(quota.guaranteed_milli_gpu)}. Raise the limit or lower the guarantee."
        )
        raise Misconfigured(message)


def _executor(pool: models.PoolModel, executors: tuple[str, ...], known: Pool | None) -> str:
    if pool.executor in executors:
        return pool.executor
    if pool.executor is None:
        return known.executor if known is not None else executors[0]
    here = (
        f"{executors[0]} runs all work" if len(executors) == 1 else f"there are {names(executors)}"
    )
    message = (
        f"Pool {pool.name}: there is no executor {pool.executor} here, {here}. Leave `executor` out,"
        " or start the scheduler with --executor where a package brings it."
    )
    raise Misconfigured(message)


def _pool(pool: models.PoolModel, executors: tuple[str, ...], known: Pool | None) -> Pool:
    for size in pool.notebook_sizes:
        if not is_block_size(size):
            message = (
                f"Pool {pool.name}: {format_milli_gpu(size)} is no notebook size. Sizes are"
                " ⅛, ¼, ½, 1, 2, 4, … GPUs."
            )
            raise Misconfigured(message)
    return Pool(
        name=PoolName(pool.name),
        executor=_executor(pool, executors, known),
        gpu_kind=pool.gpu_kind,
        notice_ms=pool.notice_s * 1000,
        grace_ms=pool.grace_s * 1000,
        notice_signal=pool.notice_signal,
        hibernation=pool.hibernation,
        drills=pool.drills,
        on_idle=tuple(dict.fromkeys(pool.on_idle)),
        kernels_kept_days=pool.kernels_kept_days,
        kernels_kept_gib=pool.kernels_kept_gib,
        job_offer_after_ms=pool.job_offer_after_s * 1000,
        headroom_milli_gpu=pool.headroom_milli_gpu,
        moved_permille=pool.moved_permille,
        unlent_permille=pool.unlent_permille,
        lend_after_ms=pool.lend_after_s * 1000,
        min_run_ms=pool.min_run_s * 1000,
        half_life_ms=pool.half_life_s * 1000,
        notebook_sizes=tuple(sorted(set(pool.notebook_sizes))),
        mps=None if pool.mps is None else MpsDaemon(**pool.mps.model_dump()),
        prices=_prices(pool.prices),
        currency=pool.currency,
        measured=_measured(pool, known),
        growth=_growth(pool, _executor(pool, executors, known)),
    )


def _growth(pool: models.PoolModel, executor: str) -> Growth | None:
    """Refused where nothing would ever come of it."""
    found = pool.growth
    if found is None:
        return None
    if executor != _GROWS_ON:
        message = (
            f"Pool {pool.name}: only the pools of a cluster get nodes by demand, and its work runs on"
            f" {executor}. Leave `growth` out."
        )
        raise Misconfigured(message)
    return Growth(
        max_nodes=found.max_nodes,
        gpus=found.gpus,
        cpu_milli=found.cpu_milli,
        memory_mib=found.memory_mib,
        boot_ms=found.boot_s * 1000,
    )


def _measured(pool: models.PoolModel, known: Pool | None) -> Measured | None:
    """What a probe found, in whole numbers; a file that does not name it leaves it as it is."""
    found = pool.measured
    if found is None:
        return None if known is None else known.measured
    return Measured(
        at_ms=Millis(found.at_ms),
        gpu_kind=found.gpu_kind,
        gemm_gflops=_in_thousandths(found.gemm_tflops),
        inside_mb_s=_in_thousandths(found.inside_gb_s),
        inside_ns=_in_thousandths(found.inside_us),
        between_mb_s=_in_thousandths(found.between_gb_s),
        between_ns=_in_thousandths(found.between_us),
        between_at_ms=Millis(found.between_at_ms),
        drivers=tuple(sorted(set(found.drivers))),
    )


def _in_thousandths(number: float) -> int:
    """However little was measured, it was: 0 is for what was not looked at."""
    return max(1, round(number * 1000)) if number else 0


def _team(team: models.TeamModel, known: Team | None) -> Team:
    # Who keeps a team's quotas elsewhere may know nothing of money: a budget that is left out stays.
    budget = None if known is None else known.budget
    if "budget" in team.model_fields_set:
        budget = None if team.budget is None else budget_of(team.budget)
    return Team(
        name=TeamName(team.name),
        parent=None if team.parent is None else TeamName(team.parent),
        groups=frozenset(team.groups),
        members=frozenset(UserName(name) for name in team.members),
        leads=frozenset(UserName(name) for name in team.leads),
        quotas={PoolName(pool): quota_of(quota) for pool, quota in team.quotas.items()},
        policy=policy_of(team.policy),
        managed_by=None if team.managed_by is None else UserName(team.managed_by),
        budget=budget,
        budget_spent="" if known is None or budget is None else known.budget_spent,
    )


def budget_of(budget: models.BudgetModel) -> Budget:
    """A budget as written, as the core's value."""
    return Budget(
        money_micro=None if budget.money is None else to_micro(budget.money),
        milli_gpu_h=None if budget.gpu_hours is None else round(budget.gpu_hours * 1000),
        at_full=BudgetPolicy(budget.at_full),
    )


def quota_of(quota: models.QuotaModel) -> Quota:
    """A quota as written, as the core's value."""
    return Quota(
        fixed_milli_gpu=quota.fixed_milli_gpu,
        guaranteed_milli_gpu=quota.guaranteed_milli_gpu,
        limit_milli_gpu=quota.limit_milli_gpu,
        over_quota_weight=quota.over_quota_weight,
    )


def policy_of(policy: models.PolicyModel) -> Policy:
    """A policy as written, as the core's value."""
    return Policy(
        environments=frozenset(policy.environments),
        max_run_ms=None if policy.max_run_s is None else policy.max_run_s * 1000,
        priorities=frozenset(policy.priorities),
        max_milli_gpu_per_job=policy.max_milli_gpu_per_job,
        max_price_micro=None if policy.max_price is None else to_micro(policy.max_price),
        max_workers=policy.max_workers,
        max_pending_per_user=policy.max_pending_per_user,
        retrain_in_guarantee=policy.retrain_in_guarantee,
        show_names=policy.show_names,
        share_snapshots=policy.share_snapshots,
        drills=policy.drills,
    )
