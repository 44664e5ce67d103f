"""The contract of stores with reports: sums over what the ledger and the jobs say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpucommons.scheduler.core.model.types import Millis, PoolName, TeamName, UserName

#: The ledger has a minute some seconds after it is over.
_WRITTEN_MS = 60_000


def written_ms(now_ms: int) -> Millis:
    """Up to where the ledger is written, most likely: all that looks back ends there.

    After it there are rows of what has ended already, without those of who lent it, and pages that
    end elsewhere would differ.
    """
    return Millis(now_ms - now_ms % 60_000 - _WRITTEN_MS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """A span, whole or cut into steps of equal length; the last one may be shorter."""

    from_ms: Millis
    to_ms: Millis
    #: None = the whole span is one.
    step_ms: int | None = None

    @property
    def length_ms(self) -> int:
        """Of a step."""
        return self.step_ms or max(1, self.to_ms - self.from_ms)

    def start_of(self, number: int) -> Millis:
        """When a step begins."""
        return Millis(self.from_ms + number * self.length_ms)

    def number_of(self, at_ms: int) -> int:
        """Which step a moment is in."""
        return (at_ms - self.from_ms) // self.length_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageSum:
    """Ledger rows of one team's owner in one pool for one project, added up over a step; all in
    milli-GPU·milliseconds.
    """

    #: When the step begins.
    from_ms: Millis
    team: TeamName
    owner: UserName
    pool: PoolName
    #: The value of the label `project`; "" without.
    project: str = ""
    held: int
    #: None without any reading.
    used: int | None
    idle: int
    borrowed: int
    lost: int
    #: No part of what was held.
    parked: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedJobs:
    """How many jobs of a team succeeded in a step."""

    from_ms: Millis
    team: TeamName
    count: int


class ReportStore(Protocol):
    """Sums for reports. All methods may be called from any thread; ``teams``: None = of all."""

    def usage(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[UsageSum, ...]:
        """Ledger rows added up by step, team, owner, pool and project, in this order."""
        ...

    def finished(
        self, steps: Steps, *, teams: frozenset[TeamName] | None = None
    ) -> tuple[FinishedJobs, ...]:
        """Jobs that succeeded, counted by step and team, in this order."""
        ...
