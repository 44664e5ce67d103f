"""What is kept of a stopped server's kernels, in one sentence for all screens. Pure."""

from __future__ import annotations

from gpucommons.scheduler import models
from gpucommons.scheduler.core.model.going_on import KeptKernels
from gpucommons.scheduler.models.text.end_words import kept_list, kept_sentences


def kept_view(kept: KeptKernels | None, now_ms: int) -> models.KeptKernelsView | None:
    """None where nothing is kept, or its time is over."""
    if kept is None or now_ms >= kept.until_ms or not (kept.kernels or kept.variables):
        return None
    view = models.KeptKernelsView(
        kernels=kept.kernels,
        kernel_bytes=kept.kernel_bytes,
        variables=kept.variables,
        variable_bytes=kept.variable_bytes,
        variables_lost=kept.variables_lost,
        until_ms=kept.until_ms,
        text="",
        brief="",
    )
    said = {"text": kept_sentences(view), "brief": kept_list(view)}
    return view.model_copy(update=said)
