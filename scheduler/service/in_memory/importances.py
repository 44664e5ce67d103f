"""Which parameters of sweeps matter, worked out once for all who look, until more is told."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from gpucommons.scheduler.core.model.types import Millis
from gpucommons.scheduler.parents import ParentId
from gpucommons.scheduler.service.in_memory.newest import keep
from gpucommons.scheduler.sweeps.importance import importance_of
from gpucommons.scheduler.sweeps.sweep import Kept, Trial

#: Sweeps whose answer is kept: more than people look at side by side.
_MOST = 64
#: What an answer depends on: how much was told and when last, how many trials there may be, and whether
#: any comes yet.
_Asked = tuple[int, Millis, int, bool]


class Importances:
    """Of thousands of trials it takes seconds. May be used from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._known: dict[ParentId, tuple[_Asked, tuple[Mapping[str, float], str]]] = {}

    def of(self, kept: Kept, trials: Sequence[Trial]) -> tuple[Mapping[str, float], str]:
        """As :func:`importance_of`; who asks for the same meanwhile waits for the first one's."""
        sweep, is_over = kept.sweep, kept.standing.ended_ms is not None
        told = [one.best_ms for one in trials if one.best is not None]
        asked = (len(told), max(told, default=Millis(0)), sweep.count, is_over)
        with self._turn:
            of, answer = self._known.get(sweep.sweep_id, (None, ({}, "")))
            if of != asked:
                answer = importance_of(sweep, trials, is_over=is_over)
            keep(self._known, sweep.sweep_id, (asked, answer), most=_MOST)
        return answer
