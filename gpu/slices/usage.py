"""What a slice really does: one sample a second, as the node agent publishes it.

A sample without a number says so (``None``): missing telemetry is never zero, because zero would
read as idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpucommons.gpu.slices.slices import SliceId

#: Isolation modes, strongest first; the words are those of every screen.
ISOLATION_MODES = ("hardware", "kernel", "driver", "cooperative", "watched", "none")

#: Words for what the neighbours do, instead of their numbers.
CONTENTION = ("alone", "low", "medium", "high", "unknown")


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageSample:
    """One reading of one slice."""

    slice_id: SliceId
    #: UTC.
    at_ms: int
    #: Use of the slice's own share, 0…100; None where the driver cannot say.
    compute_percent: int | None
    #: Memory of the slice's own processes; None where the driver cannot say.
    memory_used_mib: int | None
    #: What the slice may use.
    memory_limit_mib: int
    #: Processes of the slice that hold the device; None where the driver cannot list them.
    processes: int | None
    #: How busy the neighbours on the same card are: one of ``CONTENTION``.
    contention: str = "alone"
    simulated: bool = False
    #: Last instant at which the slice computed or grew, by ``gpu.idle_signals``; unknown numbers
    #: count as activity. None = never since it was opened.
    active_ms: int | None = None
    #: What really keeps the slice apart now: one of ``ISOLATION_MODES``.
    isolation: str = "none"
    #: When the watchdog stops a process of the slice, unless it frees memory; None = it does not.
    stops_ms: int | None = None
    #: What its user should know of the limit, in a sentence; empty when all is well.
    notice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """What a node agent did to somebody's process, or refused to do."""

    #: In the order of one agent's record.
    number: int
    #: Of this entry alone, in any record.
    key: str
    at_ms: int
    #: ``memory-warn``, ``memory-terminate``, ``memory-kill``, ``memory-clear``, ``limit-refused``.
    event: str
    #: For admins.
    text: str
    slice_id: SliceId | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """As it is kept and sent."""
        return {
            "number": self.number,
            "key": self.key,
            "at_ms": self.at_ms,
            "event": self.event,
            "text": self.text,
            "slice_id": self.slice_id,
            **self.fields,
        }

    @classmethod
    def from_json(cls, message: Mapping[str, Any]) -> AuditEntry:
        """What :meth:`as_json` gave."""
        rest = dict(message)
        return cls(
            number=int(rest.pop("number")),
            key=str(rest.pop("key")),
            at_ms=int(rest.pop("at_ms")),
            event=str(rest.pop("event")),
            text=str(rest.pop("text")),
            slice_id=rest.pop("slice_id"),
            fields=rest,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageMinute:
    """All samples of one slice in one minute, rolled up: what the scheduler's ledger keeps."""

    slice_id: SliceId
    #: Start of the minute, UTC.
    minute_ms: int
    samples: int
    #: None where no sample of the minute had the number.
    compute_percent_mean: int | None
    compute_percent_max: int | None
    memory_used_mib_max: int | None
