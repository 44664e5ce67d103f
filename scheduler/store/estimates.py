"""Windows of start that were forecast, as stores keep them: what became of each teaches the next."""

from __future__ import annotations

from dataclasses import dataclass

from gpucommons.scheduler.core.model.types import Millis, WorkloadId


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Lengths from the time it was made."""

    from_ms: int
    median_ms: int
    to_ms: int


#: Of a wait for which none was worked out.
NO_WINDOW = Window(from_ms=0, median_ms=0, to_ms=0)
#: So ends the class of such waits, by which stores tell them from those that teach.
UNFORESEEN = " unforeseen"


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A window that was made, kept until the start is known, to learn from."""

    workload_id: WorkloadId
    made_ms: Millis
    #: Waits of one class are compared with each other.
    wait_class: str
    #: As the futures said.
    raw: Window
    #: As it was calibrated and rounded.
    window: Window
    #: People were told a wider range instead, or *unknown*.
    withheld: bool = False
    #: False: no window was worked out (both are :data:`NO_WINDOW`), and people were told no range.
    foreseen: bool = True
    #: When it got its devices.
    started_ms: Millis | None = None
    #: It left the line without a start: nothing to compare.
    left: bool = False
