"""What a single field may hold, written once, so that every interface refuses the same way.

``Model`` is the base of what is sent to the scheduler, ``View`` of what it answers.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

#: Readable names: DNS labels, so they fit file names, URLs and Kubernetes objects.
Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$", max_length=50)
]
UserName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}$", max_length=128)
]
Id = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
]
#: An id or a readable name (``digits-7``, or ``vision/digits-7`` where two teams share it).
Ref = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9/_-]{0,101}$", max_length=102)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
#: No control characters but tabs and new lines, bounded.
Text = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$", max_length=500)
]
#: One line, without what turns the direction of writing: safe to print and to log, or in a history.
Line = Annotated[
    str,
    StringConstraints(
        pattern=r"^[^\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]*$", max_length=500
    ),
]
#: Which there are depends on the plugins of the service.
LauncherName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]

#: Variables that decide about devices, isolation or identity: the scheduler alone sets them.
RESERVED_VARIABLES = (
    "NVIDIA_*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_*",
    "LD_PRELOAD",
    "GPUCOMMONS_*",
    "JUPYTERHUB_*",
)

_NUMBER = re.compile(r"-[0-9]+$")
#: Kinds of parents whose own name ends with a number.
_NUMBERED = frozenset({"sweep", "map"})


def base_name(name: str) -> str:
    """What a readable name was made of: ``digits`` of ``digits-7``."""
    return _NUMBER.sub("", name)


def name_by_itself(name: str, parent: str | None) -> str:
    """What a job's name was made of, for one that is not its parent's: ``search`` of ``search-1-7``.

    ``parent`` is the kind of its parent. A trial is numbered below the number of its sweep: what is called
    ``search-1`` would be taken for that sweep, and its next job ``search-1-41`` for a trial.
    """
    made_of = base_name(name)
    return base_name(made_of) if parent in _NUMBERED else made_of


def _stays_below(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        message = f"{path!r} must be a path below its folder, without '..'."
        raise ValueError(message)
    return path


def _switch(value: object) -> object:
    # YAML reads a bare on or off as a truth value.
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Switch = Annotated[Literal["on", "off"], BeforeValidator(_switch)]
#: What a notebook's server keeps of its kernels when it stops: all of them, variables of theirs, nothing.
Keeps = Literal["kernels", "variables", "nothing"]
RelativePath = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,512}$"), AfterValidator(_stays_below)
]
MilliGpu = Annotated[int, Field(strict=True, ge=0, le=1_024_000)]
#: Of one worker: CPU in thousandths of a core, memory, and what its GPU has to be.
CpuMilli = Annotated[int, Field(strict=True, ge=1, le=1_024_000)]
MemoryMib = Annotated[int, Field(strict=True, ge=16, le=16_777_216)]
GpuMemoryMib = Annotated[int, Field(strict=True, ge=1, le=16_777_216)]
GpuKind = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._-]{1,64}$")]
Workers = Annotated[int, Field(strict=True, ge=1, le=1024)]
#: All attempts of a job together.
RunSeconds = Annotated[int, Field(strict=True, ge=1, le=31_536_000)]
#: Of one GPU, in the currency of the pools.
PricePerHour = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Argument = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=8192)]


class Model(BaseModel):
    """Base of all bodies: unknown fields are mistakes, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class View(BaseModel):
    """Base of all answers: a newer server may add fields."""

    model_config = ConfigDict(extra="ignore", frozen=True)
