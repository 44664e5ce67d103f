"""The logs of the parts, which may not fill the disk however much a part has to say.

A part writes to its file itself, so that it says all it can also while ``up`` is busy or gone; here
a file that has become too long is put aside in the place of the one before, and begins anew. What
is written in between the two steps is lost: some lines of a flood.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

#: Of each part there are two files of this length at most.
MOST_BYTES = 16 << 20
EVERY_S = 1.0


def keep_short(logs: Iterable[Path], *, most_bytes: int = MOST_BYTES) -> None:
    """Begin those anew that are too long; what cannot be put aside is cut off all the same."""
    for path in logs:
        try:
            too_long = path.stat().st_size > most_bytes
        except FileNotFoundError:
            continue
        if too_long:
            with suppress(OSError):
                _begin_anew(path, most_bytes)


def older(path: Path) -> Path:
    """Where the lines before those of the file lie."""
    return path.with_name(path.name + ".1")


def _begin_anew(path: Path, most_bytes: int) -> None:
    try:
        with path.open("rb") as file, older(path).open("wb") as aside:
            file.seek(-most_bytes, os.SEEK_END)
            shutil.copyfileobj(file, aside)
    except OSError:
        older(path).unlink(missing_ok=True)  # the disk is full: room matters more
    # It was opened for appending, so its writer goes on at the new end.
    os.truncate(path, 0)
