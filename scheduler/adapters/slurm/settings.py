"""What an admin says of the Slurm that pools submit to: one YAML file, read once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from gpucommons.scheduler.models.fields import Model

#: What Slurm calls its own things. It becomes a word of a command, never part of a shell's line.
SlurmName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,:@+-]{0,126}$")]


class SlurmPool(Model):
    """What a pool may take of Slurm at most, and how it asks for it."""

    #: So many nodes' worth of GPUs, CPUs and memory are the pool's at most.
    nodes: int = Field(ge=1, le=1000)
    gpus_per_node: int = Field(default=0, ge=0, le=64)
    gpu_memory_gib: int = Field(default=0, ge=0, le=10_000)
    cpus_per_node: int = Field(ge=1, le=10_000)
    memory_gib_per_node: int = Field(ge=1, le=100_000)
    #: As ``--gres=gpu:TYPE:N`` names it; None = any GPU of the partition.
    gpu_type: SlurmName | None = None
    partition: SlurmName | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    reservation: SlurmName | None = None
    constraint: SlurmName | None = None
    #: None = the partition's own.
    time_limit_minutes: int | None = Field(default=None, ge=2)


class SlurmSettings(Model):
    """How this scheduler reaches Slurm."""

    #: Seen under this path by the scheduler and by all nodes. Jobs run, and their logs lie, here.
    folder: Path
    #: Users' homes, as the nodes see them: ``/home/{user}``.
    homes: str = Field(pattern=r"^/[^{}]*\{user\}[^{}]*$")
    #: Said by the admin: all jobs run as the scheduler's account, and nothing keeps users apart.
    trusted_users: Literal[True]
    #: Said by the admin of a scheduler that is root: jobs of all users are root's on Slurm's nodes, too.
    jobs_as_root: bool = False
    pools: dict[str, SlurmPool] = Field(min_length=1)
    #: On the nodes, with GPU Commons installed.
    python: Path = Path(sys.executable)
    #: Where jobs reach the scheduler's API; None = as it says itself.
    api_url: str | None = None
    #: Where Slurm's commands lie; None = on the scheduler's PATH.
    bin: Path | None = None
    #: ``SLURM_CONF`` for them; None = as the scheduler's environment says.
    conf: Path | None = None
    #: Between two looks at Slurm's queue.
    look_s: float = Field(default=3.0, ge=0.05, le=60)
    #: So long a command of Slurm may take.
    patience_s: float = Field(default=20.0, ge=0.1, le=300)
    #: So long after Slurm has seen a job's end its files may appear.
    files_late_s: float = Field(default=15.0, ge=0, le=600)

    @field_validator("folder", "python")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            message = "must be an absolute path, the same on all nodes"
            raise ValueError(message)
        return value
