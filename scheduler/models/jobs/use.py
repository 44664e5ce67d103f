"""What a job used of the GPUs that it asked for: GPU-hours, memory, cost."""

from __future__ import annotations

from gpucommons.scheduler.models.fields import View


class UseSpan(View):
    """What a job held and used for a while."""

    from_ms: int
    to_ms: int
    held_milli_gpu: int
    #: None where nothing was measured, which is not zero.
    used_milli_gpu: int | None = None
    #: Of the fullest worker.
    memory_used_mib: int | None = None


class JobUse(View):
    """What a job used of the GPUs that it asked for, oldest first."""

    spans: list[UseSpan]
    asked_milli_gpu: int
    #: On average, while it was measured; None where nothing was.
    used_milli_gpu: int | None = None
    memory_used_mib_max: int | None = None
    #: GPU memory of the worker that has most; None before its first start, or where its node is gone.
    memory_held_mib: int | None = None
    #: "asked 2 GPUs, used 0.2".
    text: str
    #: Why it borrows though its team's guarantee has room for it; "" where neither is so.
    borrowed_text: str = ""
    #: What it has cost, in millionths, for what had a price; None where nothing of it had one.
    cost_micro: int | None = None
    #: Held where there was no price.
    unpriced_milli_gpu_h: int = 0
    currency: str = ""
    #: What was used is processor time: any of the GPUs that it held were simulated.
    simulated: bool = False
    #: A measurement of its last minute may still come, or it runs.
    is_pending: bool = False
