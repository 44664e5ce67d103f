"""What is known of a job's being stopped: whether it went on where it was, and whose code that speaks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from gpucommons.scheduler.core.model.evolving import quick

#: Stands for code, command, environment and team; :mod:`.going_on.badges` makes it.
BadgeKey = NewType("BadgeKey", str)
#: Of a pool or a policy: whether jobs are stopped on purpose, to see whether they go on.
ON, OFF = "on", "off"


@quick
@dataclass(frozen=True, kw_only=True, slots=True)
class Drill:
    """A stop after which it is seen whether its job goes on where it was."""

    #: Number of the attempt that was stopped.
    attempt: int
    #: The way to go on that held then.
    way: str
    begun_ms: int
    #: When that attempt had ended.
    stopped_ms: int
    #: It was stopped for that alone; else whatever stopped it shows as much.
    on_purpose: bool
    #: Where it has to go on, in what it counts; None = where its processes were.
    step: int | None = None
    unit: str = ""
    #: How long the stopped attempt had taken to get there; None = not known.
    reached_in_ms: int | None = None
    went_on_step: int | None = None
    #: From the stop until it went on, without the time in line between.
    took_ms: int | None = None
    #: Why it did not, as a clause; empty = it did, or it is not known.
    failed: str = ""
    #: Its job was stopped on purpose, then or before.
    tested: bool = False
    #: It runs again, and what it told does not show where it began.
    untold: bool = False

    @property
    def pending(self) -> bool:
        """It is still to be seen."""
        return self.took_ms is None and not self.failed and not self.untold

    @property
    def passed(self) -> bool:
        """It went on at or after the step that it had."""
        return self.took_ms is not None and not self.failed

    @property
    def confines(self) -> bool:
        """Its job runs only inside its team's guarantee from now on."""
        return self.on_purpose and bool(self.failed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Badge:
    """Safe to borrow: this code was stopped, and went on."""

    team: str
    #: Name of the job that showed it.
    job: str
    way: str
    given_ms: int
    took_ms: int
    step: int | None = None
    unit: str = ""
