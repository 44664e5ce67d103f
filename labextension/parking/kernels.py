"""The kernels of one server: their GPU memory goes to the host together, or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gpucommons.gpu.hibernation.tree import HibernatableTree, Refused
from gpucommons.gpu.parking import processes
from gpucommons.gpu.parking.parking import NotParked, park, unpark

log = logging.getLogger("gpucommons.labextension")

#: Far above any copy: a driver that is interrupted may cost the process.
_PATIENCE_S = 600.0
OTHERS = (
    "A terminal or another program of this server holds GPU memory, and only that of kernels is parked:"
    " end it first."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnHost:
    """One kernel whose GPU memory is in the machine's own."""

    kernel_id: str
    #: Where it lives in a tree: whoever is inside knows its processes.
    tree: HibernatableTree | None = None
    pids: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Kernels:
    """Called from one thread at a time, and never from the server's."""

    server: Any
    parked: list[OnHost] = field(default_factory=list)

    def park(self, driver: Path) -> str | int:
        """Park all; how many MiB the machine's own memory grew by, or why not, and then all run on."""
        kernels = self._live()
        every = {kernel_id: _with_children(pid) for kernel_id, (pid, _) in kernels.items()}
        mine = {pid for pids in every.values() for pid in pids}
        if any(map(processes.holds_gpu, _others(mine))):
            return OTHERS
        before = processes.resident_bytes(mine)
        for kernel_id, (_, tree) in kernels.items():
            outcome = _park(driver, kernel_id, tree, every[kernel_id])
            if isinstance(outcome, str):
                self.unpark(driver)
                return outcome
            if outcome is not None:
                self.parked.append(outcome)
        return max(0, processes.resident_bytes(mine) - before) >> 20

    def unpark(self, driver: Path) -> str | None:
        """Give all their memory back; a sentence where one does not get it, which stays parked then."""
        because = None
        for one in tuple(self.parked):
            stays = _unpark(driver, one)
            if stays is None or one.kernel_id not in self.server.kernel_manager:
                self.parked.remove(one)
            else:
                log.warning("kernel %s is not back on its GPU: %s", one.kernel_id, stays)
                because = because or stays
        return because

    def _live(self) -> dict[str, tuple[int, HibernatableTree | None]]:
        manager = self.server.kernel_manager
        found = {}
        for kernel_id in manager.list_kernel_ids():
            provisioner = getattr(manager.get_kernel(kernel_id), "provisioner", None)
            pid = getattr(provisioner, "pid", None)
            if pid is not None:
                found[kernel_id] = (pid, getattr(provisioner, "tree", None))
        return found


def _park(
    driver: Path, kernel_id: str, tree: HibernatableTree | None, pids: Iterable[int]
) -> OnHost | str | None:
    """What is parked of it; None where it holds nothing of a GPU."""
    if tree is not None:
        count = tree.park(driver, _PATIENCE_S)
        if isinstance(count, Refused):
            return count.because if count.alive else None
        return OnHost(kernel_id=kernel_id, tree=tree) if count else None
    answer = park(driver, tuple(pids))
    if isinstance(answer, NotParked):
        return None if answer.holds_nothing else answer.because
    return OnHost(kernel_id=kernel_id, pids=answer.pids, gpus=answer.gpus)


def _unpark(driver: Path, one: OnHost) -> str | None:
    if one.tree is not None:
        refused = one.tree.unpark(driver, _PATIENCE_S)
        return None if refused is None else refused.because
    answer = unpark(driver, one.pids, gpus=one.gpus)
    return answer.because if isinstance(answer, NotParked) and not answer.holds_nothing else None


def _with_children(pid: int) -> tuple[int, ...]:
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return ()
    return (pid, *(each.pid for each in below))


def _others(kernels: set[int]) -> tuple[int, ...]:
    """What this server has started besides its kernels."""
    return processes.with_driver(
        pid for pid in _with_children(os.getpid()) if pid not in kernels and pid != os.getpid()
    )
