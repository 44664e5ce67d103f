"""Named shared memory of a tree: files in its private ``/dev/shm``, kept beside the image."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation.process_image import Deadline

_PLACE = Path("/dev/shm")  # noqa: S108 - the kernel's place for shared memory
_PIECE_BYTES = 1 << 20


def used_bytes() -> int:
    """How much lies there."""
    try:
        found = os.statvfs(_PLACE)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def pack(target: Path, deadline: Deadline) -> None:
    """Write what lies there into an archive; none is written where nothing lies there.

    Raises
    ------
    OSError
        When the disk refuses, or the time is over.
    """
    if not any(_PLACE.iterdir()):
        return
    with (
        _InTime(io.FileIO(target, "w"), deadline) as stream,
        tarfile.open(fileobj=stream, mode="w|", bufsize=_PIECE_BYTES) as archive,
    ):
        archive.add(_PLACE, ".")


class _InTime(io.BufferedWriter):
    """A file that is written as long as there is time."""

    def __init__(self, file: io.FileIO, deadline: Deadline) -> None:
        super().__init__(file)
        self._deadline = deadline

    def write(self, data: Any) -> int:
        self._deadline.check()
        return super().write(data)


def unpack(source: Path) -> None:
    """Put back what was kept.

    Raises
    ------
    OSError
        When it does not fit.
    """
    if not source.exists():
        return
    with tarfile.open(source) as archive:
        # The user's own files, back where they were; Python before 3.11.4 knows no filter.
        trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall(_PLACE, **trusted)  # type: ignore[arg-type]  # noqa: S202 - as above
