"""Text for terminals: aligned tables, plain words, and nothing that a terminal would obey.

Names and log lines come from users; a control sequence among them must stay text.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from gpucommons.scheduler import models

_KEPT = frozenset("\t\n")
#: Controls, format characters (direction overrides), lone surrogates, line separators.
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    """Without control characters (C0, C1, escape sequences) and direction overrides."""
    return "".join(c for c in text if not _is_obeyed(c))


def say(*lines: str) -> None:
    """To a person, beside what the command prints."""
    sys.stderr.writelines(printable(line) + "\n" for line in lines)


def _is_obeyed(character: str) -> bool:
    return character not in _KEPT and unicodedata.category(character) in _OBEYED


def _escaped(text: str) -> str:
    """JSON whose strings say the same, without anything that a terminal would obey."""
    return "".join(json.dumps(c)[1:-1] if _is_obeyed(c) else c for c in text)


def clock(at_ms: int | None) -> str:
    """Local time of day, with the date where it is not today's format to guess: ``11-21 14:02``."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%m-%d %H:%M:%S") if at_ms else ""


def by(at_ms: int, now_ms: int) -> str:
    """A moment to come, in local time: ``14:02``, ``tomorrow 09:30``, ``Tue 24 Nov 09:30``."""
    at, now = (datetime.fromtimestamp(ms / 1000) for ms in (at_ms, now_ms))
    days = (at.date() - now.date()).days
    day = {0: "", 1: "tomorrow "}.get(days, f"{at:%a} {at.day} {at:%b} ")
    return f"{day}{at:%H:%M}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned by their widest cell."""
    cells = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in rows]
    lines = [list(header), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _plain(data: object) -> object:
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    # A model of pydantic, whose base class takes longer to load than the version to say.
    return data.model_dump(mode="json") if hasattr(data, "model_dump") else data


def show(data: Any, text: str, *, output: str) -> None:
    """Print an answer as JSON (``--output json``) or for people."""
    if output == "json":
        text = _escaped(json.dumps(_plain(data), indent=2, ensure_ascii=False))
    else:
        text = printable(text)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def going_on(way: models.WayToGoOnView | None) -> Iterator[str]:
    """How it goes on, and how often it began anew."""
    if way is None:
        return
    if way.repeats_ms is None:
        yield f"When it starts again: {way.text}."
    else:
        yield f"If it is stopped now: {way.stop_text[:1].lower()}{way.stop_text[1:]}"
    if way.began_anew_text:
        yield way.began_anew_text


def shown(job: models.JobView) -> Iterator[str]:
    """Whether it is known to go on when it is stopped."""
    if job.safe_to_borrow:
        yield "Safe to borrow."
    if job.drill is not None:
        yield job.drill.text
