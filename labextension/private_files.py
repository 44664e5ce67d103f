"""Files of the user's that others on this machine may not read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its user can read, whole or not at all; of several writers the last wins.

    Not `durable_files`: what cells print is written each quarter of a second, too often to sync a disk.
    """
    # A name of its own for each writer: several servers may share a home.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
