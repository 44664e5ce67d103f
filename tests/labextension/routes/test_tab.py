"""One tab: the WebSocket on a real server, with the scheduler faked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import hang_up, until
from tornado.httpclient import HTTPClientError

from gpucommons.gpu.connections.peer_limits import Crowds
from gpucommons.labextension.live import fanout
from gpucommons.labextension.routes import websocket
from gpucommons.labextension.routes.handlers import SETTING
from gpucommons.scheduler.models import ReasonView

JOB_ID = "018f0000-0000-7000-8000-000000000001"
LEASE_ID = "018f0000-0000-7000-8000-0000000000aa"


def sample(percent: int | None, at_ms: int = 0) -> dict[str, Any]:
    return {
        "slice_id": "s1",
        "at_ms": at_ms,
        "compute_percent": percent,
        "memory_used_mib": None if percent is None else 100,
        "memory_limit_mib": 2048,
        "processes": 1,
    }


class Tab:
    """A page's end of the socket."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.seen: list[dict[str, Any]] = []

    async def next(self, kind: str, **fields: Any) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                text = await self.socket.read_message()
                assert text is not None, f"closed before {kind}"
                message = json.loads(text)
                self.seen.append(message)
                if message["type"] == kind and fields.items() <= message.items():
                    return message  # type: ignore[no-any-return] # JSON

    async def say(self, message: Any) -> None:
        await self.socket.write_message(json.dumps(message))


@asynccontextmanager
async def opened(served: Any) -> AsyncIterator[Tab]:
    socket = await served.websocket("gpucommons/ws")
    yield Tab(socket)
    await hang_up(socket)


