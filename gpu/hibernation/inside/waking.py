"""Wakes an image: CRIU makes its processes anew, as children of PID 1."""

from __future__ import annotations

from pathlib import Path

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import refusals
from gpucommons.gpu.hibernation.inside import criu_runs, processes
from gpucommons.gpu.hibernation.inside.by_root import checked_copy, rights
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings
from gpucommons.gpu.hibernation.process_image import Image

_TIMEOUT_S = 600
#: As what CRIU starts sees them.
_OF_PID_ONE = Path("/proc/1/fd")
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
#: CRIU's own processes take numbers from here on.
_ROOM = 500
_FIRST_CHOICE = 30_000
_SCRIPT = "commit"


def wake(settings: TreeSettings, image: Image, unseen: int | None = None) -> str | None:
    """Wake the image that lies in ``waking``; a sentence when it could not be.

    ``unseen`` is of a tree that root lets wake: a folder that nobody else can reach. What says which
    rights the processes get is looked at there and read from there.

    Raises
    ------
    OSError
        When the kernel or the disk refuses.
    """
    folder = settings.folder
    images = kept = folder / layout.WAKING
    from gpucommons.gpu.hibernation.inside import shared_memory  # noqa: PLC0415 - rarely needed

    if unseen is not None:
        images = criu_runs.OPENED / str(unseen)
        because = checked_copy.fill(images, kept)
        if because is not None:
            return _refused(folder, kept, because)
    shared_memory.unpack(kept / layout.SHARED_MEMORY)
    # So that none of CRIU's processes takes a number of the image.
    _LAST_PID.write_text(str(free_numbers(image.processes)), encoding="ascii")
    place = folder if unseen is None else _OF_PID_ONE / str(unseen)
    script = _write_script(folder, place)
    arguments = ["restore", "-d", "-o", layout.RESTORE_LOG, "--action-script", str(script)]
    if settings.close_connections:
        arguments.append("--tcp-close")
    for number, pipe in image.pipes.items():
        arguments += ["--inherit-fd", f"fd[{number}]:{pipe}"]
    patience = criu_runs.Patience(timeout_s=_TIMEOUT_S)
    done = criu_runs.criu(settings, arguments, images, patience)
    script.unlink(missing_ok=True)
    if done.ok and unseen is not None and rights.any_of(processes.numbers):
        # Whatever the image was: nothing goes on that could do more than its user.
        return _refused(folder, folder / layout.USED, refusals.WANTS_RIGHTS)
    if done.ok:
        layout.discard(folder / layout.USED)
        return None
    if layout.complete_image(folder) == folder / layout.COMPLETE:
        return "The image was taken back while it was being woken."
    left = folder / layout.USED if (folder / layout.USED).exists() else kept
    log = (left if unseen is None else images) / layout.RESTORE_LOG
    return _refused(folder, left, refusals.of_wake(_text(log), late=done.late))


def _refused(folder: Path, left: Path, because: str) -> str:
    layout.discard(folder / layout.REFUSED)
    left.rename(folder / layout.REFUSED)
    return because


def free_numbers(taken: tuple[int, ...]) -> int:
    """A number after which there is room for some processes beside those of an image."""
    starts: list[int] = [_FIRST_CHOICE, *range(1_000, 32_000, _ROOM)]
    for first in starts:
        if not any(first < pid <= first + _ROOM for pid in taken):
            return first
    return _FIRST_CHOICE


def _write_script(folder: Path, place: Path) -> Path:
    """After everything is restored and before anything runs: the image counts as used."""
    script = place / _SCRIPT
    waking, used = (_quoted(folder / name) for name in (layout.WAKING, layout.USED))
    text = f'#!/bin/sh\n[ "$CRTOOLS_SCRIPT_ACTION" = post-restore ] || exit 0\nexec mv -T {waking} {used}\n'
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return script


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
