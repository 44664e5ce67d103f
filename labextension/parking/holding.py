"""Cells that are sent to a parked notebook wait in its server, and are handed on in their order.

Pages' requests are looked at on their way, as outputs for closed pages do it. A page that closes takes
what it sent with it, as it does in a kernel's own queue.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.jsonutil import json_default
from jupyter_server.services.kernels.connection.base import (
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

log = logging.getLogger("gpucommons.labextension")

_V1 = "v1.kernel.websocket.jupyter.org"
NOTICE = "Parked: this cell waits for its GPU, and goes on by itself."
NOT_BEGUN = "It could not be handed on to its kernel: run it again. The server's log says why."
INTERRUPTED = "Interrupted before it began: the notebook stays parked."


@dataclass(frozen=True, slots=True)
class _Held:
    page: Any
    message: Any
    header: dict[str, Any]


@dataclass(kw_only=True)
class Holding:
    """Requests to run something, while they are held."""

    #: Called with each that begins to wait.
    when_held: Callable[[], None] = lambda: None
    #: What is written below a cell while it waits; removed when it begins.
    notice: Callable[[], str] = lambda: NOTICE
    #: Called when none waits any more because its user interrupted them.
    when_none_waits: Callable[[], None] = lambda: None
    is_on: bool = False
    _held: list[_Held] = field(default_factory=list)

    def begin(self, server: Any, settings: dict[str, Any]) -> bool:
        """See pages' requests; False where another extension has its own connections of pages."""
        base = server.kernel_websocket_connection_class
        if not issubclass(base, ZMQChannelsWebsocketConnection):
            return False
        seen = _seen(base, self)
        server.kernel_websocket_connection_class = seen
        settings["kernel_websocket_connection_class"] = seen
        _tell_of_interrupts(server.kernel_manager, self)
        return True

    @property
    def kernel_ids(self) -> set[str]:
        """For which kernels something waits."""
        return {one.page.kernel_id for one in self._held}

    def takes(self, page: Any, message: Any) -> bool:
        """Whether it is held back: only what runs something is, and only while that is wanted."""
        if not self.is_on:
            return False
        header = _header(message, is_v1=page.subprotocol == _V1)
        if header is None:
            return False
        held = _Held(page, message, header)
        self._held.append(held)
        _send(held, "iopub", "stream", {"name": "stdout", "text": f"{self.notice()}\n"})
        self.when_held()
        return True

    def release(self) -> None:
        """Hand all on, in the order in which they came."""
        self.is_on = False
        held, self._held = self._held, []
        for one in held:
            try:
                _hand_on(one)
            except Exception:
                log.exception("a cell that waited is not handed on")
                _end(one, NOT_BEGUN)

    def refuse(self, because: str, kernel_id: str | None = None) -> None:
        """What waits, for one kernel or all, is over, and its page is told why."""
        kept: list[_Held] = []
        over: list[_Held] = []
        for one in self._held:
            (over if kernel_id in (None, one.page.kernel_id) else kept).append(one)
        self._held = kept
        for one in over:
            _end(one, because)

    def interrupted(self, kernel_id: str) -> None:
        """Its user wants nothing of it any more."""
        if kernel_id in self.kernel_ids:
            self.refuse(INTERRUPTED, kernel_id)
            if not self._held:
                self.when_none_waits()

    def gone(self, page: Any) -> None:
        """A page was closed."""
        waited = bool(self._held)
        self._held = [one for one in self._held if one.page is not page]
        if waited and not self._held:
            self.when_none_waits()


def _seen(base: type, holding: Holding) -> type:
    """A server's own class for connections of pages, looked at."""

    class Seen(base):  # type: ignore[misc] # which one is known at run time
        """A page's connection to a kernel."""

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            try:
                is_held = holding.takes(self, incoming_msg)
            except Exception:
                log.exception("a request is not held back")
                is_held = False
            if not is_held:
                super().handle_incoming_message(incoming_msg)

        def disconnect(self) -> Any:
            holding.gone(self)
            return super().disconnect()

    return Seen


def _tell_of_interrupts(manager: Any, holding: Holding) -> None:
    """An interrupt, a restart and a shutdown all mean that what waits is not wanted any more."""

    def told(name: str) -> None:
        own = getattr(manager, name)

        async def and_told(kernel_id: str, *arguments: Any, **options: Any) -> Any:
            holding.interrupted(kernel_id)
            done = own(kernel_id, *arguments, **options)
            return await done if inspect.isawaitable(done) else done

        setattr(manager, name, and_told)

    for name in ("interrupt_kernel", "restart_kernel", "shutdown_kernel"):
        told(name)


def _header(message: Any, *, is_v1: bool) -> dict[str, Any] | None:
    """Of a request to run something; None for all others."""
    if is_v1:
        channel, parts = deserialize_msg_from_ws_v1(message)  # type: ignore[no-untyped-call]
        if channel != "shell" or b"execute_request" not in bytes(parts[0]):
            return None
        header = json.loads(bytes(parts[0]))
    else:
        if not isinstance(message, str) or "execute_request" not in message:
            return None
        header = json.loads(message)["header"]
    return header if header.get("msg_type") == "execute_request" else None


def _hand_on(one: _Held) -> None:
    if one.page.channels:
        _send(one, "iopub", "clear_output", {"wait": False})
        one.page.handle_incoming_message(one.message)


def _end(one: _Held, because: str) -> None:
    """Tell its page; one that is just going keeps no other from hearing of its own."""
    try:
        _answer(one, because)
    except Exception:
        log.exception("a page is not told that its cell is over")


def _answer(one: _Held, because: str) -> None:
    """As a kernel ends a cell with an error."""
    error = {"ename": "Parked", "evalue": because, "traceback": [f"Parked: {because}"]}
    reply = {"status": "error", "execution_count": None, **error}
    _send(one, "iopub", "clear_output", {"wait": False})
    _send(one, "iopub", "error", error)
    _send(one, "shell", "execute_reply", reply)
    _send(one, "iopub", "status", {"execution_state": "idle"})


def _send(one: _Held, channel: str, kind: str, content: dict[str, Any]) -> None:
    page = one.page
    if not page.channels:
        return
    message = page.session.msg(kind, content=content, parent=one.header)
    if page.subprotocol == _V1:
        packed = serialize_msg_to_ws_v1(message, channel, page.session.pack)  # type: ignore[no-untyped-call]
        page.write_message(packed, binary=True)
    else:
        page.write_message(json.dumps({**message, "channel": channel}, default=json_default))
