"""Who reads TensorBoard's files is there only where there are some: real processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from event_records import NAME, START_S, event

from gpucommons.scheduler.curves.event_process import LOOK_S, EventProcess, Reading
from gpucommons.scheduler.curves.event_watch import TOKEN_FILE


class Scheduler(BaseHTTPRequestHandler):
    """Takes points."""

    points: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.points.extend(json.loads(body)["points"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Scheduler.points.clear()
    server = HTTPServer(("127.0.0.1", 0), Scheduler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _process(work: Path, url: str = "http://127.0.0.1:1") -> EventProcess:
    env = {
        "GPUCOMMONS_URL": url,
        "GPUCOMMONS_TOKEN": "gca-secret",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(work.parent / TOKEN_FILE),
    }
    reading = Reading(work=str(work), env=env, account=None, since_s=START_S)
    return EventProcess(reading=reading)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def _ended(process: EventProcess) -> int:
    """The status of whoever looked."""
    assert process._pid is not None
    return os.waitstatus_to_exitcode(os.waitpid(process._pid, 0)[1])


def test_without_such_a_file_nobody_stays_and_the_token_is_left_all_the_same(work: Path) -> None:
    process = _process(work)
    process.look(1.0)

    assert _ended(process) == 0
    assert not process._is_alive()
    assert (work.parent / TOKEN_FILE).read_text() == "gca-secret"


def test_what_was_written_before_the_reader_began_is_read_once_by_one(work: Path, url: str) -> None:
    process = _process(work, url)
    (work / NAME).write_bytes(event(1, "loss", 0.5) + event(2, "loss", 0.25))
    process.look(1.0)
    reader = process._pid
    process.look(1.0 + LOOK_S)
    assert process._pid == reader

    assert reader is not None
    # Also where it has not begun yet: it looks once more and leaves.
    os.kill(reader, signal.SIGTERM)
    assert _ended(process) == 0
    assert [(p["step"], p["metrics"]) for p in Scheduler.points] == [
        (1, {"loss": 0.5}),
        (2, {"loss": 0.25}),
    ]


def test_a_file_that_comes_later_is_found_at_a_later_look(work: Path, url: str) -> None:
    process = _process(work, url)
    process.look(1.0)
    _ended(process)
    (work / NAME).write_bytes(event(7, "loss", 0.5))
    process.look(1.0 + LOOK_S / 2)
    assert not process._is_alive()

    process.look(1.0 + LOOK_S)
    deadline = time.monotonic() + 60
    while not Scheduler.points and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert process._pid is not None
    os.kill(process._pid, signal.SIGTERM)
    assert _ended(process) == 0
    assert [p["step"] for p in Scheduler.points] == [7]


def test_the_last_look_is_made_whenever_the_one_before_was(work: Path, url: str) -> None:
    process = _process(work, url)
    process.look(1.0)
    _ended(process)
    (work / NAME).write_bytes(event(7, "loss", 0.5))

    process.look(1.01, is_last=True)
    assert process._pid is not None
    os.kill(process._pid, signal.SIGTERM)
    assert _ended(process) == 0
    assert [p["step"] for p in Scheduler.points] == [7]
