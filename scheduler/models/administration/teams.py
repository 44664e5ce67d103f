"""Teams: what they may hold and what they hold."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import (
    MilliGpu,
    Model,
    Name,
    PricePerHour,
    RunSeconds,
    Switch,
    UserName,
    View,
    Workers,
)


class QuotaModel(Model):
    """What a team may hold in one pool."""

    #: GPUs that the team's notebooks may hold; never taken back, and lent while unused.
    fixed_milli_gpu: MilliGpu = 0
    #: GPUs that its training can always win back.
    guaranteed_milli_gpu: MilliGpu = 0
    #: The most that its training may hold, guaranteed and borrowed together; left out: no such limit.
    limit_milli_gpu: MilliGpu | None = None
    #: Its part of the surplus beside other teams that borrow; 0: it never borrows.
    over_quota_weight: int = Field(default=1, strict=True, ge=0, le=1000)


class PolicyModel(Model):
    """Rules of a team; a refusal names the field."""

    #: Environments (images, kernels) that may be used; empty: all.
    environments: list[Annotated[str, StringConstraints(max_length=256)]] = []
    #: A job runs no longer, all its attempts together.
    max_run_s: RunSeconds | None = None
    #: Those that a job may ask for.
    priorities: list[Literal["low", "normal", "high"]] = ["low", "normal", "high"]
    #: GPUs of all workers of a job together, at most.
    max_milli_gpu_per_job: MilliGpu | None = None
    #: Per GPU and hour, in the pools' currency: jobs wait while each of their pools costs more.
    max_price: PricePerHour | None = None
    #: Workers of a job, at most.
    max_workers: Workers | None = None
    #: Jobs that one user may have waiting, at most.
    max_pending_per_user: int = Field(default=100, strict=True, ge=1, le=100_000)
    #: Retraining may use the guarantee; else it runs on borrowed GPUs alone.
    retrain_in_guarantee: bool = False
    #: Others see the owners' names of its jobs and notebooks, also those of other teams.
    show_names: bool = False
    #: Members may run jobs from what each other's jobs of the team ran from.
    share_snapshots: bool = False
    #: ``off``: its jobs are not stopped on purpose where their pool would have it.
    drills: Switch = "on"


class BudgetModel(Model):
    """What a team may use in a calendar month (UTC): money or GPU-hours, and what then."""

    #: In the currency of the pools' prices.
    money: float | None = Field(default=None, ge=0.01, le=1e12, allow_inf_nan=False)
    #: In place of money.
    gpu_hours: float | None = Field(default=None, ge=0.01, le=1e9, allow_inf_nan=False)
    #: ``warn``: it is said; ``no-borrow``: jobs run in the quota alone; ``no-new-jobs``: none starts.
    at_full: Literal["warn", "no-borrow", "no-new-jobs"] = "warn"

    @model_validator(mode="after")
    def _counts_one_thing(self) -> Self:
        if (self.money is None) == (self.gpu_hours is None):
            raise ValueError("A budget is in money or in gpu_hours: say one of the two.")
        return self


class BudgetChange(Model):
    """A team's new budget; null takes it away."""

    budget: BudgetModel | None


class TeamModel(Model):
    """A team as an admin writes it (YAML, REST)."""

    #: What jobs and quotas call it.
    name: Name
    #: A team above it (a department), whose numbers are the sum of its teams'.
    parent: Name | None = None
    #: Groups of the hub whose members belong to it.
    groups: list[Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,128}$")]] = []
    #: Members named one by one (no hub, or beside its groups).
    members: list[UserName] = []
    #: Users who see and steer everything of it.
    leads: list[UserName] = []
    #: What it may hold, by pool.
    quotas: dict[Name, QuotaModel] = {}
    #: Its own rules, beside those of the hub.
    policy: PolicyModel = PolicyModel()
    #: For each calendar month; left out: as it is, ``null``: none.
    budget: BudgetModel | None = None
    #: The service that alone changes this team; ``null``, written out, takes the team back.
    managed_by: UserName | None = None


class TeamUseView(View):
    """A team's numbers in one pool."""

    pool: str
    quota: QuotaModel
    fixed_used_milli_gpu: int = 0
    guaranteed_used_milli_gpu: int = 0
    borrowed_milli_gpu: int = 0
    waiting: int = 0


class TeamView(View):
    """A team; ``mine`` is true for the caller's own."""

    name: str
    parent: str | None = None
    mine: bool = False
    groups: list[str] = []
    members: list[str] = []
    leads: list[str] = []
    use: list[TeamUseView] = []
    policy: PolicyModel | None = None
    #: Sizes of a worker, in milli-GPU, that forms offer to it: what it may train on at once.
    sizes: list[int] = []
    #: Who alone changes it; None = whoever is an admin.
    managed_by: str | None = None


class TeamList(View):
    """All teams that the caller may see."""

    teams: list[TeamView]


class BudgetView(View):
    """How much of a team's budget of this month is used."""

    team: str
    #: None: the team has none; what it used is told all the same.
    budget: BudgetModel | None = None
    #: ``2026-11``.
    month: str
    spent_money: float | None = None
    spent_gpu_hours: float
    currency: str = ""
    #: Of the budget, rounded down; None without one.
    percent: int | None = None
    #: ``none``, ``ok``, ``near`` (from 80 % on) or ``full``.
    state: Literal["none", "ok", "near", "full"]
    #: One sentence with all of it.
    text: str
    #: Of that what had no price, and so is not in the money.
    unpriced_gpu_hours: float = 0.0


class BudgetList(View):
    """Budgets of the teams that the caller sees."""

    budgets: list[BudgetView]
    now_ms: int
