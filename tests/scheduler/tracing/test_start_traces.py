"""One trace for each start: where its seconds went, from the request until it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count, pairwise
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode
from service_world import ServiceWorld, a_request, an_app, attempt_token

from gpucommons.scheduler.core.model.state import AttemptStarted
from gpucommons.scheduler.core.model.types import State, WorkloadId
from gpucommons.scheduler.executors.fake import Script
from gpucommons.scheduler.service.jobs import jobs
from gpucommons.scheduler.tracing.stretches import Seen, start_of
from gpucommons.scheduler.tracing.tracing import Tracing

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
ANN = {"Authorization": "Bearer ann-token"}
CALLED = {
    **ANN,
    "traceparent": f"00-{CALLER}-00f067aa0ba902b7-01",
    "X-Request-ID": "from-the-proxy",
}
SECRET = "s3cret-word"


class Traced:
    """A world and the spans that it made."""

    def __init__(self, folder: Path) -> None:
        self.spans = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        # A microsecond for each look at the clock: steps of one millisecond keep their order.
        tracing = Tracing(
            provider,
            now_ns=lambda: self.world.now_ms * 1_000_000,
            steady_ns=count(0, 1_000).__next__,
        )
        self.world = ServiceWorld(folder, tracing=tracing)
        self.spans.clear()
        self.app = an_app(self.world)

    def made(self, trace_id: str | None = None) -> list[ReadableSpan]:
        """Finished spans, or those of one trace: earliest first, and above what is within it."""
        found = self.spans.get_finished_spans()
        above = {one.context.span_id: one.parent for one in found if one.context is not None}

        def depth(parent: SpanContext | None) -> int:
            return 0 if parent is None else 1 + depth(above.get(parent.span_id))

        return sorted(
            (one for one in found if trace_id in (None, trace_of(one))),
            key=lambda one: (one.start_time or 0, depth(one.parent)),
        )

    def start(self, **attributes: object) -> ReadableSpan:
        """The one start with these attributes."""
        (found,) = (
            one
            for one in self.made()
            if one.name in ("job start", "notebook start")
            and attributes.items() <= dict(one.attributes or {}).items()
        )
        return found

    def within(self, start: ReadableSpan) -> dict[str, ReadableSpan]:
        return {one.name: one for one in self.made(trace_of(start)) if one.name != start.name}


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def ms(span: ReadableSpan) -> int:
    """How long it was."""
    assert span.start_time is not None
    assert span.end_time is not None
    return round((span.end_time - span.start_time) / 1_000_000)


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    return Traced(tmp_path)


@pytest.fixture
async def http(traced: Traced) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(traced.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client


async def submit(http: httpx.AsyncClient, name: str = "digits", **role: object) -> str:
    asked = a_request(name=name, role={"milli_gpu": 1000, **role})
    answer = await http.post("/v1/jobs", json=asked.model_dump(mode="json"), headers=CALLED)
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def test_a_start_is_one_trace_that_belongs_to_the_callers(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    traced.world.script = Script(start_ms=4_000)
    job_id = await submit(http)
    traced.world.pass_time(4_000)

    spans = traced.made(CALLER)

    names = [one.name for one in spans]
    assert names == [
        "POST /v1/jobs", "job start", "wait", "decide", "startup", "executor.start",
    ]  # fmt: skip
    by_name = dict(zip(names, spans, strict=True))
    request, start = by_name["POST /v1/jobs"], by_name["job start"]
    assert request.kind is SpanKind.SERVER
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/jobs",
        "http.response.status_code": 201,
        "gpucommons.request_id": "from-the-proxy",
    }
    assert start.attributes is not None
    assert start.attributes["gpucommons.workload.id"] == job_id
    assert start.attributes["gpucommons.team"] == "vision"
    assert start.attributes["gpucommons.pool"] == "gpu"
    assert start.attributes["gpucommons.outcome"] == "running"
    assert ms(by_name["startup"]) == 4_000
    parents = {one.name: one.parent and one.parent.span_id for one in spans}
    assert request.context is not None
    assert start.context is not None
    assert parents["job start"] == request.context.span_id
    assert {parents[one] for one in ("wait", "decide", "startup")} == {start.context.span_id}


async def test_a_decision_leads_to_its_cycle(traced: Traced, http: httpx.AsyncClient) -> None:
    await submit(http)
    traced.world.pass_time(1_000)
    (link,) = traced.within(traced.start())["decide"].links
    (cycle,) = (one for one in traced.made() if one.context == link.context)
    assert cycle.name == "cycle"
    assert cycle.attributes is not None
    assert cycle.attributes["gpucommons.cycle.reserved"] == 1
    assert cycle.attributes["gpucommons.cycle.asked"] == 1
    assert [one.name for one in cycle.events] == ["decided", "committed"]


async def test_a_wait_in_line_and_the_end_of_those_in_the_way_are_told_apart(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    world = traced.world
    # Vision borrows what nlp is guaranteed, and stops 3 s after the signal.
    world.script = Script(stop_ms=3_000)
    for number in range(4):
        await submit(http, f"borrows-{number}")
        world.pass_time(1_000)
    world.pass_time(70_000)
    asked = a_request(role={"milli_gpu": 1000}, name="due")
    answer = await http.post(
        "/v1/jobs",
        json=asked.model_dump(mode="json"),
        headers={"Authorization": "Bearer bob-token"},
    )
    job_id = answer.json()["id"]
    for _ in range(60):
        world.pass_time(1_000)

    start = traced.start(**{"gpucommons.workload.id": job_id})

    steps = traced.within(start)
    assert ms(steps["drain"]) >= 3_000
    assert steps["wait"].end_time == steps["drain"].start_time
    assert steps["drain"].end_time == steps["decide"].start_time
    assert start.attributes is not None
    assert start.attributes["gpucommons.queue_wait_ms"] == ms(steps["wait"]) + ms(steps["drain"])


async def test_each_later_start_is_a_trace_of_its_own_that_leads_to_the_last(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    job_id = await submit(http)
    traced.world.pass_time(1_000)
    traced.world.script = Script()
    await http.post(f"/v1/jobs/{job_id}/pause", headers=ANN)
    for _ in range(25):
        traced.world.pass_time(1_000)
    assert traced.world.cluster.workloads[WorkloadId(job_id)].state is State.PAUSED
    await http.post(f"/v1/jobs/{job_id}/resume", headers=ANN)
    traced.world.pass_time(1_000)
    first, second = (one for one in traced.made() if one.name == "job start")
    assert trace_of(first) == CALLER
    assert trace_of(second) != CALLER
    assert [one.context for one in second.links] == [first.context]
    assert second.attributes is not None
    assert second.attributes["gpucommons.attempt.number"] == 2
    # The pause is nobody's wait.
    assert second.attributes["gpucommons.queue_wait_ms"] == 0


async def test_what_an_executor_saw_of_a_start_is_within_it(traced: Traced) -> None:
    world = traced.world
    world.script = Script(start_ms=9_000)
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    (attempt,) = (one.current for one in world.cluster.workloads.values())
    assert attempt is not None
    began_ms = world.now_ms
    world.pass_time(8_000)
    steps = (("pods made", began_ms + 1_000), ("pods bound", began_ms + 3_000))
    world.loop.observe(AttemptStarted(attempt_id=attempt.attempt_id, steps=steps))
    found = traced.within(traced.start())
    startup = found["startup"]
    assert {name: ms(one) for name, one in found.items() if one.parent == startup.context} == {
        "executor.start": 0,
        "pods made": 1_000,
        "pods bound": 2_000,
        "workers begun": 5_000,
    }


async def test_a_programs_own_start_is_told_until_its_first_step(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    job_id = await submit(http)
    traced.world.pass_time(1_000)
    attempt = traced.world.cluster.workloads[WorkloadId(job_id)].current
    assert attempt is not None
    token = {"Authorization": f"Bearer {attempt_token(attempt.attempt_id)}"}
    for step in (1, 2):
        traced.world.pass_time(30_000)
        answer = await http.post("/v1/attempt/progress", json={"step": step}, headers=token)
        assert answer.status_code == 200, answer.text
    (progress,) = (one for one in traced.made(CALLER) if one.name == "until first progress")
    start = traced.start()
    assert progress.parent == start.context
    assert progress.start_time == start.end_time
    assert ms(progress) == 30_000


async def test_a_start_that_fails_says_so_and_not_what_was_printed(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    traced.world.script = Script(start_fails=f"/home/ann/{SECRET}: not found")
    await submit(http)
    for _ in range(3):
        traced.world.pass_time(1_000)
    failed = next(one for one in traced.made() if one.name == "job start")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["gpucommons.outcome"] == "failed"
    assert all(SECRET not in one.to_json() for one in traced.made())


async def test_what_leaves_the_line_shows_how_long_it_was_in_it(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    for number in range(5):
        job_id = await submit(http, f"digits-{number}")
    traced.world.pass_time(7_000)
    await http.post(f"/v1/jobs/{job_id}/cancel", headers=ANN)
    start = traced.start(**{"gpucommons.workload.id": job_id})
    assert start.attributes is not None
    assert start.attributes["gpucommons.outcome"] == "cancelled"
    assert ms(start) == 7_000


async def test_nothing_that_users_wrote_is_in_a_trace(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    await submit(http, command=["python", f"{SECRET}.py"], name="worker")
    traced.world.pass_time(1_000)
    answer = await http.post(f"/v1/jobs/{SECRET}/cancel?why={SECRET}", headers=ANN)
    assert answer.status_code == 404
    made = traced.made()
    assert "POST /v1/jobs/{ref:path}/cancel" in [one.name for one in made]
    for one in made:
        assert SECRET not in one.to_json()
        assert "ann" not in one.to_json()


async def test_a_notebooks_start_is_told_until_its_server_runs(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    hub = {"Authorization": "Bearer hub-token"}
    asked = {"user": "ann", "milli_gpu": 500}
    lease = (await http.post("/v1/leases/acquire", json=asked, headers={**CALLED, **hub})).json()
    traced.world.pass_time(6_000)
    await http.post(f"/v1/leases/{lease['id']}/started", json={"pid": 4242}, headers=hub)
    start = traced.start(**{"gpucommons.workload.kind": "notebook"})
    assert trace_of(start) == CALLER
    assert ms(traced.within(start)["startup"]) == 6_000


async def test_a_server_that_did_not_start_is_an_error_and_a_turn_that_passed_is_none(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    world, hub = traced.world, {"Authorization": "Bearer hub-token"}
    asked = {"user": "ann", "milli_gpu": 500}
    lease = (await http.post("/v1/leases/acquire", json=asked, headers=hub)).json()
    await http.post(f"/v1/leases/{lease['id']}/end", json={"why": "failed"}, headers=hub)
    for _ in range(5):
        world.pass_time(5_000)
    failed = traced.start(**{"gpucommons.outcome": "failed"})
    assert failed.status.status_code is StatusCode.ERROR
    traced.spans.clear()
    await http.post("/v1/leases", json=asked, headers=ANN)
    for _ in range(30):
        world.pass_time(5_000)
    passed = traced.start(**{"gpucommons.outcome": "unused", "gpucommons.attempt.number": 1})
    assert passed.status.status_code is StatusCode.UNSET
    assert ms(passed) >= 120_000


async def test_what_is_polled_makes_no_spans(traced: Traced, http: httpx.AsyncClient) -> None:
    for path in ("/v1/jobs", "/v1/pools", "/livez"):
        await http.get(path, headers=CALLED)
    assert traced.made() == []


async def test_a_caller_that_samples_nothing_has_no_trace(
    traced: Traced, http: httpx.AsyncClient
) -> None:
    off = {**ANN, "traceparent": f"00-{CALLER}-00f067aa0ba902b7-00"}
    asked = a_request(role={"milli_gpu": 1000})
    await http.post("/v1/jobs", json=asked.model_dump(mode="json"), headers=off)
    traced.world.pass_time(1_000)
    assert [one.name for one in traced.made()] == ["cycle"]


async def test_of_a_stranger_nothing_is_made_or_logged(
    traced: Traced, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    at_will = {"baggage": "x" * 40_000, "tracestate": "user=anything"}
    asked = a_request(role={"milli_gpu": 1000}).model_dump(mode="json")
    stranger = {**at_will, "traceparent": CALLED["traceparent"]}
    assert (await http.post("/v1/jobs", json=asked, headers=stranger)).status_code == 401
    assert traced.made() == []
    await http.post("/v1/jobs", json=asked, headers={**CALLED, **at_will})
    (span,) = (one for one in traced.made(CALLER) if one.kind is SpanKind.SERVER)
    assert span.context is not None
    assert not span.context.trace_state
    assert "xxxx" not in caplog.text


async def test_an_exporter_that_fails_disturbs_no_start(
    traced: Traced, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(traced.spans, "export", fails)
    job_id = await submit(http)
    traced.world.pass_time(1_000)
    assert traced.world.cluster.workloads[WorkloadId(job_id)].state is State.RUNNING


async def test_spans_that_cannot_be_made_disturb_no_request_and_no_start(
    traced: Traced, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Tracer, "start_span", fails)
    job_id = await submit(http)
    traced.world.pass_time(1_000)
    assert traced.world.cluster.workloads[WorkloadId(job_id)].state is State.RUNNING
    assert traced.made() == []


def test_a_start_that_another_scheduler_decided_has_what_is_on_record(traced: Traced) -> None:
    world = traced.world
    world.script = Script(start_ms=3_000)
    jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    (job,) = world.cluster.workloads.values()
    assert job.current is not None
    assert start_of(job, job.current, Seen()) is None  # it is on its way
    world.pass_time(3_000)
    (job,) = world.cluster.workloads.values()
    assert job.current is not None
    start = start_of(job, job.current, Seen())
    assert start is not None
    assert [(one.name, one.to_ns - one.from_ns) for one in start.within] == [
        ("wait", 0),
        ("startup", 3_000_000_000),
    ]


def test_a_decision_that_could_not_be_written_makes_no_span(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    world = traced.world
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "commit", fails)
        with pytest.raises(OSError, match="disk"):
            jobs.submit(world.service, world.principal("ann"), a_request(), key=None)
    assert traced.made() == []
    world.pass_time(1_000)
    world.pass_time(1_000)
    start = traced.start()
    assert start.attributes is not None
    assert start.attributes["gpucommons.queue_wait_ms"] == 1_000


async def test_steps_follow_each_other(traced: Traced, http: httpx.AsyncClient) -> None:
    traced.world.script = Script(start_ms=2_000)
    await submit(http)
    traced.world.pass_time(2_000)
    start = traced.start()
    steps = sorted(traced.within(start).values(), key=lambda one: one.start_time or 0)
    assert all((a.start_time or 0) <= (b.start_time or 0) for a, b in pairwise(steps))
    assert max(one.end_time or 0 for one in steps) == start.end_time
