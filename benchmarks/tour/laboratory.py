"""A JupyterLab tab without a browser: kernels, and the panel's WebSocket."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import websocket

from benchmarks.tour.person import Person
from benchmarks.tour.timeline import PATIENCE_S, TourFailedError, wait_for

Message = dict[str, Any]


class Panel:
    """The one WebSocket of a tab; keeps every message with its time of arrival."""

    def __init__(self, person: Person) -> None:
        address = person.url.replace("http", "ws", 1)
        self._socket = websocket.create_connection(
            f"{address}/user/{person.name}/gpucommons/ws",
            header=[f"Authorization: token {person.token}"],
            timeout=60,
        )
        self.messages: list[tuple[float, Message]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                text = self._socket.recv()
            except websocket.WebSocketTimeoutException:
                continue  # nothing was said for a while
            except (OSError, websocket.WebSocketException):
                return
            if text:
                self.messages.append((time.monotonic(), json.loads(text)))

    def send(self, **message: Any) -> None:
        """Say something to the server."""
        self._socket.send(json.dumps(message))

    def wait(
        self,
        what: str,
        wanted: Callable[[Message], bool],
        *,
        since: float = 0,
        timeout_s: float = PATIENCE_S,
    ) -> tuple[float, Message]:
        """The first message since a moment that fits."""

        def found() -> tuple[float, Message] | None:
            return next(
                (pair for pair in list(self.messages) if pair[0] >= since and wanted(pair[1])), None
            )

        return wait_for(what, found, timeout_s=timeout_s, every_s=0.02)

    def close(self) -> None:
        """Close the tab."""
        self._socket.close()
        self._thread.join(5)


class Kernel:
    """A notebook's kernel: a new one, or that of this id."""

    def __init__(self, person: Person, kernel_id: str | None = None) -> None:
        self._person = person
        self.kernel_id = (
            kernel_id or person.lab("POST", "api/kernels", json={"name": "python3"})["id"]
        )
        address = person.url.replace("http", "ws", 1)
        self._socket = websocket.create_connection(
            f"{address}/user/{person.name}/api/kernels/{self.kernel_id}/channels",
            header=[f"Authorization: token {person.token}"],
            timeout=60,
        )

    def run(self, code: str, *, wait: bool = True, cell: str | None = None) -> float:
        """Execute a cell; returns when it began. With ``wait`` until the kernel is idle again.

        Raises
        ------
        TourFailedError
            When the cell fails.
        """
        message_id = uuid.uuid4().hex
        header = {
            "msg_id": message_id,
            "msg_type": "execute_request",
            "username": self._person.name,
            "session": uuid.uuid4().hex,
            "version": "5.3",
            "date": "",
        }
        content = {
            "code": code,
            "silent": False,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        self._socket.send(
            json.dumps(
                {
                    "header": header,
                    "parent_header": {},
                    "metadata": {} if cell is None else {"cellId": cell},
                    "content": content,
                    "channel": "shell",
                }
            )
        )
        began = self._state(message_id, "busy")
        if wait:
            self._state(message_id, "idle")
        return began

    def _state(self, message_id: str, state: str) -> float:
        while True:
            message = self.hear()
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content = message["content"]
            if message["msg_type"] == "error":
                raise TourFailedError(f"{content['ename']}: {content['evalue']}")
            if message["msg_type"] == "status" and content["execution_state"] == state:
                return time.monotonic()

    def hear(self) -> Message:
        """The next message of the kernel."""
        return dict(json.loads(self._socket.recv()))

    def close_tab(self) -> None:
        """Close the connection; the kernel stays."""
        self._socket.close()

    def interrupt(self) -> None:
        """Stop the running cell."""
        self._person.lab("POST", f"api/kernels/{self.kernel_id}/interrupt")
