"""PID 1 of a hibernatable tree: starts or wakes it, reaps, hands on signals, saves on request.

It is never part of an image, and holds nothing of the tree. Whoever may enter the tree's folder asks
through a socket there; while it saves it needs nobody, and nobody's end disturbs it.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.inside import (
    calls,
    gpu_memory,
    mounts_and_descriptors,
    processes,
    saving,
    shared_memory,
    waking,
)
from gpucommons.gpu.hibernation.inside.by_root import rights
from gpucommons.gpu.hibernation.inside.tree_settings import TreeSettings

#: What is handed on to the first process of the tree and its group, also by who stands for it outside.
FORWARDED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
#: How long an orphaned tree has between SIGTERM and its end, and how long saving it may take.
_ORPHAN_GRACE_S = 10
_ORPHAN_SAVE_S = 600
#: How often shared memory that nobody holds any more is looked for.
_TIDY_S = 10
_LONGEST_REQUEST = 1 << 12
_REQUEST_S = 5


def live(settings: TreeSettings, image: images.Image | None, line: socket.socket) -> int:
    """Be PID 1 until the tree ended or was saved.

    Raises
    ------
    OSError
        When the kernel refuses what a tree needs.
    """
    return _PidOne(settings, line).live(image)


def tell_woken(folder: Path, because: str | None) -> None:
    """Write down what became of a start or a wake.

    Raises
    ------
    OSError
        When the disk refuses.
    """
    partial = folder / f"{layout.WOKEN}.partial"
    partial.write_text(json.dumps(because), encoding="utf-8")
    partial.replace(folder / layout.WOKEN)


def hear_signals(numbers: Iterable[int]) -> socket.socket:
    """A socket that gives the number of each of these signals that comes, to be waited for with others."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    for number in numbers:
        # Holds the writer for as long as signals may come.
        signal.signal(number, lambda *_, _held=writer: None)
    return reader


