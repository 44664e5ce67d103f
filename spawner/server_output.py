"""What a notebook server prints, kept in a file of its user's own.

Without this a server and its kernels would write into the hub's log, and could read it. The writer is
a process of its own, because servers outlive the hub; it becomes the user before it opens anything,
and writes as the user below the user's home, so that whatever lies there can lead it only where the
user may go anyway. There are two files of :data:`MOST_BYTES` at most, the newest lines in the first.

Only the standard library is imported: it is run as a file, by an interpreter that looks at nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import stat
import sys
from contextlib import suppress

#: Below the home.
FOLDER = (".gpucommons", "logs")
MOST_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 16
_PR_SET_NO_NEW_PRIVS = 38
_BELOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Be the user, and never anybody else again."""
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def open_folder(home: str) -> int:
    """Open (and make) the folder of the logs, following no link below the home.

    Raises
    ------
    OSError
        When it cannot be had.
    """
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    for part in FOLDER:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=folder)
        below = os.open(part, _BELOW, dir_fd=folder)
        os.close(folder)
        folder = below
    return folder


class CappedFile:
    """A file that begins anew when it is full; the one before it is kept as ``NAME.1``."""

    def __init__(self, folder: int, name: str, most_bytes: int) -> None:
        self._folder = folder
        self._name = name
        self._most_bytes = most_bytes
        self._file: int | None = None

    def write(self, chunk: bytes) -> None:
        """Write; what the disk does not take is lost, and the server goes on."""
        with suppress(OSError):
            if self._file is None:
                self._file = self._opened()
            if os.fstat(self._file).st_size + len(chunk) > self._most_bytes:
                self._begin_anew()
            os.write(self._file, chunk)

    def _opened(self) -> int:
        found = os.open(self._name, _APPEND, 0o600, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            message = "this is no regular file"
            raise OSError(message)
        return found

    def _begin_anew(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None
        older = f"{self._name}.1"
        os.replace(self._name, older, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._file = self._opened()


def keep(source: int, file: CappedFile) -> None:
    """Write what comes until nobody can print any more: the server, its kernels, what they started."""
    while chunk := os.read(source, _CHUNK_BYTES):
        file.write(chunk)


def main() -> int:
    """Become the user, say that it is ready by going on in the background, and keep what comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--home", required=True)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--groups", default="")
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES)
    given = parser.parse_args()
    if given.uid is not None:
        become(given.uid, given.gid, [int(one) for one in given.groups.split(",") if one])
    os.umask(0o077)
    # A server that is interrupted still has things to say.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        return 0  # whoever started this one waits for it, and needs no zombie of the other
    folder = os.open(os.devnull, os.O_RDONLY)
    with suppress(OSError):
        folder = open_folder(given.home)
    keep(0, CappedFile(folder, given.name, given.most_bytes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
