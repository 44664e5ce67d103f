"""What a tree holds of a GPU leaves it before a save, and comes back after the wake or a refusal.

Only where somebody has found out that it works with this driver: else a GPU is a device like any
other, and stands in the way of the save. What cannot come back stays in the machine's memory, where
the next save finds it: the tree lives on, and what it asks of the GPU waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.inside import processes

#: A restore is never cut short: this is only so that nobody waits for ever.
_RETURN_S = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OnHost:
    """Processes whose GPU memory is in the machine's own, and the GPUs that they come back to."""

    pids: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()


def leave(driver: str | None, before: OnHost, timeout_s: float) -> OnHost | str:
    """Park what holds GPU memory; a sentence where that fails, and then it goes on as before.

    ``before`` is what did not come back at the wake.
    """
    if driver is None:
        return before
    from gpucommons.gpu.parking.parking import (  # noqa: PLC0415 - most trees hold no GPU
        NotParked,
        Patience,
        park,
    )

    answer = park(Path(driver), processes.numbers(), patience=Patience(answer_s=timeout_s))
    if isinstance(answer, NotParked):
        if answer.holds_nothing:
            return before
        because = refusals.holds_gpu_memory(answer.because)
        stays = None if answer.usable else _let_run(Path(driver), before)
        return because if stays is None else f"{because} {stays}"
    # What is parked already was on others than those that are seen now.
    seen = answer.gpus if set(answer.pids) - set(before.pids) else ()
    gpus = tuple(sorted({*before.gpus, *seen}))
    return OnHost(pids=tuple(sorted({*before.pids, *answer.pids})), gpus=gpus)


def _let_run(driver: Path, before: OnHost) -> str | None:
    """Give what a park left half-way its GPU again; a sentence where it does not get it.

    What was parked before stays so: the GPU that it comes back to may not be here.
    """
    from gpucommons.gpu.parking.parking import (  # noqa: PLC0415 - see above
        NotParked,
        Patience,
        unpark,
    )
    from gpucommons.gpu.parking.processes import with_driver  # noqa: PLC0415 - see above

    pids = [pid for pid in with_driver(processes.numbers()) if pid not in before.pids]
    if not pids:
        return None
    answer = unpark(driver, pids, patience=Patience(answer_s=_RETURN_S))
    if not isinstance(answer, NotParked) or answer.holds_nothing:
        return None
    return refusals.gpu_memory_stays(answer.because, is_kept=answer.usable)


def come_back(driver: str | None, parked: OnHost) -> str | None:
    """Give back what left; a sentence where it stays in the machine's memory."""
    if not parked.pids:
        return None
    if driver is None:
        return refusals.GPU_UNTRIED
    from gpucommons.gpu.parking.parking import (  # noqa: PLC0415 - see above
        NotParked,
        Patience,
        unpark,
    )

    patience = Patience(answer_s=_RETURN_S)
    answer = unpark(Path(driver), parked.pids, gpus=parked.gpus, patience=patience)
    if not isinstance(answer, NotParked):
        return None
    return refusals.gpu_memory_stays(answer.because, is_kept=answer.usable)
