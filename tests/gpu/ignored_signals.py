"""Which signals a process ignores, as ``grep SigIgn /proc/self/status`` prints it."""

from __future__ import annotations

from collections.abc import Sequence

#: The C library's own two. Its posix_spawn, with which make and others start programs, leaves them
#: ignored, and no program can change that through the library.
_OF_THE_LIBRARY = {32, 33}


def ignored(lines: Sequence[str]) -> set[int]:
    """The numbers of the signals that the one line names."""
    (line,) = lines
    mask = int(line.removeprefix("SigIgn:"), 16)
    return {number for number in range(1, 65) if mask >> number - 1 & 1} - _OF_THE_LIBRARY
