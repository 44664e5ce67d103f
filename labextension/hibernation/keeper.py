"""The keeper of one server's kernels: its folder, its limits, and whether this machine can do it.

The folder belongs to a server of a user and its root folder, and to one process at a time: kernels of
a server that runs beside this one are not this one's to wake.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote
from weakref import WeakKeyDictionary

from gpucommons.gpu.hibernation.process_image import Image
from gpucommons.gpu.hibernation.tree import HibernatableTree
from gpucommons.labextension.clock import wall_clock_ms
from gpucommons.labextension.hibernation.after_wake import Listener
from gpucommons.labextension.hibernation.keeping_limits import Limits
from gpucommons.labextension.hibernation.kept_kernels_file import KeptKernel, read_kept, write_kept
from gpucommons.labextension.hibernation.lost_kernels import Loss, Losses
from gpucommons.labextension.hibernation.records import Record, read_record, write_record

_LOCK, _KERNELS, _TREE = "lock", "kernels", "tree"
#: What is over and waits for its removal.
_OVER = "over"
#: A server of this user that removes what is over has another's folder for a moment.
OPEN_PATIENCE_S = 2.0
_LOOK_AGAIN_S = 0.01
#: Of a server's name in the name of its folder.
_MOST_NAME = 100


def server_folder(base: Path, server_name: str, root: str) -> Path:
    """Where the kernels of this server are kept."""
    digest = hashlib.sha256(root.encode()).hexdigest()[:12]
    return base / f"{quote(server_name, safe='')[:_MOST_NAME]}-{digest}"


def has_kernels(folder: Path) -> bool:
    """Whether anything of a kernel lies in a server's folder."""
    kernels = folder / _KERNELS
    return kernels.is_dir() and any(kernels.iterdir())


def images_below(folder: Path, make_tree: Callable[[Path], HibernatableTree]) -> Iterator[Image]:
    """What is kept in a server's folder, also of one that is not this process'."""
    for kernel in (folder / _KERNELS).iterdir():
        image = make_tree(kernel / _TREE).image()
        if image is not None:
            yield image


def remove_over(folder: Path) -> None:
    """Remove what was put away in a server's folder, also by a process that was killed meanwhile."""
    shutil.rmtree(folder / _OVER, ignore_errors=True)


def _lock(folder: Path, patience_s: float) -> int | None:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= end:
                os.close(lock)
                return None
            time.sleep(_LOOK_AGAIN_S)
        else:
            return lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Woken:
    """A kernel that came back as it was."""

    kernel_id: str
    #: Of its notebook; "" where it belonged to none.
    path: str
    at_ms: int
    #: Why its GPU memory is not on a GPU, so that a cell which uses it waits; "" = it is, or was none.
    parked: str = ""
    #: It was saved on another node.
    moved: bool = False


