"""Traces are off until OpenTelemetry's own variables ask for them, and cost nothing then."""

from __future__ import annotations

import http.server
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gpucommons.scheduler.tracing import switch

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ()),
        ({OTLP: ""}, ()),
        ({OTLP: "http://collector:4318"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector/t"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ("otlp", "console")),
        ({"OTEL_TRACES_EXPORTER": "none", OTLP: "http://collector:4318"}, ()),
        ({"OTEL_SDK_DISABLED": "true", OTLP: "http://collector:4318"}, ()),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector/m"}, ()),
    ],
)
def test_the_standard_variables_decide(environ: Mapping[str, str], names: tuple[str, ...]) -> None:
    assert switch.exporters(environ) == names


_STARTS = """
import asyncio, json, sys, tempfile
from pathlib import Path
from gpucommons.scheduler.wiring.app import build
from gpucommons.scheduler.wiring.options import SchedulerSettings
from gpucommons.scheduler.wiring.rest_api import web_app

async def made():
    with tempfile.TemporaryDirectory() as folder:
        scheduler = build(SchedulerSettings(state=Path(folder) / "state"), api_url="http://127.0.0.1:1")
        web_app(scheduler)
        print(json.dumps({"on": scheduler.tracing is not None, "modules": sorted(sys.modules)}))
        if scheduler.tracing is not None:
            scheduler.tracing.close()
        scheduler.foundation.store.close()

asyncio.run(made())
"""


def a_scheduler(environ: Mapping[str, str], *, without: str = "") -> tuple[bool, set[str], str]:
    """Whether one that is made traces, what it imported, and what it said."""
    hide = f"import sys; sys.modules[{without!r}] = None\n" if without else ""
    done = subprocess.run(
        [sys.executable, "-c", hide + _STARTS],
        env={"PATH": "", "HOME": "/nonexistent", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    return told["on"], set(told["modules"]), done.stderr


def test_without_the_variables_nothing_of_it_is_imported() -> None:
    on, modules, _ = a_scheduler({})
    assert not on
    assert "gpucommons.scheduler.tracing.switch" in modules
    ours = {one for one in modules if one.startswith("gpucommons.scheduler.tracing.")}
    assert ours == {"gpucommons.scheduler.tracing.switch"}
    # FastAPI imports the API by itself; the SDK and its exporters nobody does.
    assert not {
        one for one in modules if one.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))
    }


def test_without_the_extra_it_is_said_and_the_scheduler_starts() -> None:
    on, _, said = a_scheduler({OTLP: "http://127.0.0.1:1"}, without="opentelemetry.sdk")
    assert not on
    assert "pip install 'gpucommons[otel]'" in said


def test_with_both_it_traces() -> None:
    on, modules, _ = a_scheduler({OTLP: "http://127.0.0.1:1"})
    assert on
    assert "opentelemetry.exporter.otlp.proto.http.trace_exporter" in modules


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "asks for zipkin, which is not installed"),
        (
            {OTLP: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "can be http/protobuf or grpc",
        ),
    ],
)
def test_what_cannot_be_had_is_said(
    environ: Mapping[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert switch.open_tracing(environ) is None
    assert says in caplog.text


class Collector(http.server.BaseHTTPRequestHandler):
    """What a collector of OTLP hears."""

    heard: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.heard.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[http.server.ThreadingHTTPServer]:
    Collector.heard = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_collector_gets_the_spans_with_the_schedulers_name(
    collector: http.server.ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        OTLP: f"http://127.0.0.1:{collector.server_port}",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=lab",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    tracing = switch.open_tracing(environ)
    assert tracing is not None
    span = tracing.requests.begin("POST", "/v1/jobs", {}, "r-1")
    assert span is not None
    span.end("/v1/jobs", 201)
    tracing.close()
    (request,) = Collector.heard
    (resource,) = request.resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert told["service.name"] == "gpucommons-scheduler"
    assert told["deployment.environment.name"] == "lab"
    assert [one.name for one in resource.scope_spans[0].spans] == ["POST /v1/jobs"]


def test_its_own_name_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gpus-of-physics")
    from gpucommons.scheduler.tracing.provider import make_provider  # noqa: PLC0415 - the SDK

    provider = make_provider(("console",), {})
    assert provider.resource.attributes["service.name"] == "gpus-of-physics"
    provider.shutdown()


def test_a_collector_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OTLP, "http://127.0.0.1:1")
    tracing = switch.open_tracing({OTLP: "http://127.0.0.1:1"})
    assert tracing is not None
    began = time.monotonic()
    for number in range(5_000):  # more than its queue holds
        span = tracing.requests.begin("POST", "/v1/jobs", {}, f"r-{number}")
        assert span is not None
        span.end("/v1/jobs", 201)
    tracing.close()
    assert time.monotonic() - began < 30
