"""The past under other quotas: what an admin asks before saving them, and the answer."""

from __future__ import annotations

from pydantic import Field

from gpucommons.scheduler.models.administration.configuration import QuotaChange
from gpucommons.scheduler.models.fields import Model, Name, View


class MoreGpus(Model):
    """GPUs that are not there, in machines like those of the pool."""

    pool: Name
    gpus: int = Field(strict=True, ge=1, le=1000)


class ReplayRequest(Model):
    """The last so many days, with these quotas instead of those in force, or on more GPUs."""

    days: int = Field(default=7, strict=True, ge=1, le=31)
    changes: list[QuotaChange] = Field(default=[], max_length=1000)
    more: list[MoreGpus] = Field(default=[], max_length=100)


class ReplayFigures(View):
    """What one team, or all, got. ``None`` where nobody waited for anything."""

    jobs: int
    median_wait_s: int | None = None
    #: One in ten waited longer.
    worst_tenth_wait_s: int | None = None
    #: Whoever waited so long never started: their wait is longer than that.
    median_is_open: bool = False
    worst_tenth_is_open: bool = False
    held_gpu_h: float
    evictions: int
    lost_gpu_h: float
    #: Those that ask for more than their team's quota will ever let them have; they are in no wait.
    never_started: int = 0


class ReplaySide(View):
    """All teams under one set of quotas."""

    total: ReplayFigures
    teams: dict[str, ReplayFigures]
    utilisation_percent: float
    #: That nobody held.
    idle_gpu_h: float


class ReplayView(View):
    """The same past twice: as quotas are, and as they would be."""

    from_ms: int
    #: Earlier than asked for where the time was not enough for all of it.
    until_ms: int
    workloads: int
    before: ReplaySide
    after: ReplaySide
    text: str
