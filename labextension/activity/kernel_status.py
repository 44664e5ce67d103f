"""Whether a kernel is at work, by its own word: a cell that runs is not over with what is done beside it.

Jupyter Server takes the last status that a kernel tells for its state. A kernel with subshells answers
widgets while its cell runs, and says *idle* after each answer: a cell that ran for hours read as idle
from the moment in which a page with widgets connected, to the culler as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jupyter_client.session import DELIM

#: What JupyterLab and others send to a kernel when a page opens or looks at it: nobody asked it to
#: compute. Jupyter Server passes over the older ones of the kind by itself.
_ONLY_LOOKS = (
    "history_request",
    "history_reply",
    "create_subshell_request",
    "create_subshell_reply",
    "delete_subshell_request",
    "delete_subshell_reply",
    "list_subshell_request",
    "list_subshell_reply",
    "usage_request",
    "usage_reply",
)
#: A kernel's greeting to who subscribes, as a page that is opened does. It has no parent, and Jupyter Server
#: takes what has none for work, whatever its kind.
_GREETING = "iopub_welcome"


def tell_work_from_looks(kernels: Any) -> None:
    """For all kernels that this manager starts from now on; other managers are taken as they are."""
    known = getattr(kernels, "untracked_message_types", None)
    if known is None:
        return
    missing = [kind for kind in _ONLY_LOOKS if kind not in known]
    kernels.untracked_message_types = [*known, *missing]
    watch = kernels.start_watching_activity

    def and_tell(kernel_id: str) -> None:
        watch(kernel_id)
        _Told(kernels.get_kernel(kernel_id), kernels.track_message_type)

    kernels.start_watching_activity = and_tell


class _Told:
    """What one kernel tells, on its way to Jupyter Server."""

    def __init__(self, kernel: Any, tracks: Callable[[str], bool]) -> None:
        self._kernel = kernel
        self._tracks = tracks
        #: Those at work.
        self._subshells: set[str] = set()
        #: It is busy by them alone.
        self._is_beside = False
        stream = kernel._activity_stream
        self._record = stream._recv_callback
        stream.on_recv(self._hear)

    def _hear(self, parts: list[bytes]) -> None:
        raw, parent, _, content = parts[parts.index(DELIM) + 2 :][:4]
        header = json.loads(raw)
        #: Its name in all that it says; pages are told of its state by the same (see told_state).
        self._kernel.speaks_as = header.get("session")
        kind = header["msg_type"]
        if kind == _GREETING or (kind == "status" and self._leaves_it_at_work(parent, content)):
            return
        self._record(parts)

    def _leaves_it_at_work(self, parent: bytes, content: bytes) -> bool:
        """Whether this is an end beside which something goes on."""
        asked = json.loads(parent)
        if not self._tracks(asked.get("msg_type", "")):
            return False
        is_busy = self._kernel.execution_state == "busy"
        subshell = asked.get("subshell_id")
        match json.loads(content)["execution_state"]:
            case "busy":
                self._begins(subshell, is_busy=is_busy)
            case "idle":
                return self._ends(subshell) and is_busy
            case _:
                # It starts anew.
                self._subshells, self._is_beside = set(), False
        return False

    def _begins(self, subshell: str | None, *, is_busy: bool) -> None:
        if subshell is None:
            self._is_beside = False
        else:
            self._is_beside = self._is_beside or not is_busy
            self._subshells.add(subshell)

    def _ends(self, subshell: str | None) -> bool:
        """Whether something goes on."""
        if subshell is None:
            self._is_beside = bool(self._subshells)
            return self._is_beside
        self._subshells.discard(subshell)
        return bool(self._subshells) or not self._is_beside
