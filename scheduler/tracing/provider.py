"""OpenTelemetry's SDK as its own variables configure it, for this process's own spans alone.

It is not made the global one: other libraries here (FastAPI) would then add spans of their own, with
addresses that hold names of users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points, version

from opentelemetry.sdk.resources import (
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from gpucommons.scheduler.errors import Misconfigured

#: What a scheduler is called where ``OTEL_SERVICE_NAME`` does not say.
SERVICE = "gpucommons-scheduler"
#: Where packages offer exporters, for OpenTelemetry's own launcher as for us.
_GROUP = "opentelemetry_traces_exporter"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OF_PROTOCOL = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def make_provider(names: Sequence[str], environ: Mapping[str, str]) -> TracerProvider:
    """Spans go to these exporters, in batches and from a thread; what does not fit its queue is dropped.

    Raises
    ------
    Misconfigured
        When one is not installed.
    """
    chosen = [_exporter(name, environ)() for name in names]
    # The sampler is read by the SDK, and so are the sizes of batches. What is left is flushed by whoever
    # ends the scheduler: at the interpreter's own end a collector that is away would hold it up.
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in chosen:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _resource() -> Resource:
    # The variables win: what is given to `create` would win over them.
    told = OTELResourceDetector().detect()
    ours = {SERVICE_NAME: SERVICE, SERVICE_VERSION: version("gpucommons")}
    return Resource.create({**ours, **told.attributes})


def _exporter(name: str, environ: Mapping[str, str]) -> Callable[[], SpanExporter]:
    found = entry_points(group=_GROUP, name=_entry(name, environ))
    for one in found:
        kind: Callable[[], SpanExporter] = one.load()
        return kind
    known = sorted({one.name for one in entry_points(group=_GROUP)})
    message = (
        f"OTEL_TRACES_EXPORTER asks for {name}, which is not installed here. Installed are"
        f" {', '.join(known)}."
    )
    raise Misconfigured(message)


def _entry(name: str, environ: Mapping[str, str]) -> str:
    if name != "otlp":
        return name
    asked = next((environ[one].strip() for one in _PROTOCOLS if environ.get(one, "").strip()), "")
    protocol = asked or "http/protobuf"
    if protocol not in _OF_PROTOCOL:
        message = f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}; it can be http/protobuf or grpc."
        raise Misconfigured(message)
    return _OF_PROTOCOL[protocol]
