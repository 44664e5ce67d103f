"""Why something waits: the same for a job and for a ticket."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class ReasonView(View):
    """Why something waits."""

    code: str
    text: str
    unblock: str | None = None
    startable_milli_gpu: int | None = None
