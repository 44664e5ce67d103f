"""All that the next server must know of a kernel, beside the image of its memory.

A record is written while the kernel runs, too: a server that is killed says nothing any more, and its
kernels save themselves. It holds the connection's key and messages: the user's own file, 0600.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpucommons.labextension.private_files import write_private

FILE = "record.json"
#: Of outputs that no page has shown yet: more than this is too much for a page as well.
MOST_BUFFERED_BYTES = 32 << 20


class SessionRow(BaseModel):
    """A session of Jupyter Server's, as it keeps it."""

    model_config = ConfigDict(frozen=True)

    session_id: str
    path: str | None
    name: str | None
    type: str | None


class BufferedMessage(BaseModel):
    """A message that came while no page was connected; its parts in hexadecimal digits."""

    model_config = ConfigDict(frozen=True)

    channel: str
    parts: list[str]


class Record(BaseModel):
    """One kernel as its server knows it."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    kernel_id: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$")
    kernel_name: str
    cwd: str | None
    #: Ports, key and the like, as in a connection file.
    connection: dict[str, Any]
    #: Noted before its image is changed: it listens at these new ports, or still at the old ones.
    moving: dict[int, int] = {}
    sessions: list[SessionRow]
    execution_state: str
    #: ISO 8601.
    last_activity: str
    #: What the kernel told of itself; None where it has not yet.
    kernel_info: dict[str, Any] | None
    #: The page that gets what was printed while none was connected; None = no page is known.
    session_key: str | None
    buffer: list[BufferedMessage] = []
    noted_ms: int
    #: It stays so long after it was saved, as was allowed and said then; None in older records.
    kept_days: int | None = None
    #: Where it ran; "" = not known.
    node: str = ""

    @property
    def path(self) -> str:
        """What the kernel belongs to; "" = nothing."""
        return next((row.path for row in self.sessions if row.path), "")


def write_record(folder: Path, record: Record) -> None:
    """Keep it beside the image."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / FILE, record.model_dump_json())


def read_record(folder: Path) -> Record | None:
    """The record in this folder; None where there is none that can be used."""
    try:
        record = Record.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record.kernel_id == folder.name else None


def newest(messages: list[BufferedMessage], most_bytes: int) -> list[BufferedMessage]:
    """The last of them, as many as there is room for."""
    room, kept = most_bytes, []
    for message in reversed(messages):
        room -= sum(len(part) for part in message.parts) // 2
        if room < 0:
            break
        kept.append(message)
    return kept[::-1]
