"""What a Jupyter server knows of a kernel, read from its managers. Parts of it have no public name."""

from __future__ import annotations

import json
from typing import Any

from traitlets import TraitError

from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation.provisioner import HibernatingProvisioner
from gpucommons.labextension.hibernation.records import (
    MOST_BUFFERED_BYTES,
    BufferedMessage,
    Record,
    SessionRow,
    newest,
)


def hibernatable(server: Any) -> list[str]:
    """Kernels of this server that could be saved now."""
    kernels = server.kernel_manager
    return [
        each for each in kernels.list_kernel_ids() if _lives_in_a_tree(kernels.get_kernel(each))
    ]


def _lives_in_a_tree(kernel: Any) -> bool:
    provisioner = kernel.provisioner
    return (
        isinstance(provisioner, HibernatingProvisioner)
        and provisioner.tree is not None
        and provisioner.has_process
        and not kernel.shutting_down
        and _is_started(kernel)
    )


def _is_started(kernel: Any) -> bool:
    """Whether Jupyter's server has put beside it what it keeps of kernels."""
    try:
        return kernel.last_activity is not None
    except TraitError:
        return False


def describe(server: Any, kernel_id: str, *, with_buffer: bool = False) -> Record:
    """All that the next server must know of a kernel."""
    kernels = server.kernel_manager
    kernel = kernels.get_kernel(kernel_id)
    buffer = kernels._kernel_buffers.get(kernel_id)
    return Record(
        kernel_id=kernel_id,
        kernel_name=kernel.kernel_name,
        cwd=None if kernel.provisioner.cwd is None else str(kernel.provisioner.cwd),
        connection=_plain(kernel.get_connection_info()),
        sessions=_sessions(server, kernel_id),
        execution_state=kernel.execution_state or "starting",
        last_activity=kernel.last_activity.isoformat(),
        kernel_info=_told(getattr(kernel, "_kernel_info_future", None)),
        session_key=buffer["session_key"] if buffer else _last_page(server, kernel_id),
        buffer=_buffered(buffer) if buffer and with_buffer else [],
        noted_ms=wall_clock_ms(),
    )


def _told(answer: Any) -> dict[str, Any] | None:
    """What the kernel answered when it was asked who it is."""
    if answer is None or not answer.done() or answer.cancelled() or answer.exception():
        return None
    return answer.result() or None


def _plain(connection: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(connection, default=lambda key: key.decode()))
    return plain


def _sessions(server: Any, kernel_id: str) -> list[SessionRow]:
    # Jupyter Server lists sessions with a model of each kernel; only their rows are needed.
    query = "SELECT session_id, path, name, type FROM session WHERE kernel_id=?"
    rows = server.session_manager.cursor.execute(query, (kernel_id,)).fetchall()
    return [SessionRow(session_id=row[0], path=row[1], name=row[2], type=row[3]) for row in rows]


def _last_page(server: Any, kernel_id: str) -> str | None:
    """The page that is connected now, the newest of several."""
    pages = getattr(server.kernel_websocket_connection_class, "_open_sessions", {})
    return next((key for key in reversed(list(pages)) if key.startswith(f"{kernel_id}:")), None)


def _buffered(buffer: dict[str, Any]) -> list[BufferedMessage]:
    messages = [
        BufferedMessage(channel=channel, parts=[bytes(part).hex() for part in parts])
        for channel, parts in buffer["buffer"]
    ]
    return newest(messages, MOST_BUFFERED_BYTES)