class Agent:
    """The node agent's end of a slice's socket."""

    def __init__(self) -> None:
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.history: list[dict[str, Any]] = [sample(1, 1), sample(2, 2)]
        self.server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        self.server = await asyncio.start_unix_server(self._accept, path)

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        await self._write(writer, {"history": self.history})

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, message: Any) -> None:
        writer.write(json.dumps(message).encode() + b"\n")
        await writer.drain()

    async def publish(self, one: dict[str, Any]) -> None:
        for writer in self.writers:
            await self._write(writer, {"sample": one})

    async def stop(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()
        if self.server is not None:
            self.server.close()


async def test_a_tab_is_greeted_with_everything(served: Any) -> None:
    async with opened(served) as tab:
        hello = await tab.next("hello", scheduler="ok")
        assert hello["whoami"]["name"] == "alice"
        assert hello["shared_account"] is False
        jobs = next(m for m in tab.seen if m["type"] == "jobs")
        assert [job["name"] for job in jobs["jobs"]] == ["digits-7"]
        lease = next(m for m in tab.seen if m["type"] == "lease")
        assert lease["lease"]["slice"]["gpu_kind"] == "A100-40"
        assert any(m["type"] == "teams" for m in tab.seen)
        assert any(m == {"type": "usage", "state": "no-gpu", "samples": []} for m in tab.seen)


async def test_nobody_opens_a_tab_without_logging_in(served: Any) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await served.websocket("gpucommons/ws", token=False)
    assert caught.value.code == 403


async def test_what_happens_arrives_and_refreshes_what_it_touches(served: Any, api: Any) -> None:
    async with opened(served) as tab:
        await tab.next("hello", scheduler="ok")
        api.job = api.job.model_copy(update={"state": "succeeded"})
        api.happen("succeeded")
        news = await tab.next("events")
        assert [event["kind"] for event in news["events"]] == ["succeeded"]
        jobs = await tab.next("jobs")
        assert jobs["jobs"][0]["state"] == "succeeded"


@pytest.mark.parametrize(
    ("language", "reason", "line"),
    [("de_DE", "Pausiert.", "Paused."), ("en", "Paused.", "Paused.")],
)
async def test_a_tab_gets_reasons_in_its_language_and_what_programs_print_as_it_is(
    served: Any, api: Any, language: str, reason: str, line: str
) -> None:
    why = ReasonView(code="policy", text="Paused.")
    api.job = api.job.model_copy(update={"reason": why})
    api.log = [line]
    socket = await served.websocket(f"gpucommons/ws?language={language}")
    tab = Tab(socket)
    jobs = await tab.next("jobs")
    assert jobs["jobs"][0]["reason"]["text"] == reason
    await tab.say({"type": "follow", "job": JOB_ID})
    log = await tab.next("log")
    assert line in json.dumps(log["lines"])
    await hang_up(socket)


async def test_more_at_once_than_a_mailbox_holds_closes_no_tab(served: Any, api: Any) -> None:
    async with opened(served) as tab:
        await tab.next("hello", scheduler="ok")
        for _ in range(fanout.QUEUE_SIZE + 1):
            api.happen("cancelled")
        news = await tab.next("events")
        assert len(news["events"]) == fanout.QUEUE_SIZE + 1
        api.happen("started")
        await tab.next("events")


async def test_a_second_tab_asks_the_scheduler_for_nothing(served: Any, api: Any) -> None:
    async with opened(served) as first:
        await first.next("hello", scheduler="ok")
        asked = len(api.requests)
        async with opened(served) as second:
            await second.next("teams")
            assert len(api.requests) - asked <= 1


async def test_an_action_through_this_server_shows_at_once(served: Any, api: Any) -> None:
    async with opened(served) as tab:
        await tab.next("hello", scheduler="ok")
        api.job = api.job.model_copy(update={"state": "cancelling"})
        await served.http.post(f"gpucommons/api/jobs/{JOB_ID}/cancel", json={})
        jobs = await tab.next("jobs")
        assert jobs["jobs"][0]["state"] == "cancelling"


async def test_a_followed_job_sends_its_view_curve_and_log(served: Any, api: Any) -> None:
    async with opened(served) as tab:
        await tab.say({"type": "follow", "job": JOB_ID, "rank": 0})
        assert (await tab.next("job"))["job"]["name"] == "digits-7"
        curve = await tab.next("curve", job=JOB_ID)
        assert curve["points"][0]["metrics"] == {"loss": 0.5}
        log = await tab.next("log", job=JOB_ID)
        assert log == {
            "type": "log",
            "job": JOB_ID,
            "attempt": 1,
            "rank": 0,
            "lines": ["epoch 1", "epoch 2"],
            "end": True,
        }
        await tab.say({"type": "unfollow", "job": JOB_ID})


async def test_following_what_is_not_there_is_an_error_message(served: Any) -> None:
    async with opened(served) as tab:
        await tab.say({"type": "follow", "job": "nobodys-1"})
        assert (await tab.next("error"))["message"] == "Not yours."


async def test_what_is_over_takes_no_place_from_a_job_that_is_followed(
    served: Any, api: Any, make_job: Any
) -> None:
    async with opened(served) as tab:
        await tab.say({"type": "follow", "job": JOB_ID})
        await tab.next("curve")
        for number in range(websocket.MAX_FOLLOWED):
            await tab.say({"type": "follow", "job": f"nobodys-{number}"})
            await tab.next("error")
        api.job = make_job(name="digits-8")
        assert (await tab.next("job"))["job"]["name"] == "digits-8"


async def test_a_page_is_told_that_its_job_is_not_followed_any_more(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_follow: object) -> None:
        raise LookupError

    monkeypatch.setattr(websocket.Follow, "run", fail)
    async with opened(served) as tab:
        await tab.say({"type": "follow", "job": JOB_ID})
        assert "reload the page" in (await tab.next("error"))["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "follow"},
        {"type": "follow", "job": "../x"},
        {"type": "follow", "job": "digits-7", "rank": -1},
        {"type": "exec", "job": "digits-7"},
        ["follow"],
        {"type": "follow", "job": "x" * 5000},
    ],
)
async def test_a_message_that_makes_no_sense_is_answered(served: Any, message: Any) -> None:
    async with opened(served) as tab:
        await tab.say(message)
        assert (await tab.next("error"))["message"]


async def test_usage_comes_as_history_then_one_by_one_from_one_connection(
    serve: Any, socket_folder: Path
) -> None:
    agent = Agent()
    await agent.listen(socket_folder / "usage.sock")
    async with serve(GPUCOMMONS_SLICE_SOCKET=str(socket_folder / "usage.sock")) as served:
        async with opened(served) as one, opened(served) as two:
            for tab in (one, two):
                usage = await tab.next("usage", state="ok")
                assert [s["compute_percent"] for s in usage["samples"]] == [1, 2]
            await agent.publish(sample(55))
            for tab in (one, two):
                assert (await tab.next("usage"))["samples"] == [sample(55)]
        assert agent.connections == 1
    await agent.stop()


async def test_an_agent_that_goes_is_no_data_and_comes_back_by_itself(
    serve: Any, socket_folder: Path
) -> None:
    agent = Agent()
    path = socket_folder / "usage.sock"
    async with (
        serve(GPUCOMMONS_SLICE_SOCKET=str(path)) as served,
        opened(served) as tab,
    ):
        assert (await tab.next("usage"))["state"] == "no-data"
        await agent.listen(path)
        await tab.next("usage", state="ok")
        await agent.stop()
        await tab.next("usage", state="no-data")
        path.unlink(missing_ok=True)
        await agent.listen(path)
        await tab.next("usage", state="ok")
    await agent.stop()


