"""When an executor was told to start what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpucommons.scheduler.core.model.types import AttemptId
from gpucommons.scheduler.executors.base import Executor, Launch
from gpucommons.scheduler.tracing.harmless import harmless
from gpucommons.scheduler.tracing.stretches import Call


class TimedExecutor:
    """An executor of which is noted when it was told to start something; all else is its own."""

    def __init__(
        self,
        executor: Executor,
        *,
        now_ns: Callable[[], int],
        note: Callable[[AttemptId, Call], None],
    ) -> None:
        self._executor, self._now_ns, self._note = executor, now_ns, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def start(self, launch: Launch) -> None:
        """See the protocol."""
        from_ns, failed = self._now_ns(), True
        try:
            self._executor.start(launch)
            failed = False
        finally:
            call = Call(from_ns=from_ns, to_ns=self._now_ns(), failed=failed)
            with harmless():
                self._note(launch.attempt.attempt_id, call)
