"""What a stopped notebook server keeps of its kernels: whole kernels, or their variables.

The server's extension reports it with ``calls.report_kept_kernels`` while the server stops; whatever
brings it back, or removes it, reports anew for the same lease. Only numbers are reported: sentences of
a user's own server would read as if they were ours.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpucommons.scheduler.models.fields import Model, View

_Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
_Bytes = Annotated[int, Field(strict=True, ge=0, le=1 << 50)]


class KeptKernelsReport(Model):
    """All zero, as by default, says that nothing is kept, or nothing any more."""

    #: Kernels that were saved whole and can be woken.
    kernels: _Count = 0
    kernel_bytes: _Bytes = 0
    #: Variables of other kernels that were stored.
    variables: _Count = 0
    variable_bytes: _Bytes = 0
    #: Variables that could not be.
    variables_lost: _Count = 0
    #: Until when, UTC; needed where anything is kept.
    until_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)

    @model_validator(mode="after")
    def _until_when(self) -> KeptKernelsReport:
        if (self.kernels or self.variables) and self.until_ms is None:
            message = "until_ms is missing: say until when it is kept"
            raise ValueError(message)
        return self


class KeptKernelsView(View):
    """What is kept now; where its time is over there is none."""

    kernels: int = 0
    kernel_bytes: int = 0
    variables: int = 0
    variable_bytes: int = 0
    variables_lost: int = 0
    until_ms: int
    #: "Your 2 kernels (1.2 GiB) are kept until 3 December."
    text: str
    #: The same below a heading that says "Kept": "2 kernels (1.2 GiB), until 3 December."
    brief: str
