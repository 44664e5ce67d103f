"""A slice's shim folder: what the agent puts there, changes, and reads back.

The folder and the limit belong to the agent, the ledger to the slice's user. The libraries find
both beside themselves, so the one variable that a workload gets is ``LD_LIBRARY_PATH``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpucommons.gpu.errors import ShimUnavailable
from gpucommons.gpu.shim import building, layout
from gpucommons.gpu.shim.drivers import Drivers, find_drivers

_REAL = {building.CUDA: "libcuda-real.so.1", building.NVML: "libnvidia-ml-real.so.1"}
#: Some programs ask for the name that only the linker of programs uses.
_CUDA_UNVERSIONED = "libcuda.so"
#: A program with PyTorch maps about 1 MiB of lines. Whoever maps files by the ten thousand would keep
#: the agent reading.
_MAX_MAPS_BYTES = 8 << 20
_MAPS_FIELDS = 6
#: What the dynamic linker reads in a search path as something else than a letter.
_SEPARATORS = frozenset(":;$")


def probe(drivers: Drivers | None = None, libraries: Path = building.LIBRARIES) -> str | None:
    """Why slices cannot have the shim on this machine; None when they can."""
    if not (libraries / building.CUDA).exists():
        return (
            "shim not built: run `python -m gpucommons.gpu.shim` with a C compiler, or "
            "install the package for this machine's architecture."
        )
    if (drivers or find_drivers()).cuda is None:
        return "there is no driver here: libcuda.so.1 was not found."
    return None


def library_path(folder: Path, before: str = "") -> str:
    """``LD_LIBRARY_PATH`` for a workload of the slice."""
    return f"{folder}:{before}" if before else str(folder)


def prepare(  # noqa: PLR0913 - what lies in the folder, each by its name
    folder: Path,
    *,
    limit_bytes: int,
    device_uuid: str,
    owner_uid: int | None,
    total_bytes: int | None = None,
    drivers: Drivers | None = None,
) -> None:
    """Make the folder, or make it right again; what its processes hold is kept.

    The folder must lie where only the agent can write. Programs see a card of ``total_bytes``
    (of the limit, where it is None). ``owner_uid`` None makes a folder for a pod: whoever is shown
    it may keep its ledger, and the driver's libraries are to be mounted (:func:`overlays`).

    Raises
    ------
    ShimUnavailable
        When the libraries are not built, or the machine has no driver, or the linker would not
        find the folder.
    """
    drivers = drivers or find_drivers()
    if (reason := probe(drivers)) is not None:
        raise ShimUnavailable(reason)
    if _SEPARATORS.intersection(str(folder)):
        message = f"{folder} cannot be searched for libraries: choose a state folder without : ; $"
        raise ShimUnavailable(message)
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    limit = layout.Limit(limit_bytes=limit_bytes, total_bytes=total_bytes or limit_bytes)
    _limit(folder / layout.LIMIT_FILE, layout.pack_limit(limit, device_uuid))
    _ledger(folder, owner_uid)
    for name, real in ((building.CUDA, drivers.cuda), (building.NVML, drivers.nvml)):
        if real is not None:
            if owner_uid is None:
                # The paths of this machine mean nothing in a pod.
                (folder / _REAL[name]).touch(mode=0o444)
            else:
                _link(folder / _REAL[name], str(real))
            _copy(building.LIBRARIES / name, folder / name)
    _link(folder / _CUDA_UNVERSIONED, building.CUDA)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """A file to be mounted over one of the folder, in a pod that is shown it read-only."""

    name: str
    source: Path
    writable: bool = False


def overlays(folder: Path, drivers: Drivers | None = None) -> tuple[Overlay, ...]:
    """What a pod needs besides the folder as it is: its ledger open to it, and the driver."""
    drivers = drivers or find_drivers()
    real = {building.CUDA: drivers.cuda, building.NVML: drivers.nvml}
    ledger = folder / layout.LEDGER_FILE
    if not ledger.exists():
        return ()
    return (
        Overlay(name=layout.LEDGER_FILE, source=ledger, writable=True),
        *(
            Overlay(name=_REAL[name], source=source)
            for name, source in real.items()
            if source is not None
        ),
    )


def resize(folder: Path, limit_bytes: int, *, total_bytes: int | None = None) -> None:
    """Change the limit; it holds from the next allocation on.

    In place, because the slice's processes have the file mapped. Below what they hold it refuses
    everything new and frees nothing. What is shown as the card's size follows the limit, where it
    is not given.
    """
    limit = layout.Limit(limit_bytes=limit_bytes, total_bytes=total_bytes or limit_bytes)
    _write_over(folder / layout.LIMIT_FILE, layout.pack_numbers(limit), layout.LIMIT_NUMBERS_OFFSET)


def read_limit(folder: Path) -> int | None:
    """The limit that is in force, in bytes; None where none is."""
    data = _read(folder / layout.LIMIT_FILE, layout.LIMIT.size + 1)
    limit = None if data is None else layout.parse_limit(data)
    return None if limit is None else limit.limit_bytes


def read_ledger(folder: Path) -> layout.LedgerView | None:
    """What the slice's processes say they hold; None where there is no ledger (any more)."""
    data = _read(folder / layout.LEDGER_FILE, layout.LEDGER_SIZE)
    return None if data is None else layout.parse_ledger(data)


