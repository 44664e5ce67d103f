"""A pod hears of an announced stop whatever an answer in between looks like."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launches import until

from gpucommons.scheduler.in_pod import command, worker

STOP = json.dumps({"stop": {"deadline_ms": 1}})
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


@contextmanager
def scheduler_that_answers(*answers: str) -> Iterator[worker.Api]:
    """Gives each answer once, the last one for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            left = list(answers)
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall((left.pop(0) if len(left) > 1 else left[0]).encode())

        threading.Thread(target=serve, daemon=True).start()
        yield worker.Api(f"http://127.0.0.1:{server.getsockname()[1]}", "token")
        server.shutdown(socket.SHUT_RDWR)


class Hasty(threading.Event):
    """Waits for nothing."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(0.001)


@pytest.mark.parametrize(
    "odd",
    [
        HEAD.format(40) + '{"st',
        HEAD.format(11) + "<h1>No</h1>",
        HEAD.format(2) + "{}",
    ],
    ids=["cut off", "a page", "another document"],
)
def test_orders_are_followed_after_an_odd_answer(tmp_path: Path, odd: str) -> None:
    notice, over = tmp_path / "notice", Hasty()
    with scheduler_that_answers(odd, HEAD.format(len(STOP)) + STOP) as api:
        watching = threading.Thread(target=command.watch_orders, args=(api, notice, over))
        watching.start()
        until(lambda: notice.exists() or not watching.is_alive())
        assert notice.exists()
        over.set()
        watching.join()


def test_an_answer_that_was_cut_off_is_asked_for_again() -> None:
    with scheduler_that_answers(HEAD.format(40) + '{"st', HEAD.format(len(STOP)) + STOP) as api:
        assert api.get("/v1/attempt/orders") == json.loads(STOP)
