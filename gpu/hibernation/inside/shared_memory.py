"""Named shared memory of a tree: files in its private ``/dev/shm``, kept beside the image.

The archive lies where its user can change it, and names in it may lead anywhere. So whoever unpacks it
has nothing that its user has not: no right, and no descriptor of PID 1's.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from gpucommons.gpu.hibernation.inside import calls, mounts_and_descriptors
from gpucommons.gpu.hibernation.process_image import Deadline

_PLACE = Path("/dev/shm")  # noqa: S108 - the kernel's place for shared memory
_PIECE_BYTES = 1 << 20
#: What the preloaded library calls a file whose name was removed while somebody held it.
_HIDDEN = ".gone."


def used_bytes() -> int:
    """How much lies there."""
    try:
        found = os.statvfs(_PLACE)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def remove_unheld() -> None:
    """Remove hidden files that nobody has open or mapped any more.

    The library does so whenever another name is removed there; no more may be.
    """
    with suppress(OSError):
        for path in _PLACE.glob(f"{_HIDDEN}*"):
            with suppress(OSError):
                if _is_unheld(path):
                    path.unlink()


def _is_unheld(path: Path) -> bool:
    """Whether the kernel gives a lease for writing: it gives none where anybody else holds the file."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Who opens it meanwhile has this signal sent to us, which does nothing.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


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
        When it does not fit, or is no such archive.
    """
    if not source.exists():
        return
    pid = os.fork()
    if not pid:
        _unpack_as_user(source)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        number = code if code > 0 else errno.EIO
        raise OSError(number, os.strerror(number), str(source))


def _unpack_as_user(source: Path) -> NoReturn:
    """Of a process of its own: ends with the number of what went wrong."""
    code = errno.EINVAL
    try:
        # In this order: who has a right cannot be looked into by who has none.
        mounts_and_descriptors.close_others()
        calls.set_capabilities(permitted=(), effective=())
        with tarfile.open(source) as archive:
            # The user's own files, back where they were; Python before 3.11.4 knows no filter.
            trusted = (
                {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            )
            archive.extractall(_PLACE, **trusted)  # type: ignore[arg-type]  # noqa: S202 - as above
        code = 0
    except OSError as error:
        code = error.errno or errno.EIO
    finally:
        os._exit(code)