def shimmed(folder: Path, pid: int, proc: Path = Path("/proc")) -> bool | None:
    """Whether a process uses the driver through this folder.

    ``False``: it has loaded a driver and not the shim, or hides what it has loaded. ``None``: it has
    loaded no driver, or its maps cannot be read.
    """
    try:
        inode = b"%d" % (folder / building.CUDA).stat().st_ino
        maps = _maps(proc / str(pid))
    except OSError:
        return None
    if len(maps) > _MAX_MAPS_BYTES:
        return False
    # Address, rights, offset, device, inode, path. Its user chose the names: the kernel writes a
    # line feed as \012, and no other byte ends a line.
    fields = (line.split(maxsplit=5) for line in maps.split(b"\n") if b"/libcuda.so" in line)
    loaded = {
        (f[4], f[5])
        for f in fields
        if len(f) == _MAPS_FIELDS and f[5].rsplit(b"/", 1)[-1].startswith(b"libcuda.so")
    }
    # A container sees the folder elsewhere, so the same file will do; and a shim that an upgrade
    # replaced is still a shim.
    replaced = os.fsencode(folder.resolve() / building.CUDA) + b" (deleted)"
    ours = any(inode == mapped or path == replaced for mapped, path in loaded)
    return ours if loaded else None


def _maps(process: Path) -> bytes:
    """What a process has mapped, one byte more than we read at most."""
    with (process / "maps").open("rb") as file:
        found = file.read(_MAX_MAPS_BYTES + 1)
    if found:
        return found
    # Its first thread has ended alone: the others know.
    for thread in sorted((process / "task").iterdir()):
        with contextlib.suppress(OSError), (thread / "maps").open("rb") as file:
            found = file.read(_MAX_MAPS_BYTES + 1)
        if found:
            return found
    return b""


def release(folder: Path) -> None:
    """Remove the folder; again is harmless."""
    shutil.rmtree(folder, ignore_errors=True)


def _limit(path: Path, wanted: bytes) -> None:
    found = _read(path, layout.LIMIT.size + 1)
    if found is not None and len(found) == layout.LIMIT.size:
        # Perhaps mapped by running processes: written over, never replaced.
        _write_over(path, wanted, 0)
    else:
        _put(path, lambda scratch: scratch.write_bytes(wanted), 0o644)


def _write_over(path: Path, data: bytes, offset: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)


def _ledger(folder: Path, owner_uid: int | None) -> None:
    path = folder / layout.LEDGER_FILE
    # One that its user has spoilt stays: a second beside it would not know what the first counts.
    if os.path.lexists(path):
        return

    def make(scratch: Path) -> None:
        scratch.write_bytes(layout.empty_ledger())
        if os.geteuid() == 0 and owner_uid is not None:
            os.chown(scratch, owner_uid, -1)

    _put(path, make, 0o600 if owner_uid is not None else 0o666)


def _copy(source: Path, target: Path) -> None:
    # A copy, not a link: pods see the folder and not the installed package.
    if not target.is_file() or target.read_bytes() != source.read_bytes():
        _put(target, lambda scratch: shutil.copyfile(source, scratch), 0o755)


def _link(path: Path, target: str) -> None:
    if path.is_symlink() and str(path.readlink()) == target:
        return
    _put(path, lambda scratch: scratch.symlink_to(target), None)


def _put(path: Path, make: Callable[[Path], object], mode: int | None) -> None:
    """Make a file under another name and rename it: nobody meets half of it."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    make(scratch)
    if mode is not None:
        scratch.chmod(mode)
    scratch.replace(path)


def _read(path: Path, size: int) -> bytes | None:
    """At most so many bytes of a regular file: its user may have put anything in its place."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        descriptor = os.open(path, flags)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.pread(descriptor, size, 0)
        finally:
            os.close(descriptor)
    return None
