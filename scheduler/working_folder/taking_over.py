"""The working folder passes from one attempt to the next by a rename; nothing is copied.

Run as the job's user. Each step may be repeated after a crash at any moment: a folder has its name
only when it is whole, and whoever has it last hands it on, whether or not it ever began.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from gpucommons.scheduler.files.confined_files import remove

#: Below an attempt's ``run``.
NAME = "work"
#: Never handed over: half a snapshot would be taken for a whole one.
_PARTIAL = ".work.partial"


def take_over(run: Path, earlier: Sequence[Path], name: str = NAME) -> bool:
    """Bring the working folder of an earlier attempt below ``run``; False where there is none.

    ``earlier`` are the ``run`` folders of the attempts before, newest first.
    """
    own = run / name
    if _is_folder(own):
        return True
    for before in earlier:
        if _is_folder(before / name):
            (before / name).rename(own)
            return True
    return False


def make_new(run: Path, fill: Callable[[Path], None]) -> None:
    """Make a working folder that appears when it is whole."""
    partial = run / _PARTIAL
    remove(partial)
    partial.mkdir(mode=0o700)
    fill(partial)
    partial.rename(run / NAME)


def _is_folder(path: Path) -> bool:
    """A folder itself: a link that a job left in its place leads elsewhere and is not handed on."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
