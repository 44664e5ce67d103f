"""How workers of one attempt talk: JSON over TCP, each side proved by the attempt's token."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

#: A pod may have to fetch its image before it answers.
PATIENCE_S = 600.0
_PAUSE_S = 0.2
_LONGEST_BYTES = 1 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NotJoined(Exception):
    """The workers did not come together; the sentence says why."""


def place_of(text: str) -> tuple[str, int]:
    """``host:port`` as a pair."""
    address, _, port = text.rpartition(":")
    return address, int(port)


def listen(place: tuple[str, int], hear: Callable[[Line], None]) -> None:
    """Answer those who prove themselves, each in a thread of its own, until the process ends.

    Raises
    ------
    NotJoined
        When somebody else has the port.
    """
    address, port = place
    # A pod's own name may not be known to it yet.
    host = "127.0.0.1" if address in _LOOPBACK else ""
    try:
        listening = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        message = f"port {port}, at which the workers meet, cannot be used: {error.strerror}"
        raise NotJoined(message) from None
    threading.Thread(target=_accept, args=(listening, hear), daemon=True).start()


def _accept(listening: socket.socket, hear: Callable[[Line], None]) -> None:
    while True:
        try:
            found, _ = listening.accept()
        except OSError:
            time.sleep(_PAUSE_S)
            continue
        threading.Thread(target=_answer, args=(found, hear), daemon=True).start()


def _answer(found: socket.socket, hear: Callable[[Line], None]) -> None:
    connection = _connection(found)
    with contextlib.suppress(OSError, EOFError, AuthenticationError):
        deliver_challenge(connection, _key())
        answer_challenge(connection, _key())
        hear(Line(connection))
        return
    connection.close()


def call(place: tuple[str, int], patience_s: float = PATIENCE_S) -> Line:
    """Reach another worker, which may begin later.

    Raises
    ------
    NotJoined
        When patience ends.
    """
    until_s = time.monotonic() + patience_s
    while True:
        try:
            connection = _connection(socket.create_connection(place, timeout=10.0))
            answer_challenge(connection, _key())
            deliver_challenge(connection, _key())
        except AuthenticationError:
            message = f"what answers at {place[0]}:{place[1]} is no worker of this attempt"
            raise NotJoined(message) from None
        except (OSError, EOFError):
            if time.monotonic() > until_s:
                message = f"no worker answered at {place[0]}:{place[1]} within {patience_s:.0f} s"
                raise NotJoined(message) from None
            time.sleep(_PAUSE_S)
        else:
            return Line(connection)


class Line:
    """One connection; what is said on it are JSON objects."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, told: Mapping[str, Any]) -> bool:
        """Whether it was sent."""
        try:
            self._connection.send_bytes(json.dumps(told).encode())
        except OSError:
            return False
        return True

    def hear(self) -> dict[str, Any] | None:
        """What is said next; None once the other side is gone."""
        try:
            found = json.loads(self._connection.recv_bytes(_LONGEST_BYTES))
        except (OSError, EOFError, ValueError):
            return None
        return found if isinstance(found, dict) else None


def _connection(found: socket.socket) -> Connection:
    found.settimeout(None)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return Connection(found.detach())


def _key() -> bytes:
    return os.environ.get("GPUCOMMONS_TOKEN", "").encode()


def remark(text: str) -> None:
    """A line for the job's log."""
    sys.stderr.write(f"gpucommons: {text}\n")
    sys.stderr.flush()


def derived(purpose: str) -> str:
    """A secret of this attempt for others' protocols, from which its token cannot be told."""
    return hmac.new(_key(), purpose.encode(), "sha256").hexdigest()


def free_port() -> int:
    """Some port of this machine that nobody listens on now."""
    with socket.create_server(("", 0)) as found:
        return int(found.getsockname()[1])


def own_program(name: str) -> str | None:
    """A program of this Python's environment, else of the path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
