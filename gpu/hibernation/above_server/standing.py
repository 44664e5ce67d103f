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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.connections.unix_sockets import connect, listen
from gpucommons.gpu.hibernation.inside import calls
from gpucommons.gpu.hibernation.inside.settings import Account

LAUNCH = Path(__file__).absolute().with_name("launch.py")
_PREFIX = "gpucommons-trees-"
_LOOK_S = 1.0


@dataclass(kw_only=True, slots=True)
class Above:
    """The program of one server that is about to start."""

    words: tuple[str, ...]
    listener: socket.socket
    #: Where the program listens: nobody but root and the server's user may connect.
    place: Path
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
        shutil.rmtree(self.place.parent, ignore_errors=True)


def prepare(account: Account, home: Path, criu: tuple[str, ...], base: Path) -> Above:
    """Have a place to listen at below ``base``, which root alone may change, or like ``/tmp``.

    Raises
    ------
    OSError
        When none can be made.
    """
    _remove_left(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    place = folder / "socket"
    try:
        folder.chmod(0o755)
        listener = listen(place)
        os.chown(place, account.uid, account.gid)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    words = (
        *(sys.executable, "-I", "-S", str(LAUNCH)),
        *("--account", account.as_word(), "--home", str(home)),
        *("--criu", json.dumps(criu), "--listener", str(listener.fileno())),
        *("--place", str(place)),
    )
    return Above(words=words, listener=listener, place=place)


def _remove_left(base: Path) -> None:
    """What programs left that were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.geteuid() or not (folder / "socket").exists():
                continue
            try:
                connect(folder / "socket", timeout_s=_LOOK_S).close()
            except ConnectionRefusedError:
                shutil.rmtree(folder)
