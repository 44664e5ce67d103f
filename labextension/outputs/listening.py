"""Hears which page runs which cell, and all that kernels say to everybody.

Which cell a request is for stands in the request alone, so pages' requests are looked at on their way
through the server. Where another extension has its own connections of pages, nothing is kept: it
has its own way with outputs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import zmq
from jupyter_client.session import DELIM
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.kernel_words import MARK, Said
from gpucommons.labextension.outputs.cell_run import CellRun
from gpucommons.labextension.outputs.cell_runs import CellRuns

log = logging.getLogger("gpucommons.labextension")

#: What came since a server wrote last is lost with it, unless its kernel lives on and remembers it. It
#: rests a hundred times as long as that took, 15 s at most: less than a hundredth of its loop's time goes
#: into it (32 MiB as JSON take 0.03 to 0.09 s), and a thread waits for the disk, which may take longer.
_LEAST_PAUSE_S, _MOST_PAUSE_S, _WORK_TO_PAUSE = 0.2, 15.0, 100
#: No kernel knows which cell it runs: that one was begun is written sooner, by a tenth of the loop's time.
_WORK_TO_PAUSE_AT_BEGIN = 10
#: So long a page waits for what a woken kernel has said before, which is asked within as long.
_CAUGHT_UP_WITHIN_S = 60.0
#: A kernel that is idle so long after a request has done it.
_SURELY_BEGUN_MS = 5_000
#: A mark of ours is shorter, and so is a message with one; a kernel may say anything.
_MOST_MARK_CHARACTERS, _MOST_MARKING_BYTES = 64, 1024
_V1 = "v1.kernel.websocket.jupyter.org"


@dataclass(kw_only=True, slots=True)
class _Heard:
    """One kernel's connection, and what it said there last to mark how far it is heard."""

    stream: Any
    ports: list[int]
    mark: str | None = None


@dataclass(kw_only=True, slots=True)
class _Behind:
    """A woken kernel that is asked what it said to a server that was killed: what it says now comes after that."""

    held: list[Said] = field(default_factory=list)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


class _Hears(Protocol):
    def page_comes(self, page: Any) -> None: ...

    def page_sends(self, page: Any, message: Any) -> None: ...


def _listened(base: type, hears: _Hears) -> type:
    """A server's own class for connections of pages, heard."""

    class Listened(base):  # type: ignore[misc] # which one is known at run time
        """A page's connection to a kernel."""

        def connect(self) -> Any:
            _quietly(hears.page_comes, self)
            return super().connect()

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            # Before the kernel has it: it may answer at once.
            _quietly(hears.page_sends, self, incoming_msg)
            super().handle_incoming_message(incoming_msg)

    return Listened


def _quietly(call: Callable[..., None], *arguments: Any) -> None:
    """Nothing of a page's work with its kernel depends on us."""
    try:
        call(*arguments)
    except Exception:
        log.exception("outputs of a cell are not kept")


