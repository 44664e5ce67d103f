"""Starts a kernel in a tree that can be saved, or wakes it from there; else as Jupyter always does.

Jupyter finds it by its entry point. What holds the process is a small Python of ours above the
kernel, to which signals go and whose end is the kernel's.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Any

from jupyter_client.connect import LocalPortCache
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from gpucommons.gpu.connections.listening import hold_tcp
from gpucommons.gpu.hibernation.files_image import (
    let_files_grow,
    listening_ports,
    move_ports,
)
from gpucommons.gpu.hibernation.tree import HibernatableTree, this_process
from gpucommons.labextension.hibernation.keeper import Keeper, keeper_of
from gpucommons.labextension.hibernation.records import Record

#: Of the entry point.
NAME = "gpucommons-hibernation"
PORTS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")


class HibernatingProvisioner(LocalProvisioner):
    """Kernels of this server, kept where that works."""

    #: None: an ordinary kernel.
    tree: HibernatableTree | None = None
    #: Started from an image.
    is_woken = False
    #: Of an image, with the ports to which it was moved.
    moved: Record | None = None
    _keeper: Keeper | None = None
    #: Of what Jupyter started.
    _own_pid: int | None = None
    #: Its ports, kept from others for as long as it runs, until its next restart.
    _held: tuple[socket.socket, ...] = ()

    @property
    def is_beside(self) -> bool:
        """Whether its processes are no descendants of the server, as root's program started them."""
        return self.tree is not None and self.tree.starter is not None

    @property
    def pid(self) -> int | None:
        """Of what stands above the kernel's processes; Jupyter sets it."""
        tree = self.tree if self.is_beside else None
        return self._own_pid if tree is None else tree.pid() or self._own_pid

    @pid.setter
    def pid(self, pid: int | None) -> None:
        self._own_pid = pid

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Put the small Python before the kernel's command."""
        self.tree, self.is_woken = None, False
        keeper = self._keeper = self._suitable_keeper()
        if keeper is None or await keeper.why_not() is not None:
            return await self._as_ever(kwargs)
        if self.kernel_id in keeper.waiting:
            # A tree that starts in its folder would remove its image.
            return await self._as_ever(kwargs)
        record = keeper.waking.pop(self.kernel_id, None)
        self.tree = keeper.tree(self.kernel_id)
        if record is not None:
            self.moved = self._take_connection(record, self.tree)
            self._note(self.moved)
        kwargs = await self._as_ever(kwargs)
        alive = this_process()
        handed = () if alive is None else (alive,)
        if record is not None:
            self.is_woken = True
            return {**kwargs, "cmd": self.tree.wake_command(alive=alive), "pass_fds": handed}
        keeper.kernel_folder(self.kernel_id).mkdir(mode=0o700, exist_ok=True)
        command = self.tree.run_command(kwargs["cmd"], alive=alive)
        return {**kwargs, "cmd": command, "pass_fds": handed}

    async def _as_ever(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        self._choose_ports()
        done: dict[str, Any] = await super().pre_launch(**kwargs)
        return done

    def _choose_ports(self) -> None:
        """A new kernel's ports, which nobody else is given by chance before it listens, seconds later.

        Jupyter lets them go at once; a kernel that finds one taken ends, and is started with the same
        again and again until it is given up. One that cannot listen beside us can at its second start.
        """
        self._let_ports_go()
        manager: Any = self.parent
        if self.ports_cached or manager is None or not manager.cache_ports:
            return
        if sys.platform != "linux":
            return
        self._held = tuple(_held_port(manager.ip) for _ in PORTS)
        for name, held in zip(PORTS, self._held, strict=True):
            setattr(manager, name, held.getsockname()[1])
        self.ports_cached = True

    def _let_ports_go(self) -> None:
        for held in self._held:
            held.close()
        self._held = ()

    def _suitable_keeper(self) -> Keeper | None:
        """Connections other than plain TCP are not moved over a save."""
        manager = self.parent
        if manager is None or manager.transport != "tcp":
            return None
        if getattr(manager, "transport_encryption", "disabled") not in ("disabled", False):
            return None
        return keeper_of(manager.parent)

    def _take_connection(self, record: Record, tree: HibernatableTree) -> Record:
        """The kernel listens at other ports than before, as everybody on this machine could see those: who
        waits there would be sent what is meant for the kernel, or take its place while it wakes.

        The record of it is for a server that comes after this one was killed, before it notes its own.
        What else listens in its tree does so where its own programs expect it, unless that port is taken.
        """
        manager: Any = self.parent
        info, image = dict(record.connection), tree.image()
        self._let_ports_go()
        if image is not None:
            ports = listening_ports(image)
            # Where a server was killed as it moved them, the image knows how far it came.
            info |= {name: _now(info[name], record, ports) for name in PORTS}
            own, others = _of_kernel(info, ports)
            moved = {port: self._new_port(info["ip"], reuses=own[port]) for port in own}
            taken = _taken(info["ip"], others)
            self._note(record.model_copy(update={"connection": info, "moving": moved}))
            move_ports(let_files_grow(image), moved | taken)
            info = info | {name: moved.get(info[name], info[name]) for name in PORTS}
            if taken:
                self.log.info("ports of kernel %s are taken and moved: %s", self.kernel_id, taken)
        for name in PORTS:
            setattr(manager, name, 0)
        manager.load_connection_info(info)
        # So that the file is written anew, and no other ports are looked for.
        manager._connection_file_written = False
        self.ports_cached = True
        return record.model_copy(update={"connection": info, "moving": {}})

    def _note(self, record: Record) -> None:
        """Also on a full disk its server knows it."""
        if self._keeper is not None:
            with suppress(OSError):
                self._keeper.note(record)

    def _new_port(self, address: str, *, reuses: bool) -> int:
        if not reuses:
            # It must have it alone.
            return int(LocalPortCache.instance().find_available_port(address))
        held = _held_port(address)
        self._held = (*self._held, held)
        return int(held.getsockname()[1])

    async def cleanup(self, restart: bool = False) -> None:
        """A kernel that its user ended leaves nothing behind; one that waits under its id stays."""
        await super().cleanup(restart=restart)
        self._let_ports_go()
        keeper = self._keeper
        if keeper is not None and not restart and self.kernel_id not in keeper.waiting:
            keeper.forget(self.kernel_id)


def _held_port(address: str) -> socket.socket:
    """Somebody may have taken it since the system gave it."""
    cache = LocalPortCache.instance()
    while True:
        port = cache.find_available_port(address)
        try:
            return hold_tcp(port, address)
        except OSError:
            cache.return_port(port)


def _now(port: int, record: Record, ports: Container[int]) -> int:
    """Where the image listens that was, or was to be, moved from this port."""
    moved = record.moving.get(port, port)
    return moved if moved in ports and port not in ports else port


def _of_kernel(
    info: Mapping[str, Any], ports: Mapping[int, bool]
) -> tuple[dict[int, bool], dict[int, bool]]:
    """The kernel's own ports of these, and those of other programs in its tree."""
    own = {info[name] for name in PORTS}
    return (
        {port: reuses for port, reuses in ports.items() if port in own},
        {port: reuses for port, reuses in ports.items() if port not in own},
    )


def _taken(address: str, ports: Mapping[int, bool]) -> dict[int, int]:
    """Which of these a server could not get now, and others in their place."""
    cache = LocalPortCache.instance()
    return {
        port: cache.find_available_port(address)
        for port, reuses in ports.items()
        if not _is_free(address, port, reuses=reuses)
    }


def _is_free(address: str, port: int, *, reuses: bool) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuses))
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
    return True
