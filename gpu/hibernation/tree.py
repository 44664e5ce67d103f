"""A process tree that can be saved and woken, seen from outside.

Its folder is all that callers share with it: whoever knows the folder can ask for a save, also
after the one who started the tree is gone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gpucommons.gpu.hibernation import folder as layout
from gpucommons.gpu.hibernation import process_image as images
from gpucommons.gpu.hibernation.criu import Criu
from gpucommons.gpu.hibernation.inside.tree_settings import Account
from gpucommons.gpu.hibernation.preload import library
from gpucommons.gpu.hibernation.process_image import Image

#: What a tree is started by.
INIT = Path(__file__).absolute().with_name("init.py")
#: What stands for one that root's program above the server starts.
ASKER = INIT.with_name("above_server") / "asker.py"
_POLL_S = 0.01
#: Beyond what CRIU was given: packing shared memory, checksums, the end of the processes.
_REST_S = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """The tree is on disk, and none of its processes lives."""

    image_bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """It could not be done; a tree that was to be saved runs on."""

    because: str
    #: Whether the tree lives.
    alive: bool


@dataclass(frozen=True, slots=True)
class HibernatableTree:
    """One tree and its folder."""

    folder: Path
    criu: Criu
    #: What happens to the tree when the process that started it dies.
    orphaned: Literal["end", "save"] = field(default="end", kw_only=True)
    #: Gets what the tree prints; None: the starting process' own stdout and stderr do.
    output: Path | None = field(default=None, kw_only=True)
    #: A library that every process of the tree loads first.
    preload: Path | None = field(default_factory=library, kw_only=True)
    #: Network connections are closed when it is saved, and programs see an error after the wake; a
    #: kernel's clients connect anew. Else a tree that holds a connection is not saved.
    close_connections: bool = field(default=False, kw_only=True)
    #: NVIDIA's driver, where it was found out that it can park: what holds GPU memory is saved, too.
    driver: Path | None = field(default=None, kw_only=True)
    #: Root starts it for this user, where users may make no namespaces; None: its own user does.
    account: Account | None = field(default=None, kw_only=True)

    #: Where root's program above the server listens, which then starts it; None: this process does.
    starter: Path | None = field(default=None, kw_only=True)

    def run_command(self, command: Sequence[str], *, alive: int | None = None) -> list[str]:
        """What starts this command as a tree that can be saved.

        It ends with the command's status, or by the signal that ended it; with ``SAVED_STATUS``
        when the tree was saved, with ``REFUSED_STATUS`` and a sentence when it cannot be started.
        ``alive`` is :func:`this_process`, passed to it; without it the caller is whoever is its parent
        once it runs.
        """
        return [*self._init("run", alive), "--", *command]

    def wake_command(self, *, alive: int | None = None) -> list[str]:
        """What wakes the image; it stands for the tree as the command before did."""
        return self._init("wake", alive)

    def save(
        self, timeout_s: float, *, most_bytes: int | None = None, let_go_s: float | None = None
    ) -> Saved | Refused:
        """Save the tree and end its processes. A tree that cannot be saved runs on.

        The answer comes when the processes are gone, or after the time is over. CRIU may need
        seconds then to let go of them, and they hear no signal meanwhile: after ``let_go_s`` of it is
        ended, which may end them, too; None = as long as it is worth while to wait. One of which it
        can be told before that it takes more than ``most_bytes`` is not begun with.
        """
        asked = {"save_within_s": timeout_s, "most_bytes": most_bytes, "let_go_s": let_go_s}
        told = self._ask(asked, timeout_s + _REST_S, "saved")
        return told if isinstance(told, Refused) else Saved(**told["saved"])

    def park(self, driver: Path, timeout_s: float) -> int | Refused:
        """Move its GPU memory to the host; answers of how many processes. One that is refused runs on.

        ``driver`` is NVIDIA's, where it was found out that it can park here.
        """
        asked = {"park_within_s": timeout_s, "driver": str(driver)}
        told = self._ask(asked, timeout_s + _REST_S, "parked")
        return told if isinstance(told, Refused) else int(told["parked"])

    def unpark(self, driver: Path, timeout_s: float) -> Refused | None:
        """Give it back what was parked; where that is refused, it stays in the machine's memory."""
        told = self._ask({"unpark": True, "driver": str(driver)}, timeout_s + _REST_S, "unparked")
        return told if isinstance(told, Refused) else None

    def _ask(self, asked: dict[str, Any], patience_s: float, done: str) -> dict[str, Any] | Refused:
        try:
            with _connected(self.folder) as connection:
                connection.settimeout(patience_s)
                connection.sendall(json.dumps(asked).encode() + b"\n")
                answer = connection.makefile("rb").readline()
        except TimeoutError:
            return Refused(because=f"It was not {done} in time.", alive=self.lives())
        except OSError:
            return Refused(because="It is not running.", alive=False)
        if not answer:
            return Refused(because=f"It ended while it was being {done}.", alive=False)
        told: dict[str, Any] = json.loads(answer)
        if "refused" in told:
            return Refused(because=told["refused"], alive=told["alive"])
        return told

    def awake(self, timeout_s: float) -> Refused | None:
        """Wait until a tree that was just started or woken runs; a refusal when it does not.

        What ended without a word is not waited for.
        """
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            # In this order: what ends says why before, and the tree before it may still hold the lock.
            has_begun = (self.folder / layout.BEGUN).exists()
            lives = self.lives()
            because = self._told_woken()
            if because != _NOTHING_YET:
                return None if because is None else Refused(because=because, alive=False)
            if has_begun and not lives:
                return Refused(because="It ended while it was being woken.", alive=False)
            time.sleep(_POLL_S)
        return Refused(because="Waking it takes too long.", alive=self.lives())

    def forbid_orphan(self, because: str | None) -> None:
        """A tree whose caller dies does not save itself, for this reason; None = it does.

        Raises
        ------
        OSError
            When the disk refuses.
        """
        path = self.folder / layout.NOT_ALONE
        if because is None:
            path.unlink(missing_ok=True)
        elif layout.told(path) != because:
            layout.tell(path, because)

    def why_unsaved(self) -> str | None:
        """Why a tree whose caller died has not saved itself; None where nothing was said."""
        return layout.told(self.folder / layout.UNSAVED)

    def why_parked(self) -> str | None:
        """Of a tree that was woken: why its GPU memory is not on a GPU; None where it is, or was none."""
        return layout.told(self.folder / layout.PARKED)

    def lives(self) -> bool:
        """Whether a tree lives in the folder, or is being saved or woken there."""
        return layout.is_held(self.folder)

    def settled(self, timeout_s: float) -> bool:
        """Wait until no tree lives in the folder: one that saves itself needs its time."""
        end = time.monotonic() + timeout_s
        while self.lives():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)
        return True

    def has_image(self) -> bool:
        """Whether an image lies here that was not woken; whether it can be read is another matter."""
        return layout.complete_image(self.folder) is not None

    def image(self) -> Image | None:
        """The image that can be woken; None while there is none, or it was woken."""
        if not self.folder.is_dir() or self.lives():
            return None
        place = layout.complete_image(self.folder)
        return None if place is None else images.read(place)

    def take_back(self) -> bool:
        """Whether the image stays, although somebody is waking it: nothing of it runs then, or will."""
        return layout.take_back(self.folder)

    def keep_refused(self) -> bool:
        """Whether an image whose wake was refused, for what passes, can be woken again.

        What was to wake it ends a moment after it has said so.
        """
        return self.settled(_REST_S) and layout.keep_refused(self.folder)

    def remove(self) -> None:
        """Remove the folder with the image. A tree that lives there keeps both."""
        if not self.lives():
            layout.discard(self.folder)

    def _init(self, what: str, alive: int | None) -> list[str]:
        words = self.words(what, alive=alive)
        # A start's outcome is read from files: those of an earlier start must not be there.
        for name in (layout.BEGUN, layout.WOKEN, layout.PARKED):
            (self.folder / name).unlink(missing_ok=True)
        return words

    def pid(self) -> int | None:
        """The process that stands for the tree which began here last; None where that is not known."""
        return layout.begun_by(self.folder)

    def words(self, what: str, *more: str, alive: int | None = None) -> list[str]:
        """What starts it, for who may not look into its folder; it must be as for a new start."""
        if alive is not None:
            more = ("--alive", str(alive), *more)
        if self.starter is not None:
            return [*self._asking(self.starter, what), *more]
        options = ["--criu", json.dumps(self.criu.command), "--orphaned", self.orphaned]
        if self.output is not None:
            options += ["--output", str(self.output.absolute())]
        if self.close_connections:
            options.append("--close-connections")
        if self.preload is not None:
            options += ["--preload", str(self.preload)]
        if self.driver is not None:
            options += ["--driver", str(self.driver)]
        if self.account is not None:
            options += ["--account", self.account.as_word()]
        # Isolated and without site: nothing of the user's is loaded beside the tree.
        own = [sys.executable, "-I", "-S", str(INIT), str(self.folder.absolute()), what]
        return [*own, *options, *more]

    def _asking(self, starter: Path, what: str) -> list[str]:
        """Root's program has a CRIU of its own choice; what it does not know of it is not asked."""
        output = self.output or self.folder.with_name("output.log")
        options = ["--output", str(output.absolute()), "--orphaned", self.orphaned]
        if self.close_connections:
            options.append("--close-connections")
        if self.preload is not None:
            options += ["--preload", str(self.preload)]
        own = [sys.executable, "-I", "-S", str(ASKER), str(starter)]
        return [*own, str(self.folder.absolute()), what, *options]

    def _told_woken(self) -> str | None:
        text = layout.read_note(self.folder / layout.WOKEN)
        if text is None:
            return _NOTHING_YET
        told = json.loads(text)
        return None if told is None else str(told)


_NOTHING_YET = "\0"


def this_process() -> int | None:
    """A descriptor that tells when this process is gone, for the trees that it starts.

    What starts runs a moment later. Its parent may have died by then, and it would wait for the one
    that took its place. None where the kernel, or a filter of system calls, refuses it.
    """
    return _descriptor_of(os.getpid())


@cache
def _descriptor_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _connected(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # By descriptor: the path may be longer than an address may be.
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{place}/{layout.CONTROL}")
        finally:
            os.close(place)
    except OSError:
        connection.close()
        raise
    return connection
