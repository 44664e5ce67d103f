"""What a kernel says is heard, and what it may cost its server is bounded: a kernel may say anything."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.session import Session

from gpucommons.labextension.kernel_words import MARK, Said, missed
from gpucommons.labextension.outputs import cell_runs, listening
from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.labextension.outputs.listening import Outputs, pause_s


class _Stream:
    """A kernel's connection, of which all is read."""

    def __init__(self) -> None:
        self.say: Callable[[list[bytes]], None]
        self.is_closed = False
        self.socket = SimpleNamespace(get=lambda _option: 0)

    def on_recv(self, hear: Callable[[list[bytes]], None]) -> None:
        self.say = hear

    def closed(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class _Kernels(dict[str, Any]):
    """A server's kernels, each with the connections that were opened to it."""

    def __init__(self) -> None:
        super().__init__()
        self._kernel_buffers: dict[str, Any] = {}

    get_kernel = dict.__getitem__

    def start(self, kernel_id: str) -> list[_Stream]:
        streams: list[_Stream] = []

        def connect_iopub() -> _Stream:
            streams.append(_Stream())
            return streams[-1]

        self[kernel_id] = SimpleNamespace(
            ports=[1, 2], provisioner=None, connect_iopub=connect_iopub
        )
        return streams


class _Heard:
    """Outputs of a server that has some kernels, to each of which a page has come."""

    def __init__(self, folder: Path) -> None:
        self.kernels = _Kernels()
        self.outputs = Outputs(SimpleNamespace(kernel_manager=self.kernels), folder)
        self.session = Session(key=b"")

    def open(self, kernel_id: str) -> _Stream:
        streams = self.kernels.start(kernel_id)
        self.come(kernel_id)
        return streams[-1]

    def come(self, kernel_id: str) -> None:
        self.outputs.page_comes(SimpleNamespace(kernel_id=kernel_id, session=self.session))

    def says(self, kind: str, content: Any, parent: dict[str, Any] | None = None) -> list[bytes]:
        return self.session.serialize(self.session.msg(kind, content, parent=parent))


def a_run(request: str) -> CellRun:
    return CellRun(
        id=request,
        kernel_id="k1",
        path="a.ipynb",
        cell_id=f"cell of {request}",
        code="print('seen')",
        session="s",
        begun_ms=1,
    )


@pytest.fixture
def heard(tmp_path: Path) -> _Heard:
    return _Heard(tmp_path)


def test_a_mark_is_heard_until_the_next_one(heard: _Heard) -> None:
    stream = heard.open("k1")
    assert not heard.outputs.has_heard("k1", "a" * 32)
    stream.say(heard.says(MARK, {"mark": "a" * 32}))
    assert heard.outputs.has_heard("k1", "a" * 32)
    stream.say(heard.says(MARK, {"mark": "b" * 32}))
    assert heard.outputs.has_heard("k1", "b" * 32)
    assert not heard.outputs.has_heard("k1", "a" * 32)


@pytest.mark.parametrize("mark", ["x" * 100_000, "x" * 65])
def test_of_a_mark_that_is_none_of_ours_little_is_kept(heard: _Heard, mark: str) -> None:
    stream = heard.open("k1")
    stream.say(heard.says(MARK, {"mark": mark}))
    assert not heard.outputs.has_heard("k1", mark)


@pytest.mark.parametrize("content", [{}, {"mark": 1}, {"mark": None}, [], "x", 1, None])
def test_a_message_of_ours_without_a_mark_is_worth_no_line_in_the_log(
    heard: _Heard, content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stream = heard.open("k1")
    with caplog.at_level(logging.WARNING):
        stream.say([*heard.says(MARK, {})[:-1], json.dumps(content).encode()])
    assert not caplog.records


def test_who_has_our_mark_for_a_name_loses_no_output(heard: _Heard) -> None:
    stream = heard.open("k1")
    heard.session.username = MARK
    asked = heard.session.msg("execute_request")
    heard.outputs.runs.begin(a_run(asked["header"]["msg_id"]))
    stream.say(heard.says("stream", {"name": "stdout", "text": "seen\n"}, parent=asked))
    [run] = heard.outputs.runs
    assert [one["content"]["text"] for one in run.messages] == ["seen\n"]


def test_with_a_kernel_that_is_gone_its_connection_and_its_mark_go(heard: _Heard) -> None:
    stream = heard.open("k1")
    stream.say(heard.says(MARK, {"mark": "a" * 32}))
    del heard.kernels["k1"]
    heard.open("k2")
    assert stream.is_closed
    assert not heard.outputs.has_heard("k1", "a" * 32)


def test_of_the_last_word_of_a_kernel_nothing_is_kept(heard: _Heard) -> None:
    stream = heard.open("k1")
    del heard.kernels["k1"]
    stream.say(heard.says(MARK, {"mark": "a" * 32}))
    assert stream.is_closed
    assert not heard.outputs.has_heard("k1", "a" * 32)


def test_a_new_connection_to_a_kernel_has_heard_no_mark_yet(heard: _Heard) -> None:
    stream = heard.open("k1")
    stream.say(heard.says(MARK, {"mark": "a" * 32}))
    heard.kernels["k1"].ports = [3, 4]
    heard.come("k1")
    assert stream.is_closed
    assert not heard.outputs.has_heard("k1", "a" * 32)


def _text(run: CellRun) -> str:
    return "".join(one["content"]["text"] for one in run.messages)


class _Woken:
    """A cell of a woken kernel, whose server before wrote down its first line alone."""

    def __init__(self, heard: _Heard) -> None:
        self.outputs, self.heard = heard.outputs, heard
        self.asked = heard.session.msg("execute_request")
        self.run = a_run(self.asked["header"]["msg_id"])
        self.streams = heard.kernels.start("k1")
        heard.kernels["k1"].provisioner = SimpleNamespace(is_woken=True)
        heard.kernels["k1"].execution_state = "starting"
        self.outputs.runs.begin(self.run)
        self.said = [self._line(n) for n in range(5)]
        self.outputs._take(self.said[0])
        self.outputs.go_on()

    def _line(self, n: int) -> Said:
        content = {"name": "stdout", "text": f"{n} "}
        message = self.heard.session.msg("stream", content, parent=self.asked)
        parts = ("header", "parent_header", "metadata", "content")
        return Said(*(json.loads(json.dumps(message[one], default=str)) for one in parts))

    def says(self, n: int) -> None:
        parts = (json.dumps(part).encode() for part in self.said[n])
        self.streams[-1].say([b"<IDS|MSG>", b"", *parts])


def test_a_cell_that_a_killed_server_had_just_begun_is_over_only_once_its_kernel_says_so(
    heard: _Heard,
) -> None:
    woken, kernel = _Woken(heard), heard.kernels["k1"]
    # Jupyter Server takes the first status of a kernel that starts, of whatever request, for the end of its start.
    assert kernel.execution_state == "busy"
    assert [run.state for run in woken.outputs.of("k1", "")] == ["running"]

    kernel.execution_state = "idle"
    assert [run.state for run in woken.outputs.of("k1", "")] == ["ended"]


def test_what_a_woken_kernel_said_before_comes_before_what_it_says_now_and_nothing_twice(
    heard: _Heard,
) -> None:
    woken = _Woken(heard)
    assert woken.outputs.knows("k1") == {woken.run.id: woken.said[0].header["msg_id"]}
    # One was on its way to nobody, and was heard all the same; another is new.
    woken.says(3)
    woken.says(4)
    assert _text(woken.run) == "0 "

    woken.outputs.catch_up("k1", woken.said[1:4])

    assert _text(woken.run) == "0 1 2 3 4 "
    assert woken.outputs.knows("k1") == {}


async def test_a_page_is_told_once_it_is_known_what_was_missed(heard: _Heard) -> None:
    woken = _Woken(heard)
    page = asyncio.create_task(woken.outputs.caught_up("", "a.ipynb"))
    await asyncio.sleep(0)
    assert not page.done()

    # The kernel remembers nothing, or began anew.
    woken.outputs.catch_up("k1")

    await page
    woken.says(1)
    assert _text(woken.run) == "0 1 "


@pytest.mark.parametrize(
    "said", [[Said({}, {}, {}, {})], [Said({"msg_id": 1}, {"msg_id": []}, {}, {})]]
)
def test_whatever_a_kernel_claims_to_have_said_it_goes_on(heard: _Heard, said: list[Said]) -> None:
    woken = _Woken(heard)
    woken.says(1)
    woken.outputs.catch_up("k1", said)
    assert _text(woken.run) == "0 1 "


@pytest.mark.parametrize(
    "answer",
    ["", "'x'", "'bnVsbA=='", "'eyJhIjogW1siMSJdXX0='", "'eyJhIjogW1siMSIsIjEiLCIxIiwiMSJdXX0='"],
)
def test_an_answer_that_is_none_says_nothing(answer: str) -> None:
    told = {"user_expressions": {"gpucommons": {"data": {"text/plain": answer}}}}
    assert missed({"content": told}) == []


async def test_that_a_cell_was_begun_is_written_long_before_what_it_prints(
    heard: _Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rest(_took_s: float, ratio: float = 100) -> float:
        return 0.0 if ratio == listening._WORK_TO_PAUSE_AT_BEGIN else 600.0

    is_written = threading.Event()
    monkeypatch.setattr(listening, "pause_s", rest)
    monkeypatch.setattr(cell_runs, "write_private", lambda *_: is_written.set())
    task = asyncio.create_task(heard.outputs.run())
    await asyncio.sleep(0)
    heard.outputs.runs.begin(a_run("r"))

    assert await asyncio.to_thread(is_written.wait, 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("took_s", "expected"), [(0.0, 0.2), (0.03, 3.0), (2.0, 15.0)])
def test_what_is_much_to_write_is_written_less_often(took_s: float, expected: float) -> None:
    assert pause_s(took_s) == expected


async def test_a_slow_disk_holds_up_nothing_but_what_is_written_to_it(
    heard: _Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    written: list[str] = []

    def write_slowly(_path: Path, text: str) -> None:
        begun.set()
        assert may_end.wait(10), "the loop waited for the disk"
        written.append(text)

    monkeypatch.setattr(cell_runs, "write_private", write_slowly)
    monkeypatch.setattr(listening, "pause_s", lambda *_: 0.0)
    heard.outputs.runs.begin(a_run("before"))
    task = asyncio.create_task(heard.outputs.run())
    await asyncio.to_thread(begun.wait, 10)
    heard.outputs.runs.begin(a_run("meanwhile"))
    may_end.set()
    heard.outputs.stop(set())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ["meanwhile" in one for one in written] == [False, True]


async def test_a_disk_that_stays_full_is_in_the_log_once_and_tried_seldom(
    heard: _Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    full = {1, 2, 3, 5}

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > len("123456"):
            raise asyncio.CancelledError

    def write() -> None:
        if len(pauses) in full:
            raise OSError(errno.EDQUOT, "quota")

    def writing() -> Callable[[], None]:
        return write

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(listening, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(heard.outputs.runs, "writing", writing)
    heard.outputs.runs.is_dirty = True
    with pytest.raises(asyncio.CancelledError):
        await heard.outputs.run()
    assert pauses == [0.2, 15, 15, 15, 0.2, 15, 0.2]
    assert len(caplog.records) == 2, "of each row of failures the first"
