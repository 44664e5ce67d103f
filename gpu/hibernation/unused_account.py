"""An account that nobody has, for what root tries without any right.

"nobody" (65534) is shared: by other programs without rights, and by every user that a container does
not know. Whoever runs as it could write the verdict of a self-test, as files, sockets and signals are
open to the same account.
"""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NOBODY = 65534
#: Given to nobody by the usual systems; below 65536, as containers with users of their own know no more.
_FREE = range(65533, 65519, -1)
#: All that may be given.
ACCOUNTS = frozenset({NOBODY, *_FREE})


def unused_account(proc: Path = Path("/proc")) -> int:
    """One that has no name, and no process that can be seen from here; nobody's where there is none.

    An agent in a container sees its container's processes only: on the node somebody may have it.
    """
    in_use = set(_running(proc)) | {entry.pw_uid for entry in pwd.getpwall()}
    return next((uid for uid in _FREE if uid not in in_use), NOBODY)


def _running(proc: Path) -> Iterator[int]:
    """Of each process the real, effective, saved and file system's account."""
    for path in proc.glob("[0-9]*/status"):
        with suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            line = next((each for each in text.splitlines() if each.startswith("Uid:")), "")
            yield from map(int, line.split()[1:])
