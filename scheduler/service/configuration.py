"""Pools, teams and policies as an admin writes them, made of what the core holds."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.price_and_budget import Budget, Price
from gpucommons.scheduler.core.model.resources import Growth, Measured, Policy, Pool, Quota, Team
from gpucommons.scheduler.core.model.state import Cluster
from gpucommons.scheduler.money import from_micro


def quota_model(found: Quota) -> models.QuotaModel:
    """A quota as admins write it. Sums of parents may pass what one row may hold: they are shown."""
    return models.QuotaModel.model_construct(
        fixed_milli_gpu=found.fixed_milli_gpu,
        guaranteed_milli_gpu=found.guaranteed_milli_gpu,
        limit_milli_gpu=found.limit_milli_gpu,
        over_quota_weight=found.over_quota_weight,
    )


def policy_model(policy: Policy) -> models.PolicyModel:
    """A policy as admins write it."""
    return models.PolicyModel.model_construct(
        environments=sorted(policy.environments),
        max_run_s=None if policy.max_run_ms is None else policy.max_run_ms // 1000,
        priorities=[p for p in ("low", "normal", "high") if p in policy.priorities],
        max_milli_gpu_per_job=policy.max_milli_gpu_per_job,
        max_price=None if policy.max_price_micro is None else from_micro(policy.max_price_micro),
        max_workers=policy.max_workers,
        max_pending_per_user=policy.max_pending_per_user,
        retrain_in_guarantee=policy.retrain_in_guarantee,
        show_names=policy.show_names,
        share_snapshots=policy.share_snapshots,
        drills=policy.drills,
    )


def config_model(cluster: Cluster) -> models.ConfigModel:
    """Everything an admin can write, as it is now."""
    return models.ConfigModel(
        pools=[_pool_model(pool) for pool in cluster.pools.values()],
        teams=[_team_model(team) for team in cluster.teams.values()],
        policy=policy_model(cluster.policy),
    )


def _pool_model(pool: Pool) -> models.PoolModel:
    return models.PoolModel.model_construct(
        name=pool.name,
        executor=pool.executor,
        gpu_kind=pool.gpu_kind,
        notice_s=pool.notice_ms // 1000,
        grace_s=pool.grace_ms // 1000,
        notice_signal=pool.notice_signal,
        hibernation=pool.hibernation,
        drills=pool.drills,
        on_idle=list(pool.on_idle),
        kernels_kept_days=pool.kernels_kept_days,
        kernels_kept_gib=pool.kernels_kept_gib,
        job_offer_after_s=pool.job_offer_after_ms // 1000,
        headroom_milli_gpu=pool.headroom_milli_gpu,
        moved_permille=pool.moved_permille,
        unlent_permille=pool.unlent_permille,
        lend_after_s=pool.lend_after_ms // 1000,
        min_run_s=pool.min_run_ms // 1000,
        half_life_s=pool.half_life_ms // 1000,
        notebook_sizes=list(pool.notebook_sizes),
        prices=[_price_model(price) for price in pool.prices],
        currency=pool.currency,
        measured=None if pool.measured is None else _measured_model(pool.measured),
        growth=None if pool.growth is None else _growth_model(pool.growth),
    )


def _growth_model(found: Growth) -> models.GrowthModel:
    return models.GrowthModel.model_construct(
        max_nodes=found.max_nodes,
        gpus=found.gpus,
        cpu_milli=found.cpu_milli,
        memory_mib=found.memory_mib,
        boot_s=found.boot_ms // 1000,
    )


def _measured_model(found: Measured) -> models.MeasuredModel:
    return models.MeasuredModel.model_construct(
        at_ms=found.at_ms,
        gpu_kind=found.gpu_kind,
        gemm_tflops=found.gemm_gflops / 1000,
        inside_gb_s=found.inside_mb_s / 1000,
        inside_us=found.inside_ns / 1000,
        between_gb_s=found.between_mb_s / 1000,
        between_us=found.between_ns / 1000,
        between_at_ms=found.between_at_ms,
        drivers=list(found.drivers),
    )


def _price_model(price: Price) -> models.PriceModel:
    day = datetime.fromtimestamp(price.from_ms / 1000, UTC).date() if price.from_ms else None
    return models.PriceModel.model_construct(per_gpu_h=from_micro(price.micro_per_gpu_h), since=day)


def _team_model(team: Team) -> models.TeamModel:
    return models.TeamModel.model_construct(
        name=team.name,
        parent=team.parent,
        groups=sorted(team.groups),
        members=sorted(team.members),
        leads=sorted(team.leads),
        quotas={pool: quota_model(found) for pool, found in team.quotas.items()},
        policy=policy_model(team.policy),
        budget=budget_model(team.budget),
        managed_by=team.managed_by,
    )


def budget_model(budget: Budget | None) -> models.BudgetModel | None:
    """A budget as it was written."""
    if budget is None:
        return None
    money, hours = budget.money_micro, budget.milli_gpu_h
    return models.BudgetModel(
        money=None if money is None else from_micro(money),
        gpu_hours=None if hours is None else hours / 1000,
        at_full=budget.at_full.value,
    )
