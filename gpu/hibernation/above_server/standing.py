"""Puts root's program above a server: what the hub does before the start, and its child before it is one.

The hub's child forks: the older half, which the hub knows as the server, becomes root's program; the
younger one goes on and becomes the server. So limits, signals, accounting and the hub's memory of a
process are those of a server without the program, and the program has no variable of the server's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.connections.unix_sockets import connect, listen
from gpucommons.gpu.hibernation.above_server import groups
from gpucommons.gpu.hibernation.above_server.groups import Groups
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.linux.control_groups import enter

LAUNCH = Path(__file__).absolute().with_name("launch.py")
_PREFIX = "gpucommons-trees-"
_LOOK_S = 1.0
#: In a program's folder: below which group its server's are; and when it was found killed.
_GROUPS, _KILLED = "groups", "killed"
#: A tree that saves itself has ten minutes, and some seconds to end where it cannot.
_TREES_MAY_SAVE_S = 900.0


@dataclass(kw_only=True, slots=True)
class Above:
    """The program of one server that is about to start."""

    words: tuple[str, ...]
    listener: socket.socket
    #: Where the program listens: nobody but root and the server's user may connect.
    place: Path
    #: None where none can be made: a server that drops its signals then outlives a killed program.
    groups: Groups | None = None
    _program: int = field(default=0, init=False)

    def stand(self) -> None:
        """In the hub's child, as root: returns in its own child, below the program.

        Raises
        ------
        OSError
            When the program cannot be started; there is no server then.
        """
        self._program = os.getpid()
        server = os.fork()
        if server:
            try:
                self.listener.set_inheritable(True)
                environ = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
                os.execve(self.words[0], [*self.words, "--server", str(server)], environ)  # noqa: S606 - no shell
            except BaseException:
                os.kill(server, signal.SIGKILL)
                raise
        os.setsid()
        if self.groups is not None:
            enter(str(self.groups.server))

    def stay_below(self) -> None:
        """In the server's process once it is its user's: it ends with the program.

        Raises
        ------
        OSError
            When that is not to be had.
        """
        calls.die_with_parent(signal.SIGKILL)
        if os.getppid() != self._program:
            raise ProcessLookupError(3, "root's program has ended")

    def let_go(self) -> None:
        """In the hub, once the server has started: the program has all of this."""
        self.listener.close()

    def discard(self) -> None:
        """In the hub, where no server started."""
        self.let_go()
        ended_by_itself(self.place)


def prepare(
    account: Account, home: Path, criu: tuple[str, ...], base: Path, group: str | None = None
) -> Above:
    """Have a place to listen at below ``base``, which root alone may change, or like ``/tmp``.

    ``group`` is the control group that the server is started in; None = this process' own.

    Raises
    ------
    OSError
        When none can be made.
    """
    end_left(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    place = folder / "socket"
    try:
        folder.chmod(0o755)
        listener = listen(place)
        os.chown(place, account.uid, account.gid)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    made = _make_groups(folder, None if group is None else Path(group))
    words = (
        *(sys.executable, "-I", "-S", str(LAUNCH)),
        *("--account", account.as_word(), "--home", str(home)),
        *("--criu", json.dumps(criu), "--listener", str(listener.fileno())),
        *("--place", str(place)),
    )
    return Above(words=words, listener=listener, place=place, groups=made)


def _make_groups(folder: Path, parent: Path | None) -> Groups | None:
    """Groups called as the folder, which says where they are; None where none can be made."""
    try:
        made = groups.make(folder.name, parent)
    except OSError:
        return None
    (folder / _GROUPS).write_text(str(made.server.parent), encoding="utf-8")
    return made


def groups_of(folder: Path) -> Groups | None:
    """Those that were made with this folder."""
    try:
        parent = Path((folder / _GROUPS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return groups.below(parent, folder.name)


def ended_by_itself(place: Path) -> None:
    """Leave nothing, or groups for :func:`end_left` to remove.

    Those in which something still lives, and those that the program has given up the right to remove.
    """
    with suppress(OSError):
        place.unlink(missing_ok=True)
        _remove_if_empty(place.parent)


def end_left(base: Path, now_s: float | None = None) -> None:
    """End what programs left that were killed: their servers at once, trees once they may have saved.

    Of a program that ended by itself nothing is ended: its server has ended, and what that left to
    run on is its user's.
    """
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid():
                _end_left_in(folder, time.time() if now_s is None else now_s)


def _end_left_in(folder: Path, now_s: float) -> None:
    place, killed = folder / "socket", folder / _KILLED
    if place.exists():
        try:
            connect(place, timeout_s=_LOOK_S).close()
        except ConnectionRefusedError:
            found = groups_of(folder)
            if found is None or groups.end(found.server):
                killed.touch()
                place.unlink()
        else:
            return
    if killed.exists() and now_s - killed.stat().st_mtime > _TREES_MAY_SAVE_S:
        found = groups_of(folder)
        if found is not None:
            groups.end(found.trees)
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> None:
    found = groups_of(folder)
    if found is None or found.remove():
        shutil.rmtree(folder)
