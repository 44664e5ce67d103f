"""Jobs that are over are put beside the plans that they took, once their last minute is measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.errors import Unavailable
from gpucommons.scheduler.service.advice.past import judge
from gpucommons.scheduler.service.service import Service
from gpucommons.scheduler.store.base import Epoch, WorkloadFilter
from gpucommons.scheduler.store.plans.base import JudgedRun
from gpucommons.scheduler.store.stored_jobs import stored_jobs

_LOG = logging.getLogger(__name__)

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
#: Agents tell of a minute once it is over, and the ledger has it then.
_MEASURED_MS = 3 * _MINUTE_MS
#: A new leader looks back so far: what is judged already is passed over.
_LOOK_BACK_MS = 7 * _DAY_MS
#: A job may be kept a little later than it ended.
_OVERLAP_MS = 2 * _MINUTE_MS


class Judging:
    """One pass after the other, from one thread of the leader. Repeating one changes nothing."""

    def __init__(self, service: Service, *, epoch: Callable[[], Epoch]) -> None:
        self._service = service
        self._epoch = epoch
        self._under: Epoch | None = None
        #: Those that ended before are judged.
        self._done_ms = Millis(0)

    def step(self) -> None:
        """Judge what has ended and is measured since the last look."""
        epoch, store = self._epoch(), self._service.store
        until_ms = Millis(self._service.now_ms() - _MEASURED_MS)
        if epoch != self._under:
            self._under, self._done_ms = epoch, Millis(until_ms - _LOOK_BACK_MS)
        if until_ms < self._done_ms + _MINUTE_MS:
            return
        found = list(self._found(Millis(self._done_ms - _OVERLAP_MS), until_ms))
        if found:
            store.plans.judge(epoch, found)
        self._done_ms = until_ms

    def _found(self, since_ms: Millis, until_ms: Millis) -> Iterator[JudgedRun]:
        store = self._service.store
        ended = stored_jobs(store, WorkloadFilter(live=False, ended_after_ms=since_ms))
        for one in ended:
            if one.spec.plan is None or (one.ended_ms or 0) > until_ms:
                continue
            if store.plans.run(one.workload_id) is not None:
                continue
            try:
                yield judge(self._service, one)
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - one that cannot be judged keeps no other from it
                _LOG.exception("the plan of %s could not be judged", one.workload_id)
