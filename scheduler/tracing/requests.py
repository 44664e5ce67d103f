"""A span for each request that may start something, joined to the caller's own trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gpucommons.scheduler.tracing.harmless import harmless

#: What is polled or reported many times a minute would bury the rest, and starts nothing.
_STARTS = re.compile(r"^POST /v1/(jobs|leases|pipelines|schedules|sweeps)(/|$)")

_AT_WILL = frozenset({"baggage", "tracestate"})


class RequestSpans:
    """See :class:`gpucommons.scheduler.api.observing.Spans`."""

    def __init__(self, tracer: Tracer, *, now_ns: Callable[[], int]) -> None:
        self._tracer, self._now_ns = tracer, now_ns

    def begin(
        self, method: str, path: str, headers: Mapping[str, str], request_id: str
    ) -> RequestSpan | None:
        """A span that goes on; None for a request that starts nothing."""
        if not _STARTS.match(f"{method} {path}"):
            return None
        with harmless():
            span = self._tracer.start_span(
                method,
                # By OTEL_PROPAGATORS: W3C's headers unless that says otherwise.
                extract(_of_trace(headers), Context()),
                kind=SpanKind.SERVER,
                start_time=self._now_ns(),
                attributes={"http.request.method": method, "gpucommons.request_id": request_id},
            )
            return RequestSpan(span, method, self._now_ns)
        return None


def _of_trace(headers: Mapping[str, str]) -> dict[str, str]:
    """Without what a caller may write at will: baggage is logged where it is wrong, and tracestate exported."""
    return {name: value for name, value in headers.items() if name.lower() not in _AT_WILL}


class RequestSpan:
    """One request that is answered."""

    def __init__(self, span: Span, method: str, now_ns: Callable[[], int]) -> None:
        self._span, self._method, self._now_ns = span, method, now_ns
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span, Context()))
        #: What refers to it, in W3C's form.
        self.traceparent = carrier.get("traceparent", "")

    def end(self, route: str, status: int) -> None:
        """It was answered; the route's template, for addresses hold names."""
        if status == HTTPStatus.UNAUTHORIZED:
            # Not ended, so not exported: whoever has no token also decides what is sampled.
            return
        with harmless():
            if route:
                self._span.update_name(f"{self._method} {route}")
                self._span.set_attribute("http.route", route)
            self._span.set_attribute("http.response.status_code", status)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._span.set_status(StatusCode.ERROR)
            self._span.end(self._now_ns())
