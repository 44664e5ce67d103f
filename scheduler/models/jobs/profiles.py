"""Profiles: forms of a team that a lead publishes, and that others start their jobs with."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from gpucommons.scheduler.models.fields import (
    Argument,
    CpuMilli,
    EnvName,
    GpuKind,
    GpuMemoryMib,
    LauncherName,
    Line,
    MemoryMib,
    MilliGpu,
    Model,
    Name,
    PricePerHour,
    RunSeconds,
    View,
    Workers,
)
from gpucommons.scheduler.models.jobs.jobs import JobRequest

#: On a job: the profile that it was started with.
PROFILE_LABEL = "profile"
#: Fields of a profile that are its workers'; ``workers`` is their number.
_OF_WORKERS = ("milli_gpu", "gpu_memory_mib", "gpu_kind", "cpu_milli", "memory_mib")


class ProfileJob(Model):
    """What a profile says of a job; what it leaves out stays as whoever starts one has it."""

    launcher: LauncherName | None = None
    #: As in a job: an image, or the name of an environment that each user has.
    environment: Annotated[str, StringConstraints(pattern=r"^[ -~]{1,256}$")] | None = None
    workers: Workers | None = None
    min_workers: Workers | None = None
    max_workers: Workers | None = None
    #: Of each worker.
    milli_gpu: MilliGpu | None = None
    gpu_memory_mib: GpuMemoryMib | None = None
    gpu_kind: GpuKind | None = None
    cpu_milli: CpuMilli | None = None
    memory_mib: MemoryMib | None = None
    pools: list[Name] | None = Field(default=None, max_length=16)
    data: list[Name] | None = Field(default=None, max_length=16)
    priority: Literal["low", "normal", "high"] | None = None
    over_quota: bool | None = None
    max_run_s: RunSeconds | None = None
    max_price: PricePerHour | None = None
    env: dict[EnvName, Argument] | None = Field(default=None, max_length=128)
    #: Names of secrets, which each user keeps for themselves.
    secrets: dict[EnvName, Name] | None = Field(default=None, max_length=32)
    notice_signal: Literal["SIGUSR1", "none"] | None = None
    exit_after_signal: Literal["preempted", "success"] | None = None
    hibernation: bool | None = None
    #: What runs where it needs no file of whoever starts it: a program of the image.
    command: list[Argument] | None = Field(default=None, min_length=1, max_length=256)

    def worker(self) -> dict[str, Any]:
        """What it says of each worker and of their number, as the fields of a role."""
        said = self.model_dump(exclude_none=True)
        number = {"count": self.workers} if self.workers is not None else {}
        return number | {field: said[field] for field in _OF_WORKERS if field in said}

    def options(self) -> dict[str, Any]:
        """All else that it says, as fields of a job."""
        said = self.model_dump(exclude_none=True)
        return {
            field: value
            for field, value in said.items()
            if field not in (*_OF_WORKERS, "workers", "command")
        }

    def request(self, name: str) -> JobRequest:
        """A job of nothing but this profile, which runs its command or nothing."""
        role = {**self.worker(), "command": self.command or ["true"]}
        return JobRequest.model_validate({"name": name, **self.options(), "roles": [role]})


class ProfileRequest(Model):
    """A profile as a lead publishes it."""

    #: For whoever chooses among several: what it is good for.
    description: Line = ""
    #: The framework whose one line, in the script, hands its progress in.
    callback: Literal["transformers", "lightning", "keras"] | None = None
    job: ProfileJob = ProfileJob()

    @model_validator(mode="after")
    def _is_a_job(self) -> ProfileRequest:
        self.job.request("profile")
        return self


class NamedProfile(ProfileRequest):
    """One in a file: which it is, and what it says."""

    team: Name
    name: Name

    def published(self) -> ProfileRequest:
        """What is sent."""
        return ProfileRequest.model_validate(self.model_dump(exclude={"team", "name"}))


class ProfilesFile(Model):
    """What `apply` takes of a file."""

    profiles: list[NamedProfile] = []


class ProfileView(View):
    """A profile as its team sees it."""

    team: str
    name: str
    description: str = ""
    callback: str | None = None
    #: The line for that framework, as its guide has it.
    callback_line: str = ""
    job: ProfileJob
    published_by: str
    published_ms: int
    #: The caller may publish it anew, or remove it.
    steerable: bool = False


class ProfileList(View):
    """Those of the caller's teams, by team and name."""

    profiles: list[ProfileView]
