"""When somebody last worked in an editor: told by what its browser or ssh client sends through this server.

An editor that is merely open sends signs of life for ever, in short messages; whoever types, opens
or runs something makes it send longer ones. VS Code has two connections: over one its page asks for files
and keeps its own, every five seconds; the other tells extensions what its user does, and that one counts,
but for what it tells of files.
jupyter-server-proxy takes all of it for activity, on which plain cullers would never stop a server with
an open tab: of its websockets only what counts here is activity to them, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from gpucommons.labextension.clock import wall_clock_ms

log = logging.getLogger("gpucommons.labextension")

#: Signs of life are shorter: VS Code's have 13 bytes, in ssh's packets with its own about 100.
LEAST_BYTES = 200
#: What VS Code's page says at the start of the connection for its own needs.
_OF_ITS_OWN = b'"desiredConnectionType":1'
#: Its kind, number, what is acknowledged, and its length.
_HEAD_BYTES = 13
#: It tells extensions which files of the open folder were written, by whomever: in a home that is its own
#: lock each second, and the notebook server's log.
_OF_FILES = re.compile(rb'\$onFileEvent.{1,16}?\{"created":\[.*?"deleted":\[.*?\]\}\]', re.DOTALL)


def parts(content: bytes) -> list[bytes]:
    """VS Code's own messages in one of a websocket: after a pause there are many short ones in one."""
    found, at = [], 0
    while at + _HEAD_BYTES <= len(content):
        end = (
            at
            + _HEAD_BYTES
            + int.from_bytes(content[at + _HEAD_BYTES - 4 : at + _HEAD_BYTES], "big")
        )
        found.append(content[at:end])
        at = end
    return found if at == len(content) else [content]


class Traffic:
    """The time of the newest message that says what somebody did."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._now_ms = now_ms
        self.last_ms = 0
        self._of_editors_own: WeakSet[Any] = WeakSet()

    def takes(self, connection: Any, message: str | bytes) -> bool:
        """Note a message from a client; whether somebody did something there."""
        content = message.encode() if isinstance(message, str) else message
        if _OF_ITS_OWN in content:
            self._of_editors_own.add(connection)
        if len(content) < LEAST_BYTES or connection in self._of_editors_own:
            return False
        if all(len(_OF_FILES.sub(b"", one)) < LEAST_BYTES for one in parts(content)):
            return False
        self.last_ms = self._now_ms()
        return True

    def listen(self) -> None:
        """To all that jupyter-server-proxy serves in this process from now on, where it is installed."""
        if find_spec("jupyter_server_proxy") is None:
            return
        from jupyter_server_proxy import handlers  # noqa: PLC0415 - optional

        records = getattr(handlers.ProxyHandler, "_record_activity", None)
        if records is None:
            # Its name is jupyter-server-proxy's own affair; all else of ours works without.
            log.warning("this jupyter-server-proxy is not known: work in editors is not seen")
            return
        kinds = [handlers.ProxyHandler]
        with suppress(ImportError):  # versions before 4.2 have none
            from jupyter_server_proxy import rawsocket  # noqa: PLC0415 - optional

            kinds.append(rawsocket.RawSocketHandler)

        def record_requests(handler: Any) -> None:
            if handler.request.headers.get("Upgrade", "").lower() != "websocket":
                records(handler)

        handlers.ProxyHandler._record_activity = record_requests
        for kind in kinds:
            kind.on_message = self._hears(kind.on_message, records)

    def _hears(self, passes_on: Callable[..., Any], records: Callable[..., Any]) -> Any:
        def on_message(handler: Any, message: str | bytes) -> Any:
            if self.takes(handler, message):
                records(handler)
            return passes_on(handler, message)

        return on_message
