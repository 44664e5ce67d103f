"""Mounting on Linux, as far as slices in pods need it: the calls themselves, without ``mount(8)``.

A target is opened first, one name after the other without following links, and mounted on through
its descriptor: what its path leads to a moment later does not matter.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MS_REMOUNT, _MS_BIND = 32, 4096
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_MOUNT_POINT = 4
_MOUNTINFO = Path("/proc/self/mountinfo")
_SELINUX = Path("/sys/fs/selinux/enforce")
_CONTAINER_FILES = "system_u:object_r:container_file_t:s0"


def bind(source: Path, target: Path, *, writable: bool = False) -> None:
    """Show a file or folder in another place.

    Raises
    ------
    OSError
        When the kernel refuses, or a link lies on the way.
    """
    with _opened(source) as from_, _opened(target) as to:
        _mount(from_, to, _MS_BIND)
    if not writable:
        make_read_only(target)


def make_read_only(target: Path) -> None:
    """Close what was bound to writers. What is mounted below it stays as it is.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    with _opened(target) as to:
        _mount("none", to, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def tmpfs(target: Path, *, name: str, size_bytes: int, files: int) -> None:
    """A file system in memory, of bounded size, for containers to read.

    Its name stands in the table of mounts, wherever it is shown.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    with _opened(target) as to:
        options = f"size={size_bytes},nr_inodes={files},mode=0755{_label()}"
        _mount(name, to, _MS_NOSUID | _MS_NODEV, kind="tmpfs", options=options)


def make_folder(target: Path) -> None:
    """Make a folder to mount on; one that is there will do.

    Raises
    ------
    OSError
        When it cannot be made, or a link lies on the way.
    """
    with _opened(target.parent) as parent, suppress(FileExistsError):
        Path(parent, target.name).mkdir(mode=0o750)


def remove_folder(target: Path) -> None:
    """Remove an empty folder; one that is not there is removed already.

    Raises
    ------
    OSError
        When something is in it, or a link lies on the way.
    """
    with suppress(FileNotFoundError), _opened(target.parent) as parent:
        Path(parent, target.name).rmdir()


def unmount(target: Path) -> None:
    """Take away everything mounted at and below a folder; where nothing is, nothing happens.

    Whoever has it open keeps it until they let go.

    Raises
    ------
    OSError
        When the kernel refuses.
    """
    for point in sorted(points(target), key=lambda one: len(one.parts), reverse=True):
        if _libc().umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW):
            _complain(point)


def points(below: Path, mountinfo: Path = _MOUNTINFO) -> list[Path]:
    """Mount points at and below a folder, once for each mount."""
    with suppress(FileNotFoundError):
        lines = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        found = (Path(_unescaped(line.split(" ")[_MOUNT_POINT])) for line in lines)
        return [point for point in found if point == below or below in point.parents]
    return []


def named(mountinfo: Path = _MOUNTINFO) -> Iterator[tuple[str, Path]]:
    """The name and the place of every mounted file system that has a name instead of a device.

    Raises
    ------
    OSError
        When the table cannot be read.
    """
    for line in mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place, _, kind = line.partition(" - ")
        if kind.startswith("tmpfs "):
            yield kind.split(" ")[1], Path(_unescaped(place.split(" ")[_MOUNT_POINT]))


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both are there and lead to the same file or folder."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def is_read_only(path: Path) -> bool:
    """Whether the mount that a path lies on is closed to writers."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


@contextmanager
def _opened(path: Path) -> Iterator[str]:
    """A name for exactly this file or folder, valid inside the block."""
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.absolute().parts[1:]:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(name, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _mount(source: str, target: str, flags: int, *, kind: str = "none", options: str = "") -> None:
    done = _libc().mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), flags, options.encode()
    )
    if done:
        _complain(target)


def _label() -> str:
    """Where SELinux decides, the label without which no container may open a file."""
    return f',context="{_CONTAINER_FILES}"' if _SELINUX.exists() else ""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _complain(target: object) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), str(target))


def _unescaped(name: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(code, letter)
    return name
