"""What GPUs cost, and what a team may use in a month: in money or in GPU-hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from gpucommons.gpu.devices.devices import WHOLE_MILLI_GPU
from gpucommons.scheduler.money import from_micro


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a GPU costs per hour from a moment on, in millionths of the currency."""

    from_ms: int = 0
    micro_per_gpu_h: int

    def __str__(self) -> str:
        return f"{from_micro(self.micro_per_gpu_h):g}" + (
            f" from {_day(self.from_ms)}" if self.from_ms else ""
        )


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


class BudgetPolicy(StrEnum):
    """What happens when a budget is used up. No notebook and nothing that runs is ever stopped for it."""

    #: It is said, and all goes on.
    WARN = "warn"
    #: Jobs run inside the team's quota alone.
    NO_BORROW = "no-borrow"
    #: No job of the team starts.
    NO_NEW_JOBS = "no-new-jobs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a team may use in a calendar month (UTC): one of the two."""

    #: In millionths of the pools' currency.
    money_micro: int | None = None
    milli_gpu_h: int | None = None
    at_full: BudgetPolicy = BudgetPolicy.WARN

    @property
    def text(self) -> str:
        """``1,200.00 a month, then no-borrow``; ``800 GPU-hours a month, then warn``."""
        if self.money_micro is not None:
            return f"{from_micro(self.money_micro):,.2f} a month, then {self.at_full}"
        return (
            f"{(self.milli_gpu_h or 0) / WHOLE_MILLI_GPU:,g} GPU-hours a month, then {self.at_full}"
        )
