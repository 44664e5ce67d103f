"""How often facts about workloads have changed: what rests on one of them is worked out anew then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpucommons.scheduler.core.model.lifecycle import is_lease
from gpucommons.scheduler.core.model.types import AttemptId, Millis, Nomination, Stop, Workload


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
        was, now = _aspects(before), _aspects(after)
        self.workloads += 1
        if was == now:
            return ()
        found: set[AttemptId] = set()
        if was.nomination is not now.nomination:
            self.promises += 1
            found.update(_victims(was.nomination) ^ _victims(now.nomination))
        if was.stop is not now.stop:
            found.update(one for one in (was.attempt_id, now.attempt_id) if one is not None)
            self.ending_notebooks += any(
                is_lease(one) for one in (before, after) if one is not None
            )
        self.withdrawals += was.withdrawn_ms != now.withdrawn_ms
        return found


class _Aspects(NamedTuple):
    """What of a workload others count on."""

    nomination: Nomination | None = None
    attempt_id: AttemptId | None = None
    stop: Stop | None = None
    withdrawn_ms: tuple[Millis, ...] = ()


_NOTHING = _Aspects()


def _aspects(workload: Workload | None) -> _Aspects:
    if workload is None:
        return _NOTHING
    attempt = workload.current
    if attempt is None:
        return _Aspects(workload.nomination, None, None, workload.withdrawn_ms)
    return _Aspects(workload.nomination, attempt.attempt_id, attempt.stop, workload.withdrawn_ms)


def _victims(promise: Nomination | None) -> set[AttemptId]:
    return set() if promise is None else set(promise.victims)