class Outputs:
    """Outputs of one server's cells."""

    def __init__(self, server: Any, folder: Path) -> None:
        self._server = server
        self._heard: dict[str, _Heard] = {}
        self._behind: dict[str, _Behind] = {}
        self._has_failed = False
        self.runs = CellRuns(folder, self._is_there, wall_clock_ms())

    def begin(self, settings: dict[str, Any]) -> bool:
        """Listen to pages by the server's settings; False where it has other connections than Jupyter's."""
        base = self._server.kernel_websocket_connection_class
        if not issubclass(base, ZMQChannelsWebsocketConnection):
            log.info("outputs for closed pages are left to %s", base.__module__)
            return False
        heard = _listened(base, self)
        self._server.kernel_websocket_connection_class = heard
        settings["kernel_websocket_connection_class"] = heard
        return True

    def go_on(self) -> None:
        """At the start: cells of kernels that came back go on, of others nothing more comes."""
        kernels = self._server.kernel_manager
        self.runs.end_where_not(lambda kernel_id: kernel_id in kernels)
        for run in self.runs:
            if run.state == "running":
                # No page has heard all that came around the stop.
                run.is_unseen = True
                kernel = kernels.get_kernel(run.kernel_id)
                if _is_woken(kernel):
                    # A server that was killed may not have noted it yet; whether it is over its shell will say.
                    kernel.execution_state = "busy"
                    self._behind.setdefault(run.kernel_id, _Behind())
                _quietly(self._listen, run.kernel_id)

    def listen_anew(self, kernel_id: str) -> None:
        """It is at other ports."""
        if kernel_id in self._heard:
            _quietly(self._listen, kernel_id)

    def knows(self, kernel_id: str) -> dict[str, str | None]:
        """Of cells whose kernel may have said more than was written down: the last message that was."""
        if kernel_id not in self._behind:
            return {}
        runs = (run for run in self.runs if (run.kernel_id, run.state) == (kernel_id, "running"))
        return {run.id: run.recent[-1] if run.recent else None for run in runs}

    def catch_up(self, kernel_id: str, said: Sequence[Said] = ()) -> None:
        """This is what was missed of them, and all that is told."""
        behind = self._behind.pop(kernel_id, None)
        if behind is None:
            return
        for one in said:
            _quietly(self._take, one)
        known = {one.header.get("msg_id") for one in said}
        for one in behind.held:
            if one.header.get("msg_id") not in known:
                _quietly(self._take, one)
        behind.is_over.set()

    async def caught_up(self, kernel_id: str, path: str) -> None:
        """Wait until what woken kernels of this notebook said before is known."""
        kernel_ids = {run.kernel_id for run in self.runs.of(kernel_id, path)} & self._behind.keys()
        waits = [self._behind[each].is_over.wait() for each in kernel_ids]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*waits), _CAUGHT_UP_WITHIN_S)

    def listens(self, kernel_id: str) -> bool:
        """Whether cells of this kernel are listened to."""
        heard = self._heard.get(kernel_id)
        return heard is not None and not heard.stream.closed()

    def has_heard(self, kernel_id: str, mark: str) -> bool:
        """Whether the kernel was heard to say this mark, and so all that it said before."""
        heard = self._heard.get(kernel_id)
        return heard is not None and heard.mark == mark

    def of(self, kernel_id: str, path: str) -> list[CellRun]:
        """What a page of this notebook may have to show."""
        kernels = self._server.kernel_manager
        runs = self.runs.of(kernel_id, path)
        old_ms = wall_clock_ms() - _SURELY_BEGUN_MS
        for run in runs:
            is_idle = run.kernel_id in kernels and _is_idle(kernels.get_kernel(run.kernel_id))
            if run.state == "running" and is_idle and run.begun_ms < old_ms:
                # Its end was missed, also by its page: it was restarted, or was just being woken.
                run.state, run.is_unseen = "ended", True
        return runs

    def running(self) -> list[CellRun]:
        """Cells that run, of kernels that say so."""
        kernels = self._server.kernel_manager
        return [
            run
            for run in self.runs
            if run.state == "running"
            and run.kernel_id in kernels
            and not _is_idle(kernels.get_kernel(run.kernel_id))
        ]

    def page_comes(self, page: Any) -> None:
        """Before it can run anything."""
        kernel_id = page.kernel_id
        self._listen(kernel_id)
        kernels = self._server.kernel_manager
        buffered = kernels._kernel_buffers.get(kernel_id)
        # What Jupyter holds of a woken kernel may lack what that said first.
        is_woken = _is_woken(kernels.get_kernel(kernel_id))
        if buffered and buffered["session_key"] == page.session_key and not is_woken:
            self.runs.page_is_back(kernel_id, page.session.session)

    def page_sends(self, page: Any, message: Any) -> None:
        """Look for a request to run a cell."""
        asked = _request(message, is_v1=page.subprotocol == _V1)
        if asked is None:
            return
        header, cell_id, content = asked
        run = CellRun(
            id=header["msg_id"],
            kernel_id=page.kernel_id,
            path=self._path_of(page.kernel_id),
            cell_id=cell_id,
            code=content["code"],
            session=header["session"],
            begun_ms=wall_clock_ms(),
        )
        self.runs.begin(run)

    async def run(self) -> None:
        """Write what changed now and then, for a server that is killed."""
        took_s = 0.0
        while True:
            await self._pause(took_s)
            if self.runs.is_dirty:
                begun = time.monotonic()
                is_written = await asyncio.to_thread(self._written, self.runs.writing())
                took_s = time.monotonic() - begun if is_written else _MOST_PAUSE_S

    async def _pause(self, took_s: float) -> None:
        at_begin_s = pause_s(took_s, _WORK_TO_PAUSE_AT_BEGIN)
        await asyncio.sleep(at_begin_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.runs.has_begun.wait(), pause_s(took_s) - at_begin_s)

    def stop(self, kept: set[str]) -> None:
        """With the server; cells of kernels that are kept go on later."""
        for heard in tuple(self._heard.values()):
            # What a kernel said last came while it was saved, and may not have been read yet.
            if not heard.stream.closed():
                _quietly(heard.stream.flush, zmq.POLLIN)
        for kernel_id in tuple(self._behind):
            self.catch_up(kernel_id)
        self.runs.end_where_not(lambda kernel_id: kernel_id in kept)
        for heard in self._heard.values():
            with suppress(OSError):
                heard.stream.close()
        self._written(self.runs.write)

    def _written(self, write: Callable[[], None]) -> bool:
        """Of failures in a row the first is in the log: a disk stays full for long."""
        try:
            write()
        except OSError:
            if not self._has_failed:
                log.exception("outputs that no page has shown are not kept")
            self._has_failed = True
        else:
            self._has_failed = False
        return not self._has_failed

    def _listen(self, kernel_id: str) -> None:
        kernel = self._server.kernel_manager.get_kernel(kernel_id)
        heard = self._heard.get(kernel_id)
        if heard is not None and not heard.stream.closed():
            if heard.ports == kernel.ports:
                return
            heard.stream.close()
        stream = kernel.connect_iopub()
        stream.on_recv(lambda parts: _quietly(self._hear, kernel_id, parts))
        self._heard[kernel_id] = _Heard(stream=stream, ports=list(kernel.ports))
        self._let_go_of_the_ended()

    def _let_go_of_the_ended(self) -> None:
        """Of kernels that are gone without a word."""
        kernels = self._server.kernel_manager
        for kernel_id, heard in tuple(self._heard.items()):
            if kernel_id not in kernels and (heard.stream.closed() or not _has_more(heard.stream)):
                del self._heard[kernel_id]
                heard.stream.close()

    def _hear(self, kernel_id: str, parts: list[bytes]) -> None:
        heard = self._heard[kernel_id]
        if kernel_id not in self._server.kernel_manager and not _has_more(heard.stream):
            del self._heard[kernel_id]
            heard.stream.close()
        header, parent, metadata, content = parts[parts.index(DELIM) + 2 :][:4]
        if b'"starting"' in content and json.loads(header)["msg_type"] == "status":
            self.catch_up(kernel_id)
            self.runs.end_where_not(lambda each: each != kernel_id)
            return
        if MARK.encode() in header and json.loads(header)["msg_type"] == MARK:
            heard.mark = _mark(content)
            return
        request = json.loads(parent).get("msg_id")
        if request is not None and self.runs.has(request):
            said = Said(*map(json.loads, (header, parent, metadata, content)))
            behind = self._behind.get(kernel_id)
            if behind is None:
                self._take(said)
            else:
                behind.held.append(said)

    def _take(self, said: Said) -> None:
        self.runs.take(said.parent["msg_id"], said.header, said.content, said.metadata)

    def _is_there(self, kernel_id: str, session: str) -> bool:
        return f"{kernel_id}:{session}" in ZMQChannelsWebsocketConnection._open_sessions

    def _path_of(self, kernel_id: str) -> str:
        # Jupyter Server lists sessions with a model of each kernel; only a path is needed.
        query = "SELECT path FROM session WHERE kernel_id=?"
        row = self._server.session_manager.cursor.execute(query, (kernel_id,)).fetchone()
        return (row[0] or "") if row else ""


