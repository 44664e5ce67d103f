"""All traces of one scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider

from gpucommons.scheduler.tracing.requests import RequestSpans
from gpucommons.scheduler.tracing.starts import StartTraces

#: A collector that is away holds up the scheduler's end no longer than this.
_PATIENCE_S = 3.0


class Tracing:
    """Spans of requests, cycles and starts, and where they go."""

    def __init__(
        self,
        provider: TracerProvider,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._provider = provider
        tracer = provider.get_tracer("gpucommons.scheduler")
        self.requests = RequestSpans(tracer, now_ns=now_ns)
        self.starts = StartTraces(tracer, steady_ns=steady_ns)

    def close(self) -> None:
        """Send what is left, for a while."""
        # Exporters try again for longer than anybody waits for a scheduler's end.
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        sending.join(_PATIENCE_S)
