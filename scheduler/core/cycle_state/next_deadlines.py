"""When time alone will change something: the next deadlines of all workloads, in order.

Deadlines are noted when a workload changes and read when they come, so a cycle does not go through
everything that runs to find that nothing is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from gpucommons.scheduler.core.model.types import WorkloadId

#: Deadlines of one workload; asked again whenever it or the rules have changed.
Times = Callable[[WorkloadId], Iterable[int]]


class Clock:
    """Deadlines, earliest first. One that no longer holds is dropped when its turn comes."""

    def __init__(self) -> None:
        """Start with none."""
        #: Workloads whose deadlines are to be asked again.
        self.fresh: set[WorkloadId] = set()
        #: What deadlines depend on besides the workload itself.
        self.rules: object = None
        self._ahead: list[tuple[int, WorkloadId]] = []
        #: The same, to note each once: what runs changes often, and its deadlines seldom.
        self._noted: set[tuple[int, WorkloadId]] = set()
        #: Whose deadline had passed when it was noted.
        self.overdue: set[WorkloadId] = set()

    def __len__(self) -> int:
        """How many deadlines are noted."""
        return len(self._ahead)

    def restart(self, rules: object, workload_ids: Iterable[WorkloadId]) -> None:
        """Forget everything: the rules have changed."""
        self.rules = rules
        self._ahead.clear()
        self._noted.clear()
        self.overdue.clear()
        self.fresh = set(workload_ids)

    def look(self, times: Times, now_ms: int) -> None:
        """Note the deadlines of what has changed."""
        for workload_id in self.fresh:
            for at in times(workload_id):
                if at <= now_ms:
                    self.overdue.add(workload_id)
                elif (at, workload_id) not in self._noted:
                    self._noted.add((at, workload_id))
                    heappush(self._ahead, (at, workload_id))
        self.fresh.clear()

    def passed(self, now_ms: int) -> set[WorkloadId]:
        """Take out whoever had a deadline up to now."""
        passed, self.overdue = self.overdue, set()
        while self._ahead and self._ahead[0][0] <= now_ms:
            passed.add(self._drop()[1])
        return passed

    def next_ms(self, times: Times) -> int | None:
        """The next deadline that still holds."""
        while self._ahead:
            at, workload_id = self._ahead[0]
            if at in times(workload_id):
                return at
            self._drop()
        return None

    def _drop(self) -> tuple[int, WorkloadId]:
        first = heappop(self._ahead)
        self._noted.discard(first)
        return first
