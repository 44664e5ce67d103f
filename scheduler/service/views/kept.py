"""What is kept of a stopped server's kernels, in one sentence for all screens. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from gpucommons.scheduler import models
from gpucommons.scheduler.amount_words import size_words
from gpucommons.scheduler.core.model.going_on import KeptKernels


def kept_view(kept: KeptKernels | None, now_ms: int) -> models.KeptKernelsView | None:
    """None where nothing is kept, or its time is over."""
    if kept is None or now_ms >= kept.until_ms or not (kept.kernels or kept.variables):
        return None
    return models.KeptKernelsView(
        kernels=kept.kernels,
        kernel_bytes=kept.kernel_bytes,
        variables=kept.variables,
        variable_bytes=kept.variable_bytes,
        variables_lost=kept.variables_lost,
        until_ms=kept.until_ms,
        text=_sentences(kept),
        brief=_brief(kept),
    )


def _until(kept: KeptKernels) -> str:
    until = datetime.fromtimestamp(kept.until_ms / 1000, UTC).astimezone()
    return f"until {until.day} {until:%B}"


def _sentences(kept: KeptKernels) -> str:
    said = []
    if kept.kernels:
        are = "Your kernel {} is" if kept.kernels == 1 else f"Your {kept.kernels} kernels {{}} are"
        said.append(f"{are.format(f'({size_words(kept.kernel_bytes)})')} kept {_until(kept)}.")
    if kept.variables:
        what = _variables(kept)
        are = "variable is" if what == "1" else "variables are"
        kept_bytes = size_words(kept.variable_bytes)
        said.append(f"{what} {are} kept ({kept_bytes}) {_until(kept)}.")
    return " ".join(said)


def _brief(kept: KeptKernels) -> str:
    said = []
    if kept.kernels:
        noun = "kernel" if kept.kernels == 1 else "kernels"
        said.append(f"{kept.kernels} {noun} ({size_words(kept.kernel_bytes)})")
    if kept.variables:
        what = _variables(kept)
        noun = "variable" if what == "1" else "variables"
        said.append(f"{what} {noun} ({size_words(kept.variable_bytes)})")
    return f"{', '.join(said)}, {_until(kept)}."


def _variables(kept: KeptKernels) -> str:
    """``12 of 14`` where some could not be stored, else ``14``."""
    total = kept.variables + kept.variables_lost
    return f"{kept.variables} of {total}" if kept.variables_lost else str(total)
