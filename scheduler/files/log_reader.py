"""Whole lines of a log from a byte offset, without reading more than was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class LogChunk:
    """Lines of one worker's log. ``offset`` and ``next_offset`` are bytes."""

    lines: tuple[str, ...]
    next_offset: int
    #: True when no more will come.
    end: bool = False


def read_log(path: Path, *, offset: int, limit_bytes: int, over: bool) -> LogChunk:
    """Read lines.

    A line longer than the limit is cut there, and a last line without its newline counts once the
    attempt is over. Control characters are left in: whoever shows the lines must treat them as text.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(limit_bytes)
            more = bool(file.read(1))
    except FileNotFoundError:
        return LogChunk(lines=(), next_offset=offset, end=over)
    return cut_log(content, more=more, offset=offset, over=over, limit_bytes=limit_bytes)


def read_tail(path: Path, limit_bytes: int) -> str:
    """The end of a log; nothing where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, SEEK_END) - limit_bytes))
            return file.read(limit_bytes).decode(errors="replace")
    except OSError:
        return ""


def cut_log(content: bytes, *, more: bool, offset: int, over: bool, limit_bytes: int) -> LogChunk:
    """Whole lines of what was read from an offset; ``more`` follows it.

    What a progress bar has drawn over is whole, too: such a bar may not end its line for hours.
    """
    if over and not more:
        whole = content
    else:
        whole = content[: _line_end(content)]
        if not whole and len(content) == limit_bytes:
            whole = content
    lines = whole.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return LogChunk(
        lines=tuple(line.rstrip("\r") for line in lines),
        next_offset=offset + len(whole),
        end=over and not more,
    )


def _line_end(content: bytes) -> int:
    newline = content.rfind(b"\n")
    # The last byte may be the first half of a line's end.
    redrawn = content.rfind(b"\r", newline + 2, len(content) - 1)
    return max(newline + 1, redrawn)