class _PidOne:
    def __init__(self, settings: TreeSettings, line: socket.socket) -> None:
        self._settings = settings
        self._line = line
        self._root = 0
        #: GPU memory that did not come back at the wake.
        self._on_host = gpu_memory.OnHost()
        #: What PID 1's first descriptors lead to, where they are pipes.
        self._pipes: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()

    def live(self, image: images.Image | None) -> int:
        os.setsid()
        unseen = mounts_and_descriptors.prepare(self._settings)
        self._pipes = mounts_and_descriptors.pipes()
        listener = _listen(self._settings.folder)
        wakeup = hear_signals((*FORWARDED, signal.SIGCHLD, signal.SIGALRM))
        if image is None:
            self._root = self._start()
        mounts_and_descriptors.let_go_of_order(self._settings)
        if self._settings.account is not None:
            rights.keep_for_criu()
            # By CRIU, which has the same right; others of this user have not.
            calls.can_be_looked_at(True)
        if image is not None:
            problem = waking.wake(self._settings, image, unseen)
            if problem is not None:
                return self._tell({"refused": problem}, layout.REFUSED_STATUS)
            self._root = image.root_pid
            self._give_gpu_back(image)
        tell_woken(self._settings.folder, None)
        mounts_and_descriptors.let_go_of_output()
        for source in (listener, wakeup, self._line):
            self._selector.register(source, selectors.EVENT_READ)
        return self._serve(listener, wakeup)

    def _give_gpu_back(self, image: images.Image) -> None:
        parked = gpu_memory.OnHost(pids=image.parked, gpus=image.gpus)
        because = gpu_memory.come_back(self._settings.driver, parked)
        if because is not None:
            self._on_host = parked
            with suppress(OSError):
                layout.tell(self._settings.folder / layout.PARKED, because)

    def _start(self) -> int:
        pid = os.fork()
        if not pid:
            try:
                mounts_and_descriptors.become(self._settings)
            except BaseException as error:  # noqa: BLE001 - a forked child may not go on
                sys.stderr.write(f"{self._settings.command[0]}: {error}\n")
            os._exit(127)
        return pid

    def _serve(self, listener: socket.socket, wakeup: socket.socket) -> int:
        while True:
            shared_memory.remove_unheld()
            for key, _ in self._selector.select(_TIDY_S):
                status = None
                if key.fileobj is listener:
                    status = self._answer(listener)
                elif key.fileobj is wakeup:
                    status = self._signalled(wakeup.recv(64))
                else:
                    status = self._orphaned()
                if status is not None:
                    return status

    def _signalled(self, numbers: bytes) -> int | None:
        for number in numbers:
            if number == signal.SIGALRM:
                _signal_all(signal.SIGKILL)
            elif number != signal.SIGCHLD:
                self._forward(number)
        return self._reap()

    def _reap(self) -> int | None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._tell({"ended": 0}, 0)
            if not pid:
                return None
            if pid == self._root:
                _kill_all()
                return self._tell({"ended": status}, 0)

    def _forward(self, number: int) -> None:
        try:
            os.killpg(self._root, number)
        except ProcessLookupError:
            with suppress(ProcessLookupError):
                os.kill(self._root, number)

    def _answer(self, listener: socket.socket) -> int | None:
        connection, _ = listener.accept()
        with connection:
            asked = _requested(connection)
            told = self._done(asked)
            if told is None:
                return None
            if "saved" in told:
                # First the processes, then the answer: whoever hears it may take their devices.
                _kill_all()
            with suppress(OSError):
                connection.sendall(json.dumps(told).encode() + b"\n")
        return self._tell({}, layout.SAVED_STATUS) if "saved" in told else None

    def _done(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """What is asked; None for whoever asks for nothing sensible."""
        try:
            if "park_within_s" in asked:
                return self._park(str(asked["driver"]), float(asked["park_within_s"]))
            if "unpark" in asked:
                return self._unpark(str(asked["driver"]))
            bounds = _bounds(asked)
        except (ValueError, TypeError, KeyError):
            return None
        return self._save(bounds)

    def _park(self, driver: str, within_s: float) -> dict[str, Any]:
        left = gpu_memory.leave(driver, self._on_host, within_s)
        if isinstance(left, str):
            return {"refused": left, "alive": processes.lives(self._root)}
        self._on_host = left
        return {"parked": len(left.pids)}

    def _unpark(self, driver: str) -> dict[str, Any]:
        stays = gpu_memory.come_back(driver, self._on_host)
        if stays is None:
            self._on_host = gpu_memory.OnHost()
            return {"parked": 0}
        return {"refused": stays, "alive": processes.lives(self._root)}

    def _orphaned(self) -> int | None:
        self._selector.unregister(self._line)
        if not self._line.recv(1):
            # Who stands for it was killed, perhaps before this process had asked to die with it.
            _kill_all()
            return layout.REFUSED_STATUS
        if self._settings.save_when_orphaned and self._save_alone():
            _kill_all()
            return self._tell({}, layout.SAVED_STATUS)
        self._forward(signal.SIGTERM)
        signal.alarm(_ORPHAN_GRACE_S)
        return None

    def _save_alone(self) -> bool:
        folder = self._settings.folder
        because = layout.told(folder / layout.NOT_ALONE)
        if because is None:
            outcome = self._save(saving.Bounds(timeout_s=_ORPHAN_SAVE_S))
            if "saved" in outcome:
                return True
            because = outcome["refused"]
        with suppress(OSError):
            layout.tell(folder / layout.UNSAVED, because)
        return False

    def _save(self, bounds: saving.Bounds) -> dict[str, Any]:
        return saving.save(
            self._settings, self._root, pipes=self._pipes, bounds=bounds, on_host=self._on_host
        )

    def _tell(self, what: dict[str, Any], status: int) -> int:
        if what:
            with suppress(OSError):
                self._line.sendall(json.dumps(what).encode() + b"\n")
        return status


def _listen(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        (folder / layout.CONTROL).unlink()
    # By descriptor: the path may be longer than an address may be.
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener.bind(f"/proc/self/fd/{place}/{layout.CONTROL}")
    os.close(place)
    listener.listen(8)
    return listener


def _bounds(asked: dict[str, Any]) -> saving.Bounds:
    """What a save may take."""
    most, let_go = asked.get("most_bytes"), asked.get("let_go_s")
    return saving.Bounds(
        timeout_s=float(asked["save_within_s"]),
        most_bytes=None if most is None else int(most),
        let_go_s=math.inf if let_go is None else float(let_go),
    )


def _requested(connection: socket.socket) -> dict[str, Any]:
    """What somebody asks; empty where that cannot be read."""
    connection.settimeout(_REQUEST_S)
    try:
        asked = json.loads(connection.recv(_LONGEST_REQUEST))
        return asked if isinstance(asked, dict) else {}
    except (OSError, ValueError):
        return {}
    finally:
        with suppress(OSError):
            connection.settimeout(None)


def _signal_all(number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(-1, number)  # everything in this namespace but PID 1


def _kill_all() -> None:
    """End every process of the tree, and be sure of it."""
    _signal_all(signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
