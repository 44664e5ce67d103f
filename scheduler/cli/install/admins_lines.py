"""Keeps an admin's own lines where a file is written anew by a program that lays it out in its own way; pure.

A YAML file that is read and written again has other indents, quotes and blank lines. So the program's text
of before and of after are compared, and only what differs between them is changed in the admin's text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

Lines = Sequence[str]


def carried_over(own: Lines, before: Lines, after: Lines) -> list[str] | None:
    """The admin's lines with what changed from ``before`` to ``after``, both as the program writes them.

    None where a change begins or ends within lines that the program lays out otherwise.
    """
    place = _places(own, before)
    made: list[str] = []
    done = 0
    for tag, start, end, begin, until in _differences(before, after):
        first, last = place.get(start), place.get(end)
        if first is None or last is None:
            return None
        made += own[done : last if tag == "equal" else first]
        done = last
        if tag != "equal":
            _end_line(made)
            # The line that is replaced tells the indent of its place, too.
            above = [
                (before[at], own[place[at]])
                for at in range(start + (end > start))
                if at in place and place[at] < len(own)
            ]
            made += _indented(after[begin:until], above)
    return [*made, *own[done:]]


def _indented(lines: Lines, above: Sequence[tuple[str, str]]) -> list[str]:
    """New lines with the indents of their neighbours in the admin's text; ``above``: the program's and the admin's."""
    indents: dict[tuple[int, bool], int] = {}
    made = []
    for line, own in (*above, *((line, "") for line in lines)):
        if not line.strip():
            made += [] if own else [line]
            continue
        depth, is_item = key = _indent(line), line.lstrip().startswith("- ")
        if own:
            indents[key] = _indent(own)
        elif key not in indents:
            outer = max((one for one in indents if one < key), default=(0, False))
            indents[key] = max(0, depth + indents.get(outer, 0) - outer[0])
        indents = {
            one: to
            for one, to in indents.items()
            if one[0] < depth or one == key or (is_item and one[0] == depth)
        }
        made += [] if own else [" " * indents[key] + line.lstrip(" ")]
    return made


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _places(own: Lines, before: Lines) -> dict[int, int]:
    """Where each line of ``before`` begins in ``own``, as far as that can be told."""
    place: dict[int, int] = {0: 0}
    for tag, start, end, begin, until in _differences(before, own):
        if tag == "equal" or end - start == until - begin:
            place.update((start + step, begin + step) for step in range(end - start + 1))
        else:
            place.setdefault(start, begin)
            place[end] = until
    return place


def _differences(old: Lines, new: Lines) -> list[tuple[str, int, int, int, int]]:
    return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _end_line(lines: list[str]) -> None:
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"


def way_back(plain: str, original: str) -> dict[str, Any]:
    """What makes ``original`` of ``plain``: digests of both, and the lines that differ."""
    old, new = plain.splitlines(keepends=True), original.splitlines(keepends=True)
    lines = [
        [start, end, "".join(new[begin:until])]
        for tag, start, end, begin, until in _differences(old, new)
        if tag != "equal"
    ]
    return {"sha256": digest(original)} | ({"from": digest(plain), "lines": lines} if lines else {})


def gone_back(plain: str, way: Mapping[str, Any]) -> str:
    """The text of before where ``plain`` is what the way back begins at; else ``plain``."""
    if digest(plain) != way.get("from"):
        return plain
    lines = plain.splitlines(keepends=True)
    for start, end, text in reversed(list(way.get("lines") or ())):
        lines[start:end] = [str(text)]
    return "".join(lines)


def digest(text: str) -> str:
    """What tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()