def pause_s(took_s: float, work_to_pause: float = _WORK_TO_PAUSE) -> float:
    """Until what changed is written again, after a write that took so long."""
    return min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, work_to_pause * took_s))


def _request(
    message: Any, *, is_v1: bool
) -> tuple[Mapping[str, Any], str, Mapping[str, Any]] | None:
    """Header, cell and content of a request to run a cell; None where it is none."""
    if is_v1:
        channel, parts = deserialize_msg_from_ws_v1(message)  # type: ignore[no-untyped-call]
        if channel != "shell" or b"execute_request" not in bytes(parts[0]):
            return None
        header, _parent, metadata, content = (json.loads(bytes(one)) for one in parts[:4])
    else:
        if not isinstance(message, str) or "execute_request" not in message:
            return None
        whole = json.loads(message)
        header, metadata, content = (whole[name] for name in ("header", "metadata", "content"))
    cell_id = metadata.get("cellId")
    is_run = header["msg_type"] == "execute_request" and not content.get("silent")
    return (header, cell_id, content) if is_run and isinstance(cell_id, str) else None


def _mark(content: bytes) -> str | None:
    """The mark in a message that is meant to have one."""
    told = json.loads(content) if len(content) <= _MOST_MARKING_BYTES else None
    mark = told.get("mark") if isinstance(told, dict) else None
    return mark[:_MOST_MARK_CHARACTERS] if isinstance(mark, str) else None


def _has_more(stream: Any) -> bool:
    """Whether something has come that was not read."""
    return bool(stream.socket.get(zmq.EVENTS) & zmq.POLLIN)


def _is_woken(kernel: Any) -> bool:
    return bool(getattr(kernel.provisioner, "is_woken", False))


def _is_idle(kernel: Any) -> bool:
    return bool(kernel.execution_state == "idle")
