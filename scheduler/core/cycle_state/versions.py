"""How often facts about workloads have changed: what rests on one of them is worked out anew then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import (
    Attempt,
    AttemptId,
    Millis,
    Nomination,
    Stop,
    Workload,
)


@dataclass(slots=True)
class Versions:
    """Counters of changes; see :class:`.memo.Fact`."""

    refreshed: int = 0
    workloads: int = 0
    promises: int = 0
    ending_notebooks: int = 0
    withdrawals: int = 0

    def note(self, before: Workload | None, after: Workload | None) -> Iterable[AttemptId]:
        """Count what has changed with a workload; say what it costs something else to stop by now.

        Whether an attempt was told to stop, and whether somebody waits for its end, is a part of what it
        costs to take its devices.
        """
        self.workloads += 1
        found: set[AttemptId] = set()
        was, now = _promise_of(before), _promise_of(after)
        if was is not now:
            self.promises += 1
            found.update(_victims(was) ^ _victims(now))
        ended, runs = _attempt_of(before), _attempt_of(after)
        if _stop_of(ended) is not _stop_of(runs):
            found.update(one.attempt_id for one in (ended, runs) if one is not None)
            self.ending_notebooks += any(
                is_lease(one) for one in (before, after) if one is not None
            )
        self.withdrawals += _withdrawn(before) != _withdrawn(after)
        return found


def _promise_of(workload: Workload | None) -> Nomination | None:
    return None if workload is None else workload.nomination


def _attempt_of(workload: Workload | None) -> Attempt | None:
    return None if workload is None else workload.current


def _stop_of(attempt: Attempt | None) -> Stop | None:
    return None if attempt is None else attempt.stop


def _withdrawn(workload: Workload | None) -> tuple[Millis, ...]:
    return () if workload is None else workload.withdrawn_ms


def _victims(promise: Nomination | None) -> set[AttemptId]:
    return set() if promise is None else set(promise.victims)
