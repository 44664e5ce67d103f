"""What open pages are told of whether a kernel is at work.

A page takes the last status that it hears for the kernel's state. So the end of a request of ours, which
a kernel answers beside the cell that it runs, read as *Idle*; and a page that was opened while a cell
said nothing had heard none, and read *Unknown* until the cell spoke.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import zmq
from jupyter_client.session import DELIM
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from gpucommons.labextension.activity.kernel_status import tell_work_from_looks
from gpucommons.labextension.hibernation.after_wake import OURS

log = logging.getLogger("gpucommons.labextension")


def tell_true_state(server: Any, settings: dict[str, Any]) -> None:
    """To Jupyter Server, and to pages; another extension's own connections of pages are left to it."""
    tell_work_from_looks(server.kernel_manager)
    base = server.kernel_websocket_connection_class
    if not issubclass(base, ZMQChannelsWebsocketConnection):
        return
    told = told_by(base)
    server.kernel_websocket_connection_class = told
    settings["kernel_websocket_connection_class"] = told


def told_by(base: type) -> type:
    """A server's own class for connections of pages, by which they hear a kernel's true state."""

    class Told(base):  # type: ignore[misc] # which one is known at run time
        """A page's connection to a kernel."""

        #: Once a kernel's state is known beside its own words.
        say_to_pages = staticmethod(say_to_pages)

        def connect(self) -> Any:
            connected = super().connect()
            if connected is not None:
                connected.add_done_callback(lambda _: say_state(self))
            return connected

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
            if not _is_status_of_ours(outgoing_msg):
                super().handle_outgoing_message(stream, outgoing_msg)

    return Told


def say_to_pages(kernel_id: str) -> None:
    """Once a kernel's state is known, to all pages that show it."""
    for page in list(ZMQChannelsWebsocketConnection._open_sockets):
        if page.kernel_id == kernel_id:
            say_state(page)


def say_state(page: Any) -> None:
    """That the kernel is at work, or no more; of an idle one a page is told nothing else."""
    try:
        _say_state(page)
    except Exception:
        log.exception("a page is not told whether its kernel is at work")


def _say_state(page: Any) -> None:
    kernel, iopub = page.kernel_manager, page.channels.get("iopub")
    speaks_as = getattr(kernel, "speaks_as", None)
    if speaks_as is None or iopub is None or iopub.closed():
        return
    # What it has said last may not have been read yet.
    kernel._activity_stream.flush(zmq.POLLIN)
    state, was_told = kernel.execution_state, getattr(page, "is_told_busy", False)
    if state != "busy" and not (was_told and state == "idle"):
        return
    page.is_told_busy = state == "busy"
    message = page.session.msg("status", {"execution_state": state})
    # JupyterLab takes another name for another kernel's, and drops what it has not handled yet.
    message["header"]["session"] = speaks_as
    page.handle_outgoing_message(iopub, page.session.serialize(message))


def _is_status_of_ours(parts: list[Any]) -> bool:
    header, parent = (bytes(one) for one in parts[parts.index(DELIM) + 2 :][:2])
    if OURS.encode() not in parent or b"status" not in header:
        return False
    session = str(json.loads(parent).get("session", ""))
    return session.startswith(OURS) and bool(json.loads(header)["msg_type"] == "status")
