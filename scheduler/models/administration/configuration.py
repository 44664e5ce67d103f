"""What an admin changes as a whole, or not at all: the YAML file and the quota table."""

from __future__ import annotations

from pydantic import Field

from gpucommons.scheduler.models.administration.pools import PoolModel
from gpucommons.scheduler.models.administration.teams import PolicyModel, QuotaModel, TeamModel
from gpucommons.scheduler.models.fields import Model, Name, View


class ConfigModel(Model):
    """One YAML file: pools, teams and the hub-wide policy; what is left out stays as it is."""

    pools: list[PoolModel] = []
    teams: list[TeamModel] = []
    policy: PolicyModel | None = None
    removed_teams: list[Name] = Field(default=[], max_length=1000)


class ConfigChanges(View):
    """What a configuration would change, one sentence each, as the audit would tell it."""

    changes: list[str]


class QuotaChange(Model):
    """One row of the quota table."""

    team: Name
    pool: Name
    quota: QuotaModel
    #: What it is for whoever changes it: refused where somebody else has changed it meanwhile.
    was: QuotaModel | None = None


class QuotaChanges(Model):
    """Several quotas, saved together or not at all. ``dry_run`` only checks the layout."""

    changes: list[QuotaChange] = Field(min_length=1, max_length=1000)
    dry_run: bool = False


class LayoutView(View):
    """What the check says: "8 fixed + 22 guaranteed = 30 of 32 GPUs: they fit"."""

    ok: bool
    text: str
    fixed_milli_gpu: int
    guaranteed_milli_gpu: int
    total_milli_gpu: int
