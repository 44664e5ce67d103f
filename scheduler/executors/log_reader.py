"""Whole lines of a log from a byte offset, without reading more than was asked for."""

from __future__ import annotations

from pathlib import Path

from gpucommons.scheduler.executors.base import LogChunk


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


def cut_log(content: bytes, *, more: bool, offset: int, over: bool, limit_bytes: int) -> LogChunk:
    """Whole lines of what was read from an offset; ``more`` follows it."""
    if over and not more:
        whole = content
    else:
        newline = content.rfind(b"\n")
        whole = content[: newline + 1]
        if newline < 0 and len(content) == limit_bytes:
            whole = content
    lines = whole.decode(errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    return LogChunk(
        lines=tuple(line.rstrip("\r") for line in lines),
        next_offset=offset + len(whole),
        end=over and not more,
    )
