"""How workers of one attempt talk: JSON over TCP, each side proved by the attempt's token.

A proof is for one listener and for one side of it: who stands between two workers can hand it to nobody else.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import shutil
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

#: A pod may have to fetch its image before it answers.
PATIENCE_S = 600.0
_PAUSE_S = 0.2
#: So long a side may be silent before both are proved; a caller tries again after it.
_PROVE_S = 5
#: Connections that have not proved themselves; one more ends the oldest.
_MOST_UNPROVED = 64
_LONGEST_BYTES = 1 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


#: How a connection ends that proves nothing; an assertion is what `multiprocessing` has for another protocol.
_UNPROVED = (OSError, EOFError, AuthenticationError, AssertionError)


class NotJoined(Exception):
    """The workers did not come together; the sentence says why."""


def place_of(text: str) -> tuple[str, int]:
    """``host:port`` as a pair."""
    address, _, port = text.rpartition(":")
    return address, int(port)


def own_address(name: str) -> str:
    """This worker's address where others know it by a name: to itself a pod's name may not be known yet."""
    if name in _LOOPBACK:
        return name
    try:
        found = socket.gethostbyname(socket.gethostname())
    except OSError:
        return name
    # Debian's own name for a machine without a fixed address.
    return name if found.startswith("127.") else found


def listen(place: tuple[str, int], hear: Callable[[Line], None]) -> None:
    """Answer those who prove themselves, each in a thread of its own, until the process ends.

    Raises
    ------
    NotJoined
        When somebody else has the port, or there is no token.
    """
    proofs = _proofs(place)
    address, port = place
    # A pod's own name may not be known to it yet.
    host = "127.0.0.1" if address in _LOOPBACK else ""
    try:
        listening = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        again = (
            ". Run it again: each attempt has other ports"
            if error.errno == errno.EADDRINUSE
            else ""
        )
        why = os.strerror(error.errno or 0)  # Python's own sentence repeats the port
        message = f"port {port}, at which the workers meet, cannot be used: {why}{again}"
        raise NotJoined(message) from None
    threading.Thread(target=_accept, args=(listening, proofs, hear), daemon=True).start()


def _accept(listening: socket.socket, proofs: Proofs, hear: Callable[[Line], None]) -> None:
    unproved = Unproved()
    while True:
        try:
            found, _ = listening.accept()
        except OSError:
            time.sleep(_PAUSE_S)
            continue
        unproved.hold(found)
        threading.Thread(target=_answer, args=(found, proofs, unproved, hear), daemon=True).start()


class Unproved:
    """Connections of who may be anybody: they are few, and a new one takes the place of the oldest."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._lock = threading.Lock()

    def hold(self, found: socket.socket) -> None:
        """One more."""
        with self._lock:
            self._held.append(found)
            oldest = self._held.pop(0) if len(self._held) > _MOST_UNPROVED else None
        if oldest is not None:
            # Its thread, which waits for it, closes it.
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)

    def release(self, found: socket.socket) -> None:
        """It is proved, or gone."""
        with self._lock, contextlib.suppress(ValueError):
            self._held.remove(found)


def _answer(
    found: socket.socket, proofs: Proofs, unproved: Unproved, hear: Callable[[Line], None]
) -> None:
    connection = None
    try:
        connection = _connection(found)
        deliver_challenge(connection, proofs.of_caller)
        answer_challenge(connection, proofs.of_listener)
        _be_patient(found)
    except _UNPROVED:
        if connection is not None:
            connection.close()
        return
    finally:
        unproved.release(found)
        found.close()
    hear(Line(connection))


def _never() -> bool:
    return False


def call(
    place: tuple[str, int],
    patience_s: float = PATIENCE_S,
    is_stopped: Callable[[], bool] = _never,
) -> Line:
    """Reach another worker, which may begin later.

    Raises
    ------
    NotJoined
        When patience ends, or with a stop.
    """
    until_s, proofs = time.monotonic() + patience_s, _proofs(place)
    while True:
        if is_stopped():
            message = f"told to stop before a worker answered at {place[0]}:{place[1]}"
            raise NotJoined(message)
        try:
            return _called(place, proofs)
        except AuthenticationError:
            message = f"what answers at {place[0]}:{place[1]} is no worker of this attempt"
            raise NotJoined(message) from None
        except (OSError, EOFError, AssertionError):
            if time.monotonic() > until_s:
                message = f"no worker answered at {place[0]}:{place[1]} within {patience_s:.0f} s"
                raise NotJoined(message) from None
            time.sleep(_PAUSE_S)


def _called(place: tuple[str, int], proofs: Proofs) -> Line:
    with socket.create_connection(place, timeout=_PROVE_S) as found:
        connection = _connection(found)
        answer_challenge(connection, proofs.of_caller)
        deliver_challenge(connection, proofs.of_listener)
        _be_patient(found)
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
    """Of the same socket, which gives up on a side that is silent."""
    found.settimeout(None)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _let_wait(found, _PROVE_S)
    return Connection(os.dup(found.fileno()))


def _be_patient(found: socket.socket) -> None:
    """Both sides are proved: one may be silent for as long as it computes."""
    _let_wait(found, 0)


def _let_wait(found: socket.socket, seconds: int) -> None:
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        found.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Proofs:
    """What each side of one listener is proved by: other keys than at any other, and for either side another."""

    of_caller: bytes
    of_listener: bytes


def _proofs(place: tuple[str, int]) -> Proofs:
    """Both sides write the place alike: it is in what all workers are told."""
    where = f"{place[0]}:{place[1]}"
    return Proofs(
        of_caller=derived(f"caller {where}").encode(),
        of_listener=derived(f"listener {where}").encode(),
    )


def _key() -> bytes:
    key = os.environ.get("GPUCOMMONS_TOKEN", "").encode()
    if not key:
        message = "workers prove themselves by GPUCOMMONS_TOKEN, which is empty here"
        raise NotJoined(message)
    return key


def remark(text: str) -> None:
    """A line for the job's log."""
    sys.stderr.write(f"gpucommons: {text}\n")
    sys.stderr.flush()


def derived(purpose: str) -> str:
    """A secret of this attempt for one purpose, from which its token cannot be told.

    Raises
    ------
    NotJoined
        Where the attempt has no token.
    """
    return hmac.new(_key(), purpose.encode(), "sha256").hexdigest()


def free_port() -> int:
    """Some port of this machine that nobody listens on now."""
    with socket.create_server(("", 0)) as found:
        return int(found.getsockname()[1])


def own_program(name: str) -> str | None:
    """A program of this Python's environment, else of the path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
