"""The process that stands for a tree outside: the caller starts it, signals it, waits for it.

It makes the namespaces, forks PID 1 into them and then does little: it hands on signals, notices
that the caller died, and ends as the tree ended. Killing it kills the tree.
"""

from __future__ import annotations

import json
import os
import resource
import select
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.inside import calls, mounts_and_descriptors, pid_one
from gpucommons.gpu.hibernation.inside.by_root import rights
from gpucommons.gpu.hibernation.inside.tree_settings import Account, TreeSettings

_CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}
#: Looking whether a tree lives takes far less.
_PATIENCE_S = 2.0
_BILLION = 1_000_000_000


def stand_for(settings: TreeSettings) -> int:
    """Start the tree, and stay until it ended, was saved, or could not be started."""
    # Nobody inside may hold what only the caller's mounts can name.
    told_by = settings.alive
    mounts_and_descriptors.close_others(
        settings.handed if told_by is None else (*settings.handed, told_by)
    )
    caller = parent() if told_by is None else told_by
    if settings.account is not None:
        _become_user(settings, settings.account)
    layout.make(settings.folder)
    if layout.lock(settings.folder, patience_s=_PATIENCE_S) is None:
        return refuse(settings.folder, "Another tree lives in this folder.")
    layout.begin(settings.folder, os.getpid())
    if caller is not None and _has_ended(caller):
        # Before anything is begun: an image that was to be woken stays as it is.
        return refuse(settings.folder, "Who asked for it is gone.")
    image = None
    if settings.wake:
        image, problem = _image_to_wake(settings.folder)
        if problem is not None:
            return refuse(settings.folder, problem)
    else:
        _clear(settings.folder)
    try:
        _enter_namespaces(settings, image)
        line, inner = socket.socketpair()
        pid = os.fork()
    except OSError as error:
        return refuse(settings.folder, _forbidden(error))
    if not pid:
        _become_pid_one(settings, image, inner, (line, caller))
    inner.close()
    if settings.account is not None:
        rights.let_go(settings)
    mounts_and_descriptors.let_go_of_order(settings)
    return _watch(settings, pid, line, caller)


def _become_pid_one(
    settings: TreeSettings,
    image: images.Image | None,
    line: socket.socket,
    others: tuple[socket.socket, int | None],
) -> None:
    calls.die_with_parent(signal.SIGKILL)
    others[0].close()
    if others[1] is not None:
        os.close(others[1])
    try:
        status = pid_one.live(settings, image, line)
    except BaseException as error:  # noqa: BLE001 - a forked child may not go on as its parent
        with suppress(OSError):
            line.sendall(json.dumps({"refused": f"{_forbidden(error)}"}).encode() + b"\n")
        status = layout.REFUSED_STATUS
    os._exit(status)


def parent() -> int | None:
    """A descriptor that tells when the parent ended; None where it cannot be seen."""
    pid = os.getppid()
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    # It may have ended before, and its number may name another by now.
    return descriptor if os.getppid() == pid else None


def _has_ended(caller: int) -> bool:
    return bool(select.select([caller], [], [], 0)[0])


def _image_to_wake(folder: Path) -> tuple[images.Image | None, str | None]:
    place = layout.complete_image(folder)
    image = images.read(place) if place is not None else None
    if image is None:
        return None, "There is no image to wake."
    problem = images.hindrance(image)
    if problem is None:
        image.folder.rename(folder / layout.WAKING)
    return image, problem


def _clear(folder: Path) -> None:
    """A tree that starts anew: nothing of one before it counts."""
    for name in (
        layout.SAVING, layout.COMPLETE, layout.WAKING, layout.USED, layout.REFUSED,
    ):  # fmt: skip
        layout.discard(folder / name)
    for name in (layout.NOT_ALONE, layout.UNSAVED):
        (folder / name).unlink(missing_ok=True)


def _enter_namespaces(settings: TreeSettings, image: images.Image | None) -> None:
    if settings.account is not None:
        _enter_as_root_lets(image)
        return
    uid, gid = os.getuid(), os.getgid()
    calls.unshare(calls.NEWUSER)
    # Mapped to themselves: who the user is looks the same inside.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    if image is not None:
        _set_clocks(image)
    calls.unshare(calls.NEWPID | calls.NEWNS)


def _become_user(settings: TreeSettings, account: Account) -> None:
    # Before anything of the user's is touched.
    rights.become(account)
    if not settings.save_when_orphaned:
        calls.die_with_parent(signal.SIGKILL)
    if settings.places:
        # Before the image is looked at: what it had open is looked for under the names of then.
        with rights.in_use(calls.SYS_ADMIN):
            calls.unshare(calls.NEWNS)
            calls.make_private()
            for new, old in settings.places:
                calls.mount(new, old, "none", calls.BIND)


def _enter_as_root_lets(image: images.Image | None) -> None:
    if image is not None:
        # The file of a process that has just changed its user is root's, unless it can be looked at;
        # whoever has fewer rights still can't.
        calls.can_be_looked_at(True)
        with rights.in_use(calls.SYS_ADMIN, calls.SYS_TIME):
            _set_clocks(image)
        calls.can_be_looked_at(False)
    with rights.in_use(calls.SYS_ADMIN):
        calls.unshare(calls.NEWPID | calls.NEWNS)


def _set_clocks(image: images.Image) -> None:
    """Else whoever sleeps until an instant of the clock before sleeps for ever after a reboot."""
    calls.unshare(calls.NEWTIME)
    Path("/proc/self/timens_offsets").write_text(_offsets(image), encoding="ascii")


def _offsets(image: images.Image) -> str:
    lines = []
    for name, number in _CLOCKS.items():
        behind = image.clocks_ns[name] - time.clock_gettime_ns(number)
        lines.append(f"{name} {behind // _BILLION} {behind % _BILLION}\n")
    return "".join(lines)


def _watch(settings: TreeSettings, pid: int, line: socket.socket, caller: int | None) -> int:
    wakeup = pid_one.hear_signals(pid_one.FORWARDED)
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        if caller is not None:
            selector.register(caller, selectors.EVENT_READ)
        said = b""
        while True:
            for key, _ in selector.select():
                if key.fileobj is line:
                    heard = line.recv(1 << 16)
                    if not heard:
                        return _end_as(settings, said, os.waitpid(pid, 0)[1])
                    said += heard
                elif key.fileobj is wakeup:
                    for heard_of in wakeup.recv(64):
                        os.kill(pid, heard_of)
                else:
                    selector.unregister(key.fileobj)
                    line.sendall(b"o")


def _end_as(settings: TreeSettings, said: bytes, status: int) -> int:
    """End as the tree ended, by its signal where it was one."""
    lines = said.decode().splitlines()
    told = json.loads(lines[-1]) if lines else {}
    if "refused" in told:
        return refuse(settings.folder, told["refused"])
    return end_as(told.get("ended", status))


def end_as(ended: int) -> int:
    """The exit code for a process that ended with this wait status; does not return for a signal's."""
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pause()
    return os.waitstatus_to_exitcode(ended)


def refuse(folder: Path, because: str) -> int:
    """Say why there is no tree, where it is looked for."""
    sys.stderr.write(f"{because}\n")
    with suppress(OSError):
        pid_one.tell_woken(folder, because)
    return layout.REFUSED_STATUS


def _forbidden(error: BaseException) -> str:
    if isinstance(error, OSError):
        what = error.filename or "namespaces"
        return f"This system forbids users what saving a process needs ({what}: {error.strerror})."
    return f"Hibernation failed here: {error!r}."
