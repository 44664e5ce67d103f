"""How the written pages say what stands in the code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: Lines of help are broken here, whatever the terminal of who builds is like.
_WIDTH = 96


def escaped(text: str) -> str:
    """Text of the code, without what Markdown would take for its own."""
    for sign in "\\`*_<>[]$":
        text = text.replace(sign, f"\\{sign}")
    return text


@contextmanager
def at_one_width() -> Iterator[None]:
    """For texts of ``--help``; whoever writes the pages in a process that does more keeps its own."""
    was = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(_WIDTH)
    try:
        yield
    finally:
        if was is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = was