async def test_a_driver_that_tells_nothing_is_no_data(serve: Any, socket_folder: Path) -> None:
    agent = Agent()
    agent.history = [sample(None)]
    await agent.listen(socket_folder / "usage.sock")
    path = str(socket_folder / "usage.sock")
    async with serve(GPUCOMMONS_SLICE_SOCKET=path) as served, opened(served) as tab:
        await tab.next("usage", state="no-data")
        await agent.publish(sample(7))
        await tab.next("usage", state="ok")
    await agent.stop()


async def test_without_scheduler_and_gpu_the_tab_says_so(serve: Any) -> None:
    async with serve() as served, opened(served) as tab:
        hello = await tab.next("hello")
        assert hello["scheduler"] == "none"
        assert "no GPU Commons scheduler here" in hello["message"].replace("No", "no")
        assert (await tab.next("usage"))["state"] == "no-gpu"


async def test_a_scheduler_that_goes_and_comes_back_is_said(served: Any, api: Any) -> None:
    async with opened(served) as tab:
        await tab.next("hello", scheduler="ok")
        api.down = True
        api.happen("anything")
        hello = await tab.next("hello", scheduler="unreachable")
        assert hello["message"].startswith("The GPU scheduler does not answer.")
        api.down = False
        await tab.next("hello", scheduler="ok")


async def test_a_tab_that_does_not_read_is_closed(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = asyncio.Event()

    async def never(_self: Any) -> None:
        await stuck.wait()

    monkeypatch.setattr(websocket.TabHandler, "_write_next", never)
    socket = await served.websocket("gpucommons/ws")
    parts = served.app.web_app.settings["gpucommons"]
    await until(lambda: len(parts.fanout))
    for number in range(fanout.QUEUE_SIZE + 1):
        parts.fanout.send({"type": "error", "message": str(number)})
    assert await socket.read_message() is None
    assert socket.close_code == websocket.TRY_LATER
    socket.close()
    await until(lambda: not len(parts.fanout))


async def test_a_tab_whose_writer_fails_is_closed_and_connects_again(
    served: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_language: str, _text: str) -> str:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(websocket, "told_in", fail)
        socket = await served.websocket("gpucommons/ws?language=de")
        async with asyncio.timeout(60):
            assert await socket.read_message() is None
    assert (socket.close_code, socket.close_reason) == (
        websocket.TRY_LATER,
        websocket.NOT_WRITTEN,
    )
    assert "its writer failed" in caplog.text
    socket.close()
    async with opened(served) as again:
        await again.next("hello", scheduler="ok")


async def test_a_tab_in_german_gets_what_follows_a_text_that_is_hard_to_take_apart(
    served: Any, api: Any
) -> None:
    why = ReasonView(code="policy", text="It answers a. " * 33 + ", " * 300)
    api.job = api.job.model_copy(update={"reason": why})
    socket = await served.websocket("gpucommons/ws?language=de")
    tab = Tab(socket)
    jobs = await tab.next("jobs")
    assert jobs["jobs"][0]["reason"]["text"] == why.text
    api.happen("succeeded")
    await tab.next("events")
    await hang_up(socket)


async def test_a_closed_tab_leaves_nothing_running(served: Any) -> None:
    before = asyncio.all_tasks()
    async with opened(served) as tab:
        await tab.next("hello", scheduler="ok")
        assert _of_tabs(before)
    await until(lambda: not _of_tabs(before))


def _of_tabs(before: set[asyncio.Task[Any]]) -> set[str]:
    names = {getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks() - before}
    return {name for name in names if name.startswith("_write")}


async def test_the_server_reports_its_activity_and_shows_the_answer(serve: Any, api: Any) -> None:
    environ = {"GPUCOMMONS_URL": "http://scheduler", "GPUCOMMONS_LEASE_ID": LEASE_ID}
    async with serve(**environ) as served, opened(served) as tab:
        await tab.next("lease")
        await until(lambda: api.asked("PUT"))
        assert api.asked("PUT") == [f"/v1/leases/{LEASE_ID}/activity"]
        reported = api.body(f"/v1/leases/{LEASE_ID}/activity")
        # Nothing but that it began.
        assert [one["busy"] for one in reported["kernels"]] == [False]
        assert reported["keeps"] in {"kernels", "variables", "nothing"}


async def test_a_tab_too_many_closes_the_oldest_and_says_so(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = served.app.web_app.settings[SETTING]
    monkeypatch.setattr(parts.fanout, "_tabs", Crowds(1))
    oldest = await served.websocket("gpucommons/ws")
    async with opened(served) as newest:
        await newest.next("hello", scheduler="ok")
        async with asyncio.timeout(60):
            while await oldest.read_message() is not None:
                pass
        assert (oldest.close_code, oldest.close_reason) == (websocket.TRY_LATER, fanout.MADE_ROOM)
        assert len(parts.fanout) == 1
    oldest.close()
