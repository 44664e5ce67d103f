"""What notebook servers do, and what the culler makes of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpucommons.scheduler.models.fields import Keeps, Line, Model, View
from gpucommons.scheduler.models.notebooks.leases import LeaseView

#: What was seen to happen so lately is going on, as far as anybody can tell.
RECENT_MS = 5 * 60_000


class KernelActivity(Model):
    """One kernel or terminal or child process, as the server extension sees it."""

    kind: Literal["kernel", "terminal", "process"]
    name: Line = ""
    busy: bool
    #: Last user input or output, UTC; None = never or unknown.
    last_active_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)


class ActivityReport(Model):
    """What a notebook server does, sent every 15 s by the extension."""

    kernels: list[KernelActivity] = Field(default_factory=list, max_length=512)
    #: What a stop keeps here; None = not known (yet).
    keeps: Keeps | None = None
    #: Its GPU memory can be moved to the host, by a self-test with this driver.
    parks: bool = False


class ActivityView(View):
    """All that the culler decides on, for one lease."""

    lease: LeaseView
    #: The newest report; None = never one: not idle, but unverified.
    reported_ms: int | None = None
    kernels: list[KernelActivity] = []
    #: When the slice last computed or grew its memory; None = never seen.
    gpu_active_ms: int | None = None
    #: When usage was last read; None = no telemetry.
    usage_ms: int | None = None
    compute_percent_p95: int | None = None

    def idle_since_ms(self) -> int | None:
        """As the culler said; what was seen since then is newer than its last look. None = not idle, or unseen."""
        since_ms = None if self.lease.idle is None else self.lease.idle.idle_since_ms
        if since_ms is None:
            return None
        seen = [kernel.last_active_ms for kernel in self.kernels]
        return max(at for at in (since_ms, self.gpu_active_ms, *seen) if at is not None)

    def is_in_use(self, now_ms: int) -> bool:
        """Something is at work or was a moment ago; else it is idle or, where nobody says so, not known."""
        busy = any(kernel.busy for kernel in self.kernels)
        seen = [kernel.last_active_ms for kernel in self.kernels]
        seen += [self.gpu_active_ms, self.reported_ms if busy else None]
        return any(at is not None and now_ms - at <= RECENT_MS for at in seen)


class ActivityList(View):
    """Every lease that holds a device, with its activity; ``now_ms`` is the server's clock."""

    now_ms: int
    activities: list[ActivityView]


class IdleReport(Model):
    """The culler's view: idle since, and when it will be returned. Both None = active."""

    idle_since_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)
    returns_ms: int | None = Field(default=None, strict=True, ge=0, le=4_102_444_800_000)
