"""What a server takes a woken kernel for, whose shell channel is silent while a cell runs; how soon its sockets try again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
import zmq.asyncio
from jupyter_client.session import Session

from gpucommons.labextension.hibernation.after_wake import Acquaintance
from gpucommons.labextension.hibernation.waking import try_often


class Channel:
    def __init__(self, asked: asyncio.Queue[dict[str, Any]], session: Session) -> None:
        self._asked, self._session = asked, session

    def send_multipart(self, parts: list[bytes], **_: object) -> None:
        _, message = self._session.feed_identities(parts)
        self._asked.put_nowait(self._session.deserialize(message))

    def on_recv(self, _: object) -> None: ...

    def close(self) -> None: ...


class Kernel:
    """One that answers when the test says so."""

    def __init__(self) -> None:
        self.kernel_id = "a"
        self.session = Session(key=b"secret")
        self.kernel_spec = SimpleNamespace(language="python")
        self.provisioner = SimpleNamespace(is_woken=True)
        self.execution_state = "starting"
        self.seen_by_jupyter: list[str] = []
        self.control: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.shell: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._activity_stream = SimpleNamespace(_recv_callback=self._record, on_recv=self._listen)
        self._hear: Callable[[list[bytes]], None] = self._record

    def _record(self, parts: list[bytes]) -> None:
        _, message = self.session.feed_identities(parts)
        told = self.session.deserialize(message)
        self.seen_by_jupyter.append(told["content"]["execution_state"])

    def _listen(self, hear: Callable[[list[bytes]], None]) -> None:
        self._hear = hear

    def connect_control(self) -> Channel:
        return Channel(self.control, Session(key=b"secret"))

    def connect_shell(self) -> Channel:
        return Channel(self.shell, Session(key=b"secret"))

    def say(self, state: str, parent: dict[str, Any]) -> None:
        message = self.session.msg("status", {"execution_state": state}, parent=parent)
        self._hear(self.session.serialize(message))


@pytest.mark.timeout(60)
async def test_a_woken_kernel_is_idle_only_once_its_shell_has_answered() -> None:
    kernel = Kernel()
    acquaintance = Acquaintance(kernel)
    acquaintance.renew({"JUPYTERHUB_API_TOKEN": "new"})
    renewal = await kernel.control.get()

    learning = asyncio.create_task(acquaintance.learn_state(patience_s=0.01))
    # The first question goes before the server hears anything.
    await kernel.control.get()
    again = await kernel.control.get()
    assert kernel.shell.empty()
    for asked in (renewal, again):
        kernel.say("busy", asked)
        kernel.say("idle", asked)
    await learning
    assert kernel.execution_state == "busy"

    cell = Session(key=b"secret").msg("execute_request", {})
    kernel.say("idle", cell)
    assert kernel.execution_state == "busy"
    kernel.say("idle", await kernel.shell.get())
    assert kernel.execution_state == "idle"
    assert kernel.seen_by_jupyter == ["idle"], "of the cell alone"


def _interval(context: zmq.Context[zmq.Socket[bytes]]) -> int:
    with context.socket(zmq.DEALER) as socket:
        return int(socket.getsockopt(zmq.RECONNECT_IVL))


def test_only_sockets_of_the_woken_kernel_try_again_soon() -> None:
    for kind in (zmq.Context, zmq.asyncio.Context):
        with kind() as shared:
            usual = _interval(shared)
            woken = SimpleNamespace(context=shared)
            try_often(woken)
            assert isinstance(woken.context, kind)
            assert _interval(woken.context) < usual
            assert _interval(shared) == usual
            assert woken.context.underlying == shared.underlying
