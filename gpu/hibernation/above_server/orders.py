"""What a server may ask of root's program, and how both write it down.

A request is one line of JSON, and for a new tree an order after it: command, folder and environment,
in as many bytes as the line says. Root hands the order on unread, to a process of the user's. A folder
is a name to root, nothing more: who opens it is its user.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

#: Of both sides; servers of another environment may have another release.
VERSION = 1
#: In a server's environment: where its program listens.
VARIABLE = "GPUCOMMONS_TREES"
MOST_LINE_BYTES = 1 << 14
#: Linux takes two MiB of arguments and environment; a kernel has some ten KB.
MOST_ORDER_BYTES = 1 << 20
#: What is handed on to a tree.
SIGNALS = frozenset(
    (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
)
_MOST_PATH_BYTES = 3_000


class NotUnderstood(Exception):
    """Nothing that may be asked; with a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A tree to be started or woken."""

    what: Literal["run", "wake"]
    folder: Path
    #: Gets what the tree prints.
    output: Path
    orphaned: Literal["end", "save"] = "end"
    close_connections: bool = False
    #: Of the order that follows; a tree that is woken has none.
    order_bytes: int = 0

    def line(self) -> bytes:
        """For the way through the socket."""
        told = {
            "version": VERSION,
            "what": self.what,
            "folder": str(self.folder),
            "output": str(self.output),
            "orphaned": self.orphaned,
            "close_connections": self.close_connections,
            "order_bytes": self.order_bytes,
        }
        return json.dumps(told).encode() + b"\n"


def parsed(line: bytes, home: Path) -> Request:
    """The other way round, for the user who lives there.

    Raises
    ------
    NotUnderstood
        For anything else.
    """
    told = _read(line)
    if told.get("version") != VERSION:
        message = "Server and hub have different releases of GPU Commons: install the same in both."
        raise NotUnderstood(message)
    what, orphaned, size = told.get("what"), told.get("orphaned"), told.get("order_bytes")
    most = MOST_ORDER_BYTES if what == "run" else 0
    if (
        what not in ("run", "wake")
        or orphaned not in ("end", "save")
        or type(size) is not int
        or type(told.get("close_connections")) is not bool
    ):
        message = "Only trees are started here."
        raise NotUnderstood(message)
    if not 0 <= size <= most:
        message = f"Command and environment take {size} bytes, and may take {most}."
        raise NotUnderstood(message)
    return Request(
        what=what,
        folder=_below(home, told.get("folder")),
        output=_below(home, told.get("output")),
        orphaned=orphaned,
        close_connections=told["close_connections"],
        order_bytes=size,
    )


def signal_in(line: bytes) -> int | None:
    """The signal that a line asks for; None where the caller says that the server has ended.

    Raises
    ------
    NotUnderstood
        For anything else.
    """
    told = _read(line)
    if told == {"orphaned": True}:
        return None
    number = told.get("signal")
    if type(number) is not int or number not in SIGNALS:
        message = "A tree gets no such signal."
        raise NotUnderstood(message)
    return number


def order(command: list[str], cwd: str, environ: Mapping[str, str], umask: int) -> bytes:
    """What the first process of a tree becomes."""
    return json.dumps(
        {"command": command, "cwd": cwd, "environ": dict(environ), "umask": umask}
    ).encode()


def _read(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        message = "That is no request."
        raise NotUnderstood(message)
    return told


def _below(home: Path, named: object) -> Path:
    """A path without detours, below this folder; links on it are its user's to follow."""
    if (
        not isinstance(named, str)
        or "\0" in named
        or len(named.encode(errors="surrogatepass")) > _MOST_PATH_BYTES
        or not _is_a_name(named)
        or os.path.normpath(named) != named
        or home not in Path(named).parents
    ):
        message = f"Kernels are kept below {home} only."
        raise NotUnderstood(message)
    return Path(named)


def _is_a_name(text: str) -> bool:
    """Whether a file could be called so."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
