"""What a tree holds of a GPU leaves it before a save, and comes back after the wake or a refusal.

Only where somebody has found out that it works with this driver: else a GPU is a device like any
other, and stands in the way of the save. What cannot come back stays in the machine's memory, where
the next save finds it: the tree lives on, and what it asks of the GPU waits.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.inside import processes

_PROC = Path("/proc")
#: Names the GPUs that a program sees; it comes back to those or to none.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
#: A restore is never cut short: this is only so that nobody waits for ever.
_RETURN_S = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OnHost:
    """Processes whose GPU memory is in the machine's own, and the GPUs that they saw."""

    pids: tuple[int, ...] = ()
    visible: str = ""


def leave(driver: str | None, timeout_s: float) -> OnHost | str:
    """Park what holds GPU memory; a sentence where that fails, and then it goes on as before."""
    if driver is None:
        return OnHost()
    from gpucommons.gpu.parking.parking import (  # noqa: PLC0415 - most trees hold no GPU
        NotParked,
        Patience,
        park,
    )

    answer = park(Path(driver), processes.numbers(), patience=Patience(answer_s=timeout_s))
    if isinstance(answer, NotParked):
        return OnHost() if answer.holds_nothing else refusals.holds_gpu_memory(answer.because)
    return OnHost(pids=answer.pids, visible=_seen_by(answer.pids[0]))


def come_back(driver: str | None, parked: OnHost) -> str | None:
    """Give back what left; a sentence where it stays in the machine's memory."""
    if not parked.pids:
        return None
    if driver is None:
        return refusals.GPU_UNTRIED
    here = os.environ.get(_VISIBLE, "")
    if here != parked.visible:
        return refusals.another_gpu(parked.visible, here)
    from gpucommons.gpu.parking.parking import (  # noqa: PLC0415 - see above
        NotParked,
        Patience,
        unpark,
    )

    answer = unpark(Path(driver), parked.pids, patience=Patience(answer_s=_RETURN_S))
    return refusals.gpu_memory_stays(answer.because) if isinstance(answer, NotParked) else None


def _seen_by(pid: int) -> str:
    """As it was when the program started: its driver looks at nothing else."""
    with suppress(OSError):
        text = (_PROC / str(pid) / "environ").read_text(encoding="utf-8", errors="replace")
        for entry in text.split("\0"):
            name, _, value = entry.partition("=")
            if name == _VISIBLE:
                return value
    return ""
