"""Root's program above one notebook server: it started the server, and starts trees for it.

It takes a folder's name and bytes that it does not read, and starts ``init.py``, which becomes the user
before it looks at anything. It opens nothing of the user's, gets no descriptor from them, and names no
process but those that it started. It ends as the server ended; trees that live then save themselves.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpucommons.gpu.connections.unix_sockets import peer_of
from gpucommons.gpu.hibernation.above_server import orders
from gpucommons.gpu.hibernation.above_server.orders import NotUnderstood, Request
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside.pid_one import hear_signals
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.gpu.linux.control_groups import enter

#: Kernels of one server.
MOST_TREES = 64
#: So many more may be saying what they want.
_MORE_CALLERS = 16
_REQUEST_S = 5.0
_LOOK_S = 1.0
_TOO_MANY = "This server has as many kernels that can be saved as it may have."
_NOT_YOURS = "This is another user's."


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """For whom it starts what."""

    account: Account
    home: Path
    #: Chosen by root: it is run with a capability.
    criu: tuple[str, ...]
    #: The server's process, a child of this one.
    server: int
    #: How many trees may live at once.
    most_trees: int = MOST_TREES
    #: Trees are started in it; None = in this process' own.
    group_of_trees: Path | None = None


@dataclass(kw_only=True, slots=True, eq=False)
class _Caller:
    """Who stands for one tree in the server, from its call to its end."""

    connection: socket.socket
    #: When its request must have been heard.
    until_s: float
    heard: bytearray = field(default_factory=bytearray)
    request: Request | None = None
    tree: subprocess.Popen[bytes] | None = None
    #: Closed, it tells the tree that the caller is gone.
    alive: int = -1


class Program:
    """See the module."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings, self._listener = settings, listener
        self._selector = selectors.DefaultSelector()
        self._callers: list[_Caller] = []
        #: Trees that nobody waits for any more.
        self._left: list[subprocess.Popen[bytes]] = []

    def run(self) -> int:
        """Serve until the server ended; its wait status."""
        wakeup = hear_signals((*orders.SIGNALS, signal.SIGCHLD))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(wakeup, selectors.EVENT_READ)
        status = self._ended()
        while status is None:
            for key, _ in self._selector.select(_LOOK_S):
                if key.fileobj is self._listener:
                    self._take()
                elif key.fileobj is wakeup:
                    for number in wakeup.recv(256):
                        if number != signal.SIGCHLD:
                            os.kill(self._settings.server, number)
                elif isinstance(key.data, _Caller) and key.data in self._callers:
                    self._hear(key.data)
            self._look()
            status = self._ended()
        return status

    def _ended(self) -> int | None:
        pid, status = os.waitpid(self._settings.server, os.WNOHANG)
        return status if pid else None

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        caller = _Caller(connection=connection, until_s=time.monotonic() + _REQUEST_S)
        peer = peer_of(connection)
        if peer is None or peer.uid != self._settings.account.uid:
            self._refuse(caller, _NOT_YOURS)
        elif len(self._callers) >= self._settings.most_trees + _MORE_CALLERS:
            self._refuse(caller, _TOO_MANY)
        else:
            self._callers.append(caller)
            self._selector.register(connection, selectors.EVENT_READ, caller)

    def _hear(self, caller: _Caller) -> None:
        try:
            heard = caller.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            # As one kills what stands for a tree elsewhere: with all that it stands for.
            self._let_go(caller, kill=True)
            return
        caller.heard += heard
        try:
            self._understand(caller)
            waits_for = 0 if caller.request is None else caller.request.order_bytes
            if len(caller.heard) > orders.MOST_LINE_BYTES + waits_for:
                raise NotUnderstood("That is no request.")  # noqa: TRY301 - one way out for all
        except NotUnderstood as error:
            self._refuse(caller, str(error))
        except OSError as error:
            self._refuse(caller, f"Root could not start it ({error.strerror}).")

    def _understand(self, caller: _Caller) -> None:
        """Go through what was heard, as far as it is whole."""
        while caller in self._callers:
            if caller.request is None:
                line = _line(caller.heard)
                if line is None:
                    return
                caller.request = orders.parsed(line, self._settings.home)
            elif caller.tree is None:
                if len(caller.heard) < caller.request.order_bytes:
                    return
                self._start(caller, caller.request)
            else:
                line = _line(caller.heard)
                if line is None:
                    return
                self._hand_on(caller, caller.tree, orders.signal_in(line))

    def _hand_on(self, caller: _Caller, tree: subprocess.Popen[bytes], number: int | None) -> None:
        if number is None:
            self._let_go(caller, kill=False)
        else:
            tree.send_signal(number)

    def _start(self, caller: _Caller, request: Request) -> None:
        if (
            len(self._left) + sum(one.tree is not None for one in self._callers)
            >= self._settings.most_trees
        ):
            self._refuse(caller, _TOO_MANY)
            return
        order = bytes(caller.heard[: request.order_bytes])
        del caller.heard[: request.order_bytes]
        held = _in_memory(order)
        try:
            alive, caller.alive = os.pipe()
        except OSError:
            os.close(held)
            raise
        try:
            caller.tree = subprocess.Popen(
                [*self._words(request, alive)],
                stdin=held,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[alive],
                start_new_session=True,
                umask=0o077,
                cwd="/",
                preexec_fn=self._enter_group,  # noqa: PLW1509 - one thread
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.SubprocessError as error:
            # All that a child can say of what happened before it became the tree's.
            raise OSError(errno.EPERM, "its control group cannot be entered") from error
        finally:
            os.close(held)
            os.close(alive)

    def _enter_group(self) -> None:
        if self._settings.group_of_trees is not None:
            enter(str(self._settings.group_of_trees))

    def _words(self, request: Request, alive: int) -> Iterator[str]:
        tree = HibernatableTree(
            request.folder,
            Criu(command=self._settings.criu, version=""),
            orphaned=request.orphaned,
            output=request.output,
            preload=None,
            close_connections=request.close_connections,
            account=self._settings.account,
        )
        if request.what == "wake":
            yield from tree.words("wake", alive=alive)
            return
        yield from tree.words("run", "--has-order", alive=alive)
        begin = Path(__file__).absolute().with_name("begin.py")
        yield from ("--", sys.executable, "-I", "-S", str(begin))

    def _look(self) -> None:
        """Who has ended, and who says nothing."""
        self._left = [one for one in self._left if one.poll() is None]
        now_s = time.monotonic()
        for caller in tuple(self._callers):
            if caller.tree is None:
                if now_s > caller.until_s:
                    self._let_go(caller, kill=True)
            elif caller.tree.poll() is not None:
                self._say(caller, {"ended": caller.tree.returncode})
                self._let_go(caller, kill=False)

    def _refuse(self, caller: _Caller, because: str) -> None:
        self._say(caller, {"refused": because})
        self._let_go(caller, kill=True)

    def _say(self, caller: _Caller, told: dict[str, object]) -> None:
        # Who does not take a short line is not waited for.
        with suppress(OSError):
            caller.connection.send(json.dumps(told).encode() + b"\n")

    def _let_go(self, caller: _Caller, *, kill: bool) -> None:
        if caller in self._callers:
            self._callers.remove(caller)
            self._selector.unregister(caller.connection)
        caller.connection.close()
        if caller.tree is not None:
            if kill:
                caller.tree.kill()
            self._left.append(caller.tree)
        if caller.alive >= 0:
            os.close(caller.alive)
            caller.alive = -1


def _line(heard: bytearray) -> bytes | None:
    """The next whole line, taken out; None where there is none yet."""
    end = heard.find(b"\n")
    if end < 0:
        return None
    line = bytes(heard[:end])
    del heard[: end + 1]
    return line


def _in_memory(content: bytes) -> int:
    """A file without a name, to be read from its beginning: nobody has to read for it to be written."""
    held = os.memfd_create("order", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(held), "wb") as stream:
        stream.write(content)
    os.lseek(held, 0, os.SEEK_SET)
    return held
