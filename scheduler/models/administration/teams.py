"""Teams: what they may hold and what they hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gpucommons.scheduler.models.fields import MilliGpu, Model, Name, Switch, UserName, View


class QuotaModel(Model):
    """What a team may hold in one pool."""

    fixed_milli_gpu: MilliGpu = 0
    guaranteed_milli_gpu: MilliGpu = 0
    limit_milli_gpu: MilliGpu | None = None
    over_quota_weight: int = Field(default=1, strict=True, ge=0, le=1000)


class PolicyModel(Model):
    """Rules of a team; a refusal names the field."""

    environments: list[Annotated[str, StringConstraints(max_length=256)]] = []
    max_run_s: int | None = Field(default=None, strict=True, ge=1, le=31_536_000)
    priorities: list[Literal["low", "normal", "high"]] = ["low", "normal", "high"]
    max_milli_gpu_per_job: MilliGpu | None = None
    max_workers: int | None = Field(default=None, strict=True, ge=1, le=1024)
    max_pending_per_user: int = Field(default=100, strict=True, ge=1, le=100_000)
    retrain_in_guarantee: bool = False
    show_names: bool = False
    share_snapshots: bool = False
    drills: Switch = "on"


class TeamModel(Model):
    """A team as an admin writes it (YAML, REST)."""

    name: Name
    parent: Name | None = None
    groups: list[Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,128}$")]] = []
    members: list[UserName] = []
    leads: list[UserName] = []
    quotas: dict[Name, QuotaModel] = {}
    policy: PolicyModel = PolicyModel()
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