@dataclass(kw_only=True)
class Keeper:
    """See the module; made by :meth:`open`."""

    folder: Path
    limits: Limits
    make_tree: Callable[[Path], HibernatableTree]
    #: Why this machine cannot do it, in a sentence; None where it can.
    hindrance: Future[str | None]
    losses: Losses
    #: The node that this server is on; "" = not known.
    node: str = ""
    #: Kernels that are woken when they are started next, by their ids.
    waking: dict[str, Record] = field(default_factory=dict)
    #: Kernels whose images stay while others run under their ids, as this machine cannot wake them.
    waiting: set[str] = field(default_factory=set)
    #: By an admin; what was kept before goes then.
    is_switched_off: bool = False
    #: Since this server started.
    woken: list[Woken] = field(default_factory=list)
    #: How many variables were stored of a kernel that could not be kept.
    count_stored: Callable[[str], int] = lambda _kernel_id: 0
    #: Called when `message` is another one.
    changed: Callable[[], None] = lambda: None
    #: Keeps what cells print; None: nobody does.
    listener: Listener | None = None
    _lock: int = -1

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        limits: Limits,
        make_tree: Callable[[Path], HibernatableTree],
        hindrance: Future[str | None],
        patience_s: float = 0,
    ) -> Self | None:
        """The keeper of this folder; None where another process has it."""
        (folder / _KERNELS).mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(folder, patience_s)
        if lock is None:
            return None
        return cls(
            folder=folder,
            limits=limits,
            make_tree=make_tree,
            hindrance=hindrance,
            losses=Losses(folder),
            _lock=lock,
        )

    def at(self, folder: Path) -> Self:
        """Of another folder with the same limits, for who only reads: it has no lock."""
        return type(self)(
            folder=folder,
            limits=self.limits,
            make_tree=self.make_tree,
            hindrance=self.hindrance,
            losses=Losses(folder),
        )

    def close(self) -> None:
        """The next server may have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def why_not(self) -> str | None:
        """Why this machine cannot do it; the first to ask waits for the self-test."""
        return await asyncio.wrap_future(self.hindrance)

    def kernel_folder(self, kernel_id: str) -> Path:
        """Everything of one kernel."""
        return self.folder / _KERNELS / kernel_id

    def tree(self, kernel_id: str) -> HibernatableTree:
        """A kernel's processes."""
        return self.make_tree(self.kernel_folder(kernel_id) / _TREE)

    def kernel_ids(self) -> list[str]:
        """Kernels of which anything lies here."""
        return sorted(each.name for each in (self.folder / _KERNELS).iterdir() if each.is_dir())

    def note(self, record: Record) -> None:
        """Keep what is known of a kernel now."""
        write_record(self.kernel_folder(record.kernel_id), record)

    def record(self, kernel_id: str) -> Record | None:
        """What the last server knew of a kernel."""
        return read_record(self.kernel_folder(kernel_id))

    def forget(self, kernel_id: str) -> None:
        """Nothing of this kernel stays."""
        folder = self.kernel_folder(kernel_id)
        if folder.is_dir():
            self.tree(kernel_id).remove()
            shutil.rmtree(folder, ignore_errors=True)

    def put_away(self, kernel_id: str) -> None:
        """As :meth:`forget`, at once: what is large is removed by :func:`remove_over`, without the lock.

        Raises
        ------
        OSError
            When the disk refuses.
        """
        over = self.folder / _OVER
        over.mkdir(mode=0o700, exist_ok=True)
        self.kernel_folder(kernel_id).rename(over / f"{kernel_id}-{time.time_ns()}")

    def lose(self, record: Record, because: str) -> None:
        """The variables of this kernel are gone; its notebook is told."""
        self.losses.add(
            Loss(
                kernel_id=record.kernel_id, path=record.path, because=because, at_ms=wall_clock_ms()
            )
        )

    def wait(self, record: Record, because: str) -> None:
        """This kernel stays on the disk for a later start; until then another runs under its id."""
        self.waiting.add(record.kernel_id)
        self.losses.add(
            Loss(
                kernel_id=record.kernel_id,
                path=record.path,
                because=because,
                at_ms=wall_clock_ms(),
                kept_until_ms=self.kept_until_ms(record),
            )
        )

    def waiting_bytes(self) -> int:
        """What the images of those take on the disk."""
        images = (self.tree(each).image() for each in tuple(self.waiting))
        return sum(image.bytes for image in images if image is not None)

    def say_woken(self, record: Record, parked: str | None = None) -> None:
        """This kernel is back; ``parked`` says why its GPU memory is not."""
        self.losses.close(record.kernel_id)
        self.woken.append(
            Woken(
                kernel_id=record.kernel_id,
                path=record.path,
                at_ms=wall_clock_ms(),
                parked=parked or "",
                moved=bool(record.node and self.node) and record.node != self.node,
            )
        )
        self.changed()

    def message(self) -> dict[str, object]:
        """What every open page is told of kernels that came back and of those that did not."""
        told = {"kernel_id", "path", "because", "kept_until_ms"}
        lost = [
            {**one.model_dump(include=told), "stored": self.count_stored(one.kernel_id)}
            for one in self.losses
        ]
        return {"type": "kernels", "lost": lost, "woken": [asdict(one) for one in self.woken]}

    def say_lost(self, kernel_id: str, record: Record | None, because: str) -> None:
        """What is found at a start; what was said when it was to be saved says more."""
        noted_ms = 0 if record is None else record.noted_ms
        if any(
            one.kernel_id == kernel_id and one.at_ms >= noted_ms and not one.kept_until_ms
            for one in self.losses
        ):
            return
        told = (each.path for each in read_kept(self.folder) if each.id == kernel_id)
        path = record.path if record is not None else next(told, "")
        self.losses.add(
            Loss(kernel_id=kernel_id, path=path, because=because, at_ms=wall_clock_ms())
        )

    def limits_for(self, record: Record | None) -> Limits:
        """As they were when it was saved: its user was told the date."""
        if record is None or record.kept_days is None:
            return self.limits
        return replace(self.limits, days=record.kept_days)

    def kept_until_ms(self, record: Record) -> int:
        """Until when a kernel is kept. A record may be older than the image, by days, where a kernel
        that did nothing saved itself.
        """
        image = self.tree(record.kernel_id).image()
        saved_ms = record.noted_ms if image is None else image.made_ms
        return self.limits_for(record).kept_until_ms(saved_ms)

    def has_image(self, kernel_id: str) -> bool:
        """Whether this kernel could be woken."""
        return self.tree(kernel_id).image() is not None

    def kept(self) -> Iterator[KeptKernel]:
        """What lies on the disk now."""
        for kernel_id in self.kernel_ids():
            record, image = self.record(kernel_id), self.tree(kernel_id).image()
            if record is not None and image is not None:
                yield KeptKernel(
                    id=kernel_id,
                    name=record.kernel_name,
                    path=record.path,
                    bytes=image.bytes,
                    kept_until_ms=self.kept_until_ms(record),
                )

    def write_kept(self) -> tuple[KeptKernel, ...]:
        """Say what is kept."""
        kernels = tuple(self.kept())
        write_kept(self.folder, kernels)
        return kernels


#: By the manager of a server's kernels: Jupyter makes a provisioner without a word of ours.
_KEEPERS: WeakKeyDictionary[Any, Keeper] = WeakKeyDictionary()


def set_keeper(kernel_manager: Any, keeper: Keeper) -> None:
    """Kernels of this manager are kept from now on."""
    _KEEPERS[kernel_manager] = keeper


def keeper_of(kernel_manager: Any) -> Keeper | None:
    """Who keeps this manager's kernels; None = nobody."""
    return _KEEPERS.get(kernel_manager)
