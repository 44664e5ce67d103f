"""What lies in the folder of a hibernatable tree.

``image`` is a complete image that was not woken yet. ``waking`` is one that is being woken: until
nothing but its first instruction is missing it stays valid, then it is renamed to ``used`` in one
step. So an image is woken at most once, and a wake that was killed half-way loses nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

LOCK = "lock"
CONTROL = "control"
SAVING, COMPLETE, WAKING, USED, REFUSED = "saving", "image", "waking", "used", "refused"
#: What became of a wake: written by PID 1, ``null`` or a sentence.
WOKEN = "woken.json"
#: Of the last start: it has the lock. Who waits for it knows then whose lock is seen. Holds the number
#: of the process that stands for the tree.
BEGUN = "begun"
#: Why the tree may not save itself when its caller dies: a sentence, written by whoever decides that.
NOT_ALONE = "not-alone.json"
#: Why it has not: a sentence, written by PID 1.
UNSAVED = "unsaved.json"
#: Of a tree that was woken: why its GPU memory is not on a GPU. A sentence, written by PID 1.
PARKED = "parked.json"
DUMP_LOG, RESTORE_LOG = "dump.log", "restore.log"
DESCRIPTION = "image.json"
SHARED_MEMORY = "shm.tar"

_LOOK_AGAIN_S = 0.01
#: Status of a tree that was saved, and of one that could not be started or woken.
SAVED_STATUS, REFUSED_STATUS = 75, 76
#: Longer than any sentence that is written here.
_MOST_BYTES = 1 << 16


def make(folder: Path) -> None:
    """Make the folder; only its owner may enter it.

    Raises
    ------
    OSError
        When it cannot be made, or it is somebody else's.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        message = f"{folder} belongs to somebody else"
        raise PermissionError(message)
    folder.chmod(0o700)


def lock(folder: Path, *, patience_s: float = 0) -> int | None:
    """A descriptor that holds the folder's lock; None while a tree holds it.

    Whoever looks whether a tree lives here holds it for a moment, too: a tree that starts has patience.
    """
    import fcntl  # noqa: PLC0415 - not on every system that may ask whether this one can

    descriptor = _open_lock(folder)
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(descriptor)
                return None
            time.sleep(_LOOK_AGAIN_S)
        else:
            return descriptor


def begin(folder: Path, pid: int) -> None:
    """Say that a tree begins here, for which this process stands.

    Raises
    ------
    OSError
        When the disk refuses.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / BEGUN, flags, 0o600)
    try:
        os.write(descriptor, str(pid).encode())
    finally:
        os.close(descriptor)


def begun_by(folder: Path) -> int | None:
    """The process that stands for the tree which began here last; None where that is not said."""
    try:
        said = read_note(folder / BEGUN) or ""
    except OSError:
        return None
    return int(said) if said.isascii() and said.isdigit() else None


def is_held(folder: Path) -> bool:
    """Whether a tree lives here, or is being saved or woken.

    Who looks shares the lock: two that look at once must not take each other for a tree.
    """
    import fcntl  # noqa: PLC0415 - not on every system that may ask whether this one can

    if not (folder / LOCK).exists():
        return False
    descriptor = _open_lock(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open_lock(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(folder / LOCK, flags, 0o600)


def complete_image(folder: Path) -> Path | None:
    """The image that can be woken: whole, and not woken before."""
    for name in (COMPLETE, WAKING):
        if (folder / name / DESCRIPTION).is_file():
            return folder / name
    return None


def take_back(folder: Path) -> bool:
    """Whether its image is safe from a wake that is at it: what has not come to life never does then.

    One of the two renames of ``waking`` comes first: this one, or the wake's own.
    """
    with suppress(OSError):
        (folder / WAKING).rename(folder / COMPLETE)
    return (folder / COMPLETE / DESCRIPTION).is_file()


def keep_refused(folder: Path) -> bool:
    """Whether an image whose wake was refused can be woken again: nothing of it had come to life."""
    with suppress(OSError):
        (folder / REFUSED).rename(folder / COMPLETE)
    return (folder / COMPLETE / DESCRIPTION).is_file()


def read_note(path: Path) -> str | None:
    """What a small file says; None where none lies there. Nobody waits for what is no file.

    Raises
    ------
    OSError
        When it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def tell(path: Path, what: object) -> None:
    """Write a small file, whole or not at all.

    Raises
    ------
    OSError
        When the disk refuses.
    """
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(what), encoding="utf-8")
    partial.replace(path)


def told(path: Path) -> str | None:
    """The sentence in such a file; None where there is none."""
    try:
        found = json.loads(read_note(path) or "null")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, str) else None


def discard(path: Path) -> None:
    """Remove a folder of ours with all that is in it; one that is not there is removed already."""
    shutil.rmtree(path, ignore_errors=True)
