"""Waits before and after as a picture: one pair of bars for each team, SVG without any library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from textwrap import wrap

_LEFT, _WIDTH, _ROW, _BAR, _TOP = 150, 420, 46, 14, 56
#: So many letters of the bold title fit beside each other, also wide ones.
_TITLE_LETTERS, _TITLE_ROW = 72, 20
#: Readable on white and black, and apart for colour-blind people.
_BEFORE, _AFTER = "#8c8c8c", "#0072b2"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Worst-in-ten waits of one team, in seconds."""

    before_s: int | None
    after_s: int | None


def svg(title: str, pairs: Mapping[str, Pair]) -> str:
    """Draw one picture."""
    most = max((max(p.before_s or 0, p.after_s or 0) for p in pairs.values()), default=0) or 1
    title_rows = wrap(title, _TITLE_LETTERS) or [""]
    below_title = _TITLE_ROW * (len(title_rows) - 1)
    top_of_bars = _TOP + below_title
    height = top_of_bars + _ROW * len(pairs) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{height}"'
        f' viewBox="0 0 700 {height}" font-family="sans-serif" font-size="13" role="img"'
        f' aria-label="{escape(title, quote=True)}">',
        f'<rect width="700" height="{height}" fill="#ffffff"/>',
        *(
            f'<text x="12" y="{24 + number * _TITLE_ROW}" font-size="15" font-weight="bold">'
            f"{escape(row)}</text>"
            for number, row in enumerate(title_rows)
        ),
        f'<text x="12" y="{43 + below_title}" fill="#555555">Worst-in-ten wait until the start, by team</text>',
    ]
    for number, (team, pair) in enumerate(pairs.items()):
        y = top_of_bars + number * _ROW
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 19}" text-anchor="end">{escape(team)}</text>')
        for row, (seconds, colour) in enumerate(((pair.before_s, _BEFORE), (pair.after_s, _AFTER))):
            top = y + row * (_BAR + 3)
            width = round(_WIDTH * (seconds or 0) / most)
            parts.append(
                f'<rect x="{_LEFT}" y="{top}" width="{max(1, width)}" height="{_BAR}"'
                f' fill="{colour}"/>'
                f'<text x="{_LEFT + max(1, width) + 6}" y="{top + 12}">{waited(seconds)}</text>'
            )
    foot = height - 14
    parts.append(
        f'<rect x="{_LEFT}" y="{foot - 11}" width="12" height="12" fill="{_BEFORE}"/>'
        f'<text x="{_LEFT + 18}" y="{foot}">before</text>'
        f'<rect x="{_LEFT + 90}" y="{foot - 11}" width="12" height="12" fill="{_AFTER}"/>'
        f'<text x="{_LEFT + 108}" y="{foot}">after</text></svg>'
    )
    return "\n".join(parts) + "\n"


def waited(seconds: int | None) -> str:
    """Write a wait for people: ``40 s``, ``12 min``, ``3.5 h``; a dash where nobody waited."""
    if seconds is None:
        return "–"
    if seconds < 120:  # noqa: PLR2004 - below two minutes, seconds say more
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
